"""The ground: height loss of a pull-out, a limit that starts one in time, and observations of the ground.

A pull-out is predicted by integrating the path's angle gamma at constant speed V. The lift rolls upright, and the load
n builds up to the wing's value at this speed. The path turns by `gamma' = (n cos(roll) - cos(gamma)) g / V` until it is
level.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import warp as wp

from sparring.envs.air_combat.airframe import fighter
from sparring.envs.air_combat.kernels.state import Command, Plane
from sparring.envs.air_combat.kernels.steering import LOAD_MOST, G, lift_along
from sparring.envs.air_combat.kernels.tables import standard_air
from sparring.envs.air_combat.kernels.view import direction_of

LOAD_LAG, LOAD_RATE = wp.constant(fighter.LOAD_LAG_S), wp.constant(fighter.LOAD_RATE)
ROLL_SURE = wp.constant(2.0)  # rad/s, reached even at high lift.
ROLL_LAG = wp.constant(0.4)  # s.
STEP_S = wp.constant(0.15)
STEPS = wp.constant(60)  # 9 s: a vertical dive at 300 m/s takes 6.
DECIDING_S = wp.constant(0.1)  # Until the command acts.
SLOW_PULL_OUT = wp.constant(250.0)  # m/s, below which a pull-out takes full throttle.
HIGH = wp.constant(3000.0)  # m of height above which a pull-out is not computed, since it ends above 1 km.
FAR_TIME = wp.constant(10.0)  # s until the ground at which the observation saturates.


@wp.func
def pull_out(me: Plane, wing: wp.vec2) -> float:
    """Return the height in m lost before a full pull-out has the path level; `wing` is `Airframe.pull_out`."""
    speed = wp.max(wp.length(me.vel), 1.0)
    ahead = me.vel / speed
    lifting = wp.normalize(me.up - ahead * wp.dot(me.up, ahead))
    flat = wp.sqrt(wp.max(1.0 - ahead[2] * ahead[2], 0.0))  # cos(gamma)
    gamma = float(wp.atan2(-ahead[2], flat))
    # Roll wanted, to the right, and what the present rate adds to it while it is stopped.
    roll = float(wp.atan2(wp.dot(wp.cross(ahead, lifting), wp.vec3(0.0, 0.0, -1.0)), -lifting[2]))
    away = wp.max(wp.where(roll > 0.0, -me.roll_rate, me.roll_rate), 0.0)
    roll = wp.min(wp.abs(roll) + away * ROLL_LAG, 3.1415927)
    if flat < 0.05:  # straight down: any lift is upright
        roll = 0.0
    load = float(me.load)
    most = wp.clamp(wing[0] * 0.5 * standard_air(-me.pos[2])[0] * speed * speed, 0.5, wing[1])
    height = float(-DECIDING_S * wp.max(me.vel[2], 0.0))
    lowest = float(height)
    part = STEP_S / LOAD_LAG
    for _ in range(STEPS):
        upwards = load * wp.cos(roll)
        if gamma >= 0.0 and upwards >= 1.0:
            break
        # The angle at the middle of the step: the path of a circle to second order.
        turned = (upwards - wp.cos(gamma)) * G / speed * STEP_S
        height = height + speed * wp.sin(gamma + 0.5 * turned) * STEP_S
        lowest = wp.min(lowest, height)
        gamma = wp.max(gamma + turned, -1.5707963)
        wanted = most * wp.max(wp.cos(roll), 0.0)
        load = load + wp.clamp((wanted - load) * wp.min(part, 1.0), -LOAD_RATE * STEP_S, LOAD_RATE * STEP_S)
        roll = wp.max(roll - wp.min(ROLL_SURE, roll / ROLL_LAG) * STEP_S, 0.0)
    return -lowest


@wp.func
def hold_above(me: Plane, c: Command, floor: float, wing: wp.vec2) -> Command:
    """Return a pull-out in place of a command where otherwise none would end `floor` m above the ground."""
    height = -me.pos[2]
    if height > HIGH or height - pull_out(me, wing) > floor:
        return c
    ahead = direction_of(me)
    right = wp.cross(ahead, me.up)
    roof = wp.vec3(0.0, 0.0, -1.0)
    upwards = roof - ahead * wp.dot(roof, ahead)
    if wp.length(upwards) < 0.05:
        upwards = wp.cross(right, ahead)
    throttle = wp.where(wp.length(me.vel) < SLOW_PULL_OUT, 1.0, c.throttle)
    # Once it climbs, 2 g keep it from swinging high up.
    pull = wp.where(me.vel[2] > -5.0, LOAD_MOST, 2.0)
    escape = lift_along(me, wp.normalize(upwards) * pull, LOAD_MOST, throttle)
    escape.trigger = c.trigger
    return escape


@wp.func
def time_to_ground(height: float, sink: float, pull: float) -> float:
    """Return the time in s at which height = sink t + pull t^2 / 2, at most `FAR_TIME`; all of them downwards."""
    inside = sink * sink + 2.0 * pull * height
    if inside < 0.0:
        return FAR_TIME
    rate = sink + wp.sqrt(inside)
    if rate * FAR_TIME < 2.0 * height:
        return FAR_TIME
    return wp.max(2.0 * height / rate, 0.0)


@wp.func
def ground_margin(me: Plane, wing: wp.vec2) -> float:
    """Return the height margin in m of a full pull-out, at most 1000."""
    height = -me.pos[2]
    if height > HIGH:
        return 1000.0
    return wp.min(height - pull_out(me, wing), 1000.0)


@wp.func
def ground_potential(me: Plane, wing: wp.vec2) -> float:
    """Return the potential of the ground, -1 where a pull-out meets it: -exp(-margin / 100 m)."""
    return -wp.exp(-wp.max(ground_margin(me, wing), 0.0) / 100.0)


@wp.func
def observe_ground(obs: wp.array2d[float], row: int, at: int, me: Plane, it: Plane, wing: wp.vec2) -> None:
    """Write `rules.OBSERVATION_GROUND` to columns from `at`."""
    height = wp.max(-me.pos[2], 0.0)
    obs[row, at] = wp.min(height / 1000.0, 1.0)
    obs[row, at + 1] = wp.exp(-height / 100.0)
    obs[row, at + 2] = time_to_ground(height, me.vel[2], 0.0) / FAR_TIME
    obs[row, at + 3] = time_to_ground(height, me.vel[2], G * (1.0 + me.load * me.up[2])) / FAR_TIME
    obs[row, at + 4] = wp.max(ground_margin(me, wing), -1000.0) / 1000.0
    obs[row, at + 5] = wp.clamp(-it.pos[2] / 1000.0, 0.0, 1.0)
