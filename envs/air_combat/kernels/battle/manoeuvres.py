"""Discrete actions (stick levels, manoeuvres of `rules.MANOEUVRES`), and commands to an autopilot.

A manoeuvre is flown for a step, from the present geometry, by the same `steer` as the scripted pilots. Like them, it
avoids the ground and the ceiling. If weapons are free, the gun fires automatically when on target.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.kernels.state import Command, Plane
from sparring.envs.air_combat.kernels.steering import (
    CRUISE,
    CRUISE_SPEED,
    MILITARY,
    aimed,
    cruise,
    keep_out,
    level,
    steer,
    track,
)
from sparring.envs.air_combat.kernels.view import direction_of, see

LOAD_MOST, LOAD_LEAST = wp.constant(rules.LOAD_MOST), wp.constant(rules.LOAD_LEAST)
ROLL_MOST = wp.constant(rules.ROLL_MOST)
LEVELS_PULL, LEVELS_ROLL, LEVELS_THROTTLE, _ = rules.DISCRETE
PULLS, ROLLS, THROTTLES = (wp.constant(len(levels)) for levels in (LEVELS_PULL, LEVELS_ROLL, LEVELS_THROTTLE))
PULL = wp.constant(wp.types.vector(length=len(LEVELS_PULL), dtype=float)(*LEVELS_PULL))
ROLL = wp.constant(wp.types.vector(length=len(LEVELS_ROLL), dtype=float)(*LEVELS_ROLL))
THROTTLE = wp.constant(wp.types.vector(length=len(LEVELS_THROTTLE), dtype=float)(*LEVELS_THROTTLE))
NAMES = tuple(rules.MANOEUVRES)
PURE, LEAD, LAG, BREAK, SUSTAINED, HIGH, LOW, BEAM, EXTEND, CLIMB, DIVE = (
    wp.constant(NAMES.index(name)) for name in NAMES[1:]
)
HEADING, ALTITUDE, SPEED = (
    wp.constant(most) for most in (rules.HEADING_CHANGE, rules.ALTITUDE_CHANGE, rules.SPEED_CHANGE)
)
LAG_BEHIND = wp.constant(300.0)  # m behind the opponent, where lag pursuit points.


@wp.func
def whole(value: float, count: int) -> int:
    """Return a choice of `count`, -1 for any other number."""
    choice = int(wp.round(value))
    if not wp.isfinite(value) or value < -0.5 or choice >= count:
        choice = -1
    return choice


@wp.func
def discrete_command(pull: float, roll: float, throttle: float, trigger: float) -> Command:
    """Return the command of levels; a throttle of -1 marks an invalid level."""
    c = Command()
    i = whole(pull, PULLS)
    j = whole(roll, ROLLS)
    k = whole(throttle, THROTTLES)
    if i < 0 or j < 0 or k < 0 or whole(trigger, 2) < 0:
        c.throttle = -1.0
        return c
    c.load = 1.0 + PULL[i] * wp.where(PULL[i] > 0.0, LOAD_MOST - 1.0, 1.0 - LOAD_LEAST)
    c.roll_rate = ROLL[j] * ROLL_MOST
    c.throttle = 0.5 * (THROTTLE[k] + 1.0)
    c.trigger = trigger > 0.5
    return c


@wp.func
def autopilot(me: Plane, heading: float, altitude: float, speed: float) -> Command:
    """Return the command that flies towards changes of heading (rad), altitude (m) and speed (m/s) from now on.

    The climb or dive is in proportion to the change of altitude, 45 degrees for the greatest.
    """
    ahead = direction_of(me)
    course = wp.atan2(ahead[1], ahead[0]) + heading
    towards = wp.vec3(wp.cos(course), wp.sin(course), 0.0)
    now = wp.length(me.vel)
    # Drag of level flight grows with the square of the speed; 4 % more for each m/s that is missing.
    throttle = CRUISE * (now / CRUISE_SPEED) * (now / CRUISE_SPEED) + 0.04 * speed
    return keep_out(me, steer(me, level(towards, altitude / ALTITUDE), LOAD_MOST, wp.clamp(throttle, 0.0, 1.0)))


@wp.func
def manoeuvre(which: int, free: bool, me: Plane, it: Plane, lead: bool) -> Command:
    """Return the command of a manoeuvre against `it`; `free` lets the gun fire, `lead` with rounds that take time."""
    v = see(me, it, lead)
    ahead = direction_of(me)
    up = wp.vec3(0.0, 0.0, -1.0)
    c = steer(me, level(me.vel, 0.0), 4.0, cruise(me))
    if which == PURE:
        c = steer(me, v.bearing, LOAD_MOST, 1.0)
    elif which == LEAD:
        c = steer(me, track(me, v), LOAD_MOST, 1.0)
    elif which == LAG:
        c = steer(me, wp.normalize(v.bearing * v.distance - direction_of(it) * LAG_BEHIND), LOAD_MOST, 1.0)
    elif which == BREAK:
        # Across the own path towards the opponent; straight behind or ahead, to the right.
        side = v.bearing - ahead * wp.dot(v.bearing, ahead)
        side = wp.where(wp.length(side) > 0.05, side, wp.cross(up, ahead) * -1.0)
        c = steer(me, wp.normalize(side), LOAD_MOST, 1.0)
    elif which == SUSTAINED:
        c = steer(me, v.bearing, 5.0, 1.0)
    elif which == HIGH:
        c = steer(me, wp.normalize(v.bearing + up * 0.9), LOAD_MOST, 1.0)
    elif which == LOW:
        c = steer(me, wp.normalize(v.bearing - up * 0.4), LOAD_MOST, 1.0)
    elif which == BEAM:
        flat = level(v.bearing, 0.0)
        across = wp.vec3(-flat[1], flat[0], 0.0)
        across = across * wp.where(wp.dot(across, ahead) < 0.0, -1.0, 1.0)
        c = steer(me, across, LOAD_MOST, MILITARY)
    elif which == EXTEND:
        c = steer(me, level(-1.0 * v.bearing, -0.05), 5.0, 1.0)
    elif which == CLIMB:
        c = steer(me, level(me.vel, 0.6), 4.0, 1.0)
    elif which == DIVE:
        c = steer(me, level(me.vel, -0.5), 4.0, 1.0)
    c.trigger = free and aimed(me, v, lead)
    return keep_out(me, c)
