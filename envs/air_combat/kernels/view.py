"""One aircraft as seen from another: range, angles, point of aim, and the observation built from them.

Observations have the names of `rules.OBSERVATION`. They depend on height but not on heading or place.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import math

import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.kernels.state import Plane
from sparring.envs.air_combat.kernels.tables import standard_air

ROUND_SPEED = wp.constant(rules.ROUND_SPEED)
ROUND_TIME = wp.constant(rules.ROUND_TICKS * rules.DT)
SLOWING = wp.constant(0.5 * rules.ROUND_DRAG)  # Longer flight by drag, to first order: t (1 + drag t / 2).
MAGAZINE = wp.constant(float(rules.MAGAZINE))
G2 = wp.constant(2.0 * 9.80665)
PI = wp.constant(math.pi)
FINE_ANGLE = wp.constant(rules.FINE_ANGLE)


@wp.struct
class View:
    """The opponent `it` seen by `me`."""

    distance: float
    """m."""
    bearing: wp.vec3
    """Unit vector to it, world axes."""
    aim: wp.vec3
    """Unit vector to point the nose along: where a round meets it, with its drop; for a cone the bearing."""
    turn: wp.vec3
    """Rate of the bearing, rad/s: its change per second."""
    closure: float
    """Speed of approach, m/s."""
    off_nose: float
    """Cosine of the angle between my nose and the bearing (antenna train angle)."""
    off_tail: float
    """Cosine of the angle between its velocity and the bearing: 1 behind it, -1 in front (aspect)."""


@wp.func
def direction_of(plane: Plane) -> wp.vec3:
    """Return the direction of flight."""
    return plane.vel / wp.max(wp.length(plane.vel), 1.0)


@wp.func
def see(me: Plane, it: Plane, lead: bool) -> View:
    """Return a pilot's view; with `lead`, `aim` accounts for the flight time of rounds."""
    v = View()
    gap = it.pos - me.pos
    v.distance = wp.max(wp.length(gap), 1.0)
    v.bearing = gap / v.distance
    relative = it.vel - me.vel
    v.closure = -wp.dot(relative, v.bearing)
    v.turn = (relative + v.bearing * v.closure) / v.distance  # the part of the relative velocity across the bearing
    v.off_nose = wp.dot(me.nose, v.bearing)
    v.off_tail = wp.dot(direction_of(it), v.bearing)
    v.aim = v.bearing
    if not lead:
        return v
    # A round leaves along the nose with the own velocity added: aim at the relative path, above it by the drop.
    time = wp.clamp(v.distance / wp.max(ROUND_SPEED + v.closure, 300.0), 0.0, ROUND_TIME)
    time = wp.min(time * (1.0 + SLOWING * time), ROUND_TIME)
    point = gap + relative * time - wp.vec3(0.0, 0.0, 4.9 * time * time)  # g t^2 / 2 above, z pointing down
    v.aim = wp.normalize(point)
    return v


@wp.func
def write_vector(
    obs: wp.array2d[float], row: int, at: int, vector: wp.vec3, nose: wp.vec3, right: wp.vec3, up: wp.vec3
) -> None:
    """Write a vector's parts along nose, right wing and belly."""
    obs[row, at] = wp.dot(vector, nose)
    obs[row, at + 1] = wp.dot(vector, right)
    obs[row, at + 2] = -wp.dot(vector, up)


@wp.func
def observe(obs: wp.array2d[float], row: int, me: Plane, it: Plane, time_left: float, lead: bool) -> None:
    """Write what one seat sees to a row of `obs` [2N, D]."""
    v = see(me, it, lead)
    right = wp.cross(me.nose, me.up)
    speed = wp.length(me.vel)
    height = -me.pos[2]
    obs[row, 0] = speed / 300.0
    obs[row, 1] = speed / standard_air(height)[1]
    obs[row, 2] = height / 10000.0
    obs[row, 3] = (height + speed * speed / G2) / 10000.0  # energy height, h + v^2 / 2g
    obs[row, 4] = -me.vel[2] / wp.max(speed, 1.0)
    obs[row, 5] = -me.nose[2]
    obs[row, 6] = -me.up[2]
    obs[row, 7] = -right[2]
    obs[row, 8] = me.load / 9.0
    obs[row, 9] = me.roll_rate / 4.0
    obs[row, 10] = me.alpha / 0.5
    obs[row, 11] = me.power / 100.0
    obs[row, 12] = me.hp
    obs[row, 13] = float(me.rounds) / MAGAZINE
    obs[row, 14] = time_left
    obs[row, 15] = wp.exp(-height / 500.0)  # near 1 only close to the ground
    write_vector(obs, row, 16, v.bearing, me.nose, right, me.up)
    obs[row, 19] = wp.min(v.distance / 5000.0, 4.0)
    obs[row, 20] = wp.exp(-v.distance / 1000.0)
    obs[row, 21] = v.closure / 300.0
    write_vector(obs, row, 22, v.aim, me.nose, right, me.up)
    write_vector(obs, row, 25, (it.vel - me.vel) / 300.0, me.nose, right, me.up)
    write_vector(obs, row, 28, it.nose, me.nose, right, me.up)
    write_vector(obs, row, 31, it.up, me.nose, right, me.up)
    obs[row, 34] = wp.length(it.vel) / 300.0
    obs[row, 35] = (-it.pos[2] - height) / 2000.0
    obs[row, 36] = it.load / 9.0
    obs[row, 37] = it.hp
    obs[row, 38] = v.off_nose
    obs[row, 39] = v.off_tail
    # The roll that brings the aim over the nose, and the angle that is then pulled: far and near.
    across = wp.dot(v.aim, right)
    above = wp.dot(v.aim, me.up)
    side = wp.max(wp.sqrt(across * across + above * above), 1.0e-6)
    angle = wp.acos(wp.clamp(wp.dot(v.aim, me.nose), -1.0, 1.0))
    obs[row, 40] = across / side
    obs[row, 41] = above / side
    obs[row, 42] = angle / PI
    obs[row, 43] = wp.min(angle / FINE_ANGLE, 1.0)
