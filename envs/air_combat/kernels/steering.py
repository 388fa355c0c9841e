"""Steering of scripted pilots: turn the velocity towards a direction, hold a heading, aim, and avoid the ground.

`steer` finds the load factor and the roll that turn the velocity towards a direction. The wanted acceleration
k V angle, plus gravity's share, lies in the plane of lift after a roll.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.kernels.state import Command, Plane
from sparring.envs.air_combat.kernels.view import View, direction_of

ROLL_MOST = wp.constant(rules.ROLL_MOST)
LOAD_MOST = wp.constant(rules.LOAD_MOST)
G = wp.constant(9.80665)
TURN_GAIN = wp.constant(2.0)  # Rate of turn wanted per angle, 1/s.
ROLL_GAIN = wp.constant(4.0)
CRUISE = wp.constant(0.25)  # Throttle of level flight at about 200 m/s.
CRUISE_SPEED = wp.constant(200.0)  # m/s.
MILITARY = wp.constant(0.77)
SAFE_HEIGHT = wp.constant(450.0)  # m, below which a dive is always broken off.
TOP_HEIGHT = wp.constant(rules.CEILING - 1500.0)
FIRE_RANGE = wp.constant(900.0)  # m.
CONE_COS = wp.constant(rules.CONE_COS)


@wp.func
def lift_along(me: Plane, pull: wp.vec3, most: float, throttle: float) -> Command:
    """Return the command that lifts by `pull` (g, across the velocity): the roll towards it, and the load factor."""
    c = Command()
    c.throttle = throttle
    ahead = direction_of(me)
    right = wp.cross(ahead, me.up)
    lift = wp.cross(right, ahead)
    across = wp.dot(pull, right)
    above = wp.dot(pull, lift)
    roll = wp.atan2(across, above)  # rad, from the lift direction to the pull
    load = wp.length(pull)
    # Pull only as far as the lift points the right way; a small correction downwards is pushed, not rolled.
    c.load = wp.clamp(load * wp.max(wp.cos(roll), 0.0), 0.0, most)
    if above < 0.0 and load < 1.2:
        roll = 0.0
        c.load = wp.max(above, -1.0)
    c.roll_rate = wp.clamp(ROLL_GAIN * roll, -ROLL_MOST, ROLL_MOST)
    return c


@wp.func
def steer(me: Plane, direction: wp.vec3, most: float, throttle: float) -> Command:
    """Return the command that turns the velocity towards `direction` with a load factor of at most `most`."""
    ahead = direction_of(me)
    right = wp.cross(ahead, me.up)
    lift = wp.cross(right, ahead)
    cosine = wp.clamp(wp.dot(ahead, direction), -1.0, 1.0)
    side = direction - ahead * cosine
    length = wp.length(side)
    if length < 1.0e-4:  # straight ahead or behind: either side works
        side = wp.where(cosine > 0.0, side, lift)
        length = wp.max(wp.length(side), 1.0e-4)
    angle = wp.acos(cosine)  # rad, of the turn that is wanted
    # The turn uses what the limit leaves after gravity's share, or a long turn would sink.
    turn = wp.min(TURN_GAIN * angle * wp.length(me.vel) / G, wp.sqrt(wp.max(most * most - 1.0, 0.25)))
    pull = side * (turn / length)  # g, across the velocity
    roof = wp.vec3(0.0, 0.0, -1.0)
    pull = pull + roof - ahead * wp.dot(roof, ahead)  # plus gravity's share: 1 g up, across the velocity
    return lift_along(me, pull, most, throttle)


@wp.func
def level(direction: wp.vec3, climb: float) -> wp.vec3:
    """Return a heading as a unit vector that climbs by `climb` (tangent)."""
    flat = wp.vec3(direction[0], direction[1], 0.0)
    size = wp.length(flat)
    flat = wp.where(size > 1.0e-3, flat / wp.max(size, 1.0e-3), wp.vec3(1.0, 0.0, 0.0))
    return wp.normalize(flat + wp.vec3(0.0, 0.0, -climb))


@wp.func
def cruise(me: Plane) -> float:
    """Return the throttle that holds the cruising speed."""
    return wp.clamp(CRUISE + 0.03 * (CRUISE_SPEED - wp.length(me.vel)), 0.0, 1.0)  # proportional, 3 % per m/s


@wp.func
def keep_out(me: Plane, c: Command) -> Command:
    """Return a pull-out instead where a dive would meet the ground, and a descent near the ceiling."""
    height = -me.pos[2]
    speed = wp.length(me.vel)
    sink = wp.max(me.vel[2] / wp.max(speed, 1.0), 0.0)
    # Height lost by a pull-out at 4 g net: r (1 - cos gamma), with a second to roll upright.
    lost = speed * speed / (4.0 * G) * (1.0 - wp.sqrt(wp.max(1.0 - sink * sink, 0.0))) + 1.2 * sink * speed
    if height - lost < SAFE_HEIGHT:
        escape = steer(me, level(me.vel, 0.4), LOAD_MOST, 1.0)
        escape.trigger = c.trigger
        return escape
    if height > TOP_HEIGHT and me.vel[2] < 0.0:
        descent = steer(me, level(me.vel, -0.2), LOAD_MOST, c.throttle)
        descent.trigger = c.trigger
        return descent
    return c


@wp.func
def aimed(me: Plane, v: View, lead: bool) -> bool:
    """Return whether to fire: in range, within the cone, and with single rounds on a course to pass within 12 m."""
    cosine = CONE_COS
    if lead:
        cosine = wp.max(cosine, 1.0 - 0.5 * (12.0 / v.distance) * (12.0 / v.distance))  # cos(x) = 1 - x^2 / 2
    return v.distance < FIRE_RANGE and wp.dot(me.nose, v.aim) > cosine


@wp.func
def track(me: Plane, v: View) -> wp.vec3:
    """Return where `steer` must go for the nose to stay on the point of aim.

    The nose is alpha above the velocity, and `steer` lags behind a bearing that turns by its rate over the gain.
    """
    return wp.normalize(v.aim - (me.nose - direction_of(me)) + v.turn / TURN_GAIN)
