"""Scripted pilots that fly near the ground, by their ids in `rules.BOTS`.

A pilot's only memory is the aircraft's state: a weave continues in the direction of its bank, an extension along its
heading. `hold_above` keeps each above its floor by a pull-out predicted from the current speed.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.kernels.ground import hold_above
from sparring.envs.air_combat.kernels.state import Command, Plane
from sparring.envs.air_combat.kernels.steering import (
    LOAD_MOST,
    MILITARY,
    TOP_HEIGHT,
    TURN_GAIN,
    G,
    aimed,
    cruise,
    level,
    lift_along,
    steer,
    track,
)
from sparring.envs.air_combat.kernels.view import View, direction_of

DECK, EXTENDER, WEAVER, SPIRAL, DRAGGER, RUNNER, SCISSORS, CLIMBER = (
    wp.constant(rules.bot_id(name))
    for name in ("deck", "extender", "weaver", "spiral", "dragger", "runner", "scissors", "climber")
)
FLOOR_LOW, FLOOR = wp.constant(40.0), wp.constant(50.0)  # m, the floor of these pilots.
SINK_PART = wp.constant(0.45)  # Of the speed, when it goes down to its height.
CLIMB_MOST = wp.constant(60.0)  # m/s.
HEIGHT_GAIN, CLIMB_GAIN = wp.constant(0.4), wp.constant(1.2)  # 1/s: climb per height, and acceleration per climb.
LIFT_LEAST, LIFT_MOST = wp.constant(0.2), wp.constant(5.0)  # g upwards.
BANK_MOST = wp.constant(5.5)  # Tangent.
CORNER = wp.constant(230.0)  # m/s that turning fighters keep.
CLOSE = wp.constant(1500.0)  # m, maximum distance for aiming.


@wp.func
def fly_at(me: Plane, height: float, turn: float, throttle: float) -> Command:
    """Return the command that goes to `height` m and stays there, turning by `turn` g to the right."""
    wanted = wp.clamp(HEIGHT_GAIN * (height + me.pos[2]), -SINK_PART * wp.length(me.vel), CLIMB_MOST)  # m/s upwards
    lift = wp.clamp(1.0 + CLIMB_GAIN * (wanted + me.vel[2]) / G, LIFT_LEAST, LIFT_MOST)
    flat = level(me.vel, 0.0)
    # Banked by 80 degrees at most, or a change of direction could roll through inverted flight.
    aside = wp.clamp(turn, -BANK_MOST * lift, BANK_MOST * lift)
    pull = wp.vec3(-flat[1] * aside, flat[0] * aside, -lift)
    ahead = direction_of(me)
    return lift_along(me, pull - ahead * wp.dot(pull, ahead), LOAD_MOST, throttle)


@wp.func
def off_heading(me: Plane, direction: wp.vec3) -> float:
    """Return the angle from the heading to a direction seen from above, rad to the right."""
    flat = level(me.vel, 0.0)
    return wp.atan2(flat[0] * direction[1] - flat[1] * direction[0], flat[0] * direction[0] + flat[1] * direction[1])


@wp.func
def turn_towards(me: Plane, direction: wp.vec3, most: float) -> float:
    """Return the turn in g, to the right, that brings the heading to a direction."""
    return wp.clamp(TURN_GAIN * off_heading(me, direction) * wp.length(me.vel) / G, -most, most)


@wp.func
def weave(me: Plane, direction: wp.vec3, angle: float, turn: float) -> float:
    """Return the turn of a weave by `angle` rad about a direction: on as it is banked, to that angle, then back."""
    flat = level(me.vel, 0.0)
    past = -off_heading(me, direction)  # rad to the right of the direction
    banked_right = me.up[1] * flat[0] - me.up[0] * flat[1] >= 0.0
    right = wp.where(banked_right, past < angle, past < -angle)
    return wp.where(right, turn, -turn)


@wp.func
def hold_corner(me: Plane) -> float:
    """Return the throttle that keeps about the speed of the best turn."""
    return wp.where(wp.length(me.vel) > CORNER, 0.4, 1.0)


@wp.func
def point_gun(me: Plane, v: View, c: Command, lead: bool) -> Command:
    """Return the command with the nose brought to bear on an opponent close ahead, and the trigger."""
    if v.distance < CLOSE and v.off_nose > 0.85:
        c = steer(me, track(me, v), LOAD_MOST, c.throttle)
    c.trigger = aimed(me, v, lead)
    return c


@wp.func
def fly_extender(me: Plane, v: View, lead: bool) -> Command:
    """Leave at 250 m until the opponent is 3.5 km away, come back, and leave again after the pass."""
    returns = v.distance > wp.where(v.off_nose > 0.0, 600.0, 3500.0)
    if returns:
        return point_gun(me, v, fly_at(me, 250.0, turn_towards(me, v.bearing, 6.0), 1.0), lead)
    return fly_at(me, 250.0, turn_towards(me, -1.0 * v.bearing, 4.0), 1.0)


@wp.func
def fly_dragger(me: Plane, it: Plane, v: View, lead: bool) -> Command:
    """Leave at 60 m; if the opponent is near and points at it, turn back at the limit and fire."""
    threat = -wp.dot(direction_of(it), v.bearing)
    near = v.distance < 1200.0 and threat > 0.7
    if near or (v.off_nose > 0.3 and v.distance < 2500.0):
        return point_gun(me, v, fly_at(me, 70.0, turn_towards(me, v.bearing, 7.0), 1.0), lead)
    return fly_at(me, 60.0, turn_towards(me, -1.0 * v.bearing, 4.0), MILITARY)


@wp.func
def fly_scissors(me: Plane, v: View, lead: bool) -> Command:
    """Always turn towards the opponent's side at 100 m, at idle while it is close behind; fire."""
    behind = v.off_nose < 0.0 and v.distance < 1000.0 and wp.length(me.vel) > 140.0
    off = off_heading(me, v.bearing)
    turn = turn_towards(me, v.bearing, 6.0)
    if wp.abs(off) > 2.6:  # straight behind: on as it is banked
        turn = weave(me, v.bearing, 3.2, 6.0)
    return point_gun(me, v, fly_at(me, 100.0, turn, wp.where(behind, 0.0, hold_corner(me))), lead)


@wp.func
def fly_climber(me: Plane, it: Plane, v: View, lead: bool) -> Command:
    """Climb steeply until it is slow or high above the opponent, dive at it and fire; up again when fast or low."""
    speed = wp.length(me.vel)
    above = it.pos[2] - me.pos[2]
    going_up = me.vel[2] < 5.0
    up = wp.where(going_up, speed > 150.0 and above < 1500.0, speed > 280.0 or -me.pos[2] < 200.0)
    if up and -me.pos[2] < TOP_HEIGHT:
        return steer(me, level(me.vel, 2.0), 5.0, 1.0)
    return point_gun(me, v, steer(me, wp.normalize(v.bearing + wp.vec3(0.0, 0.0, 0.3)), LOAD_MOST, 1.0), lead)


@wp.func
def decide_low(bot: int, me: Plane, it: Plane, v: View, lead: bool, wing: wp.vec2) -> Command:
    """Return the command of a pilot that flies near the ground."""
    away = -1.0 * v.bearing
    c = Command()
    floor = FLOOR
    if bot == DECK:
        c = point_gun(me, v, fly_at(me, 100.0, turn_towards(me, v.bearing, 6.0), hold_corner(me)), lead)
    elif bot == EXTENDER:
        c = fly_extender(me, v, lead)
    elif bot == WEAVER:
        c = fly_at(me, 250.0, weave(me, away, 0.6, 4.0), MILITARY)
    elif bot == SPIRAL:
        c = fly_at(me, 150.0, -3.5, cruise(me))
    elif bot == DRAGGER:
        c = fly_dragger(me, it, v, lead)
        floor = FLOOR_LOW
    elif bot == RUNNER:
        turn = turn_towards(me, away, 4.0)
        if v.distance < 2000.0 and wp.abs(off_heading(me, away)) < 0.6:
            turn = weave(me, away, 0.25, 5.0)
        c = fly_at(me, 80.0, turn, 1.0)
    elif bot == SCISSORS:
        c = fly_scissors(me, v, lead)
    elif bot == CLIMBER:
        c = fly_climber(me, it, v, lead)
    return hold_above(me, c, floor, wing)
