"""Scripted pilots, by their ids in `rules.BOTS`. Each returns a command that an agent could also choose.

These fight at height and break off a dive at 450 m; `low_pilots.py` has the pilots near the ground.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.kernels.low_pilots import decide_low
from sparring.envs.air_combat.kernels.state import Command, Plane
from sparring.envs.air_combat.kernels.steering import (
    CRUISE,
    FIRE_RANGE,
    LOAD_MOST,
    MILITARY,
    aimed,
    cruise,
    keep_out,
    level,
    steer,
    track,
)
from sparring.envs.air_combat.kernels.view import View, direction_of, see
from sparring.envs.kernel_bots import check_branches

DO_NOTHING, STRAIGHT, TURNING, CHASER, DOGFIGHTER, ACE, BRAWLER, EVADER = (
    wp.constant(rules.bot_id(name))
    for name in ("do_nothing", "straight", "turning", "chaser", "dogfighter", "ace", "brawler", "evader")
)
SLOW = wp.constant(140.0)  # m/s, below which an energy fighter dives.
BEST_TURN = wp.constant(215.0)  # m/s, near the greatest sustained rate of turn at medium height.


@wp.func
def fly_dogfighter(me: Plane, v: View, lead: bool) -> Command:
    """Lead pursuit close in, pure pursuit far out; slow and not about to fire, it dives towards the opponent."""
    aim = v.bearing
    if v.distance < 1500.0:
        aim = track(me, v)
    c = steer(me, aim, LOAD_MOST, 1.0)
    if wp.length(me.vel) < SLOW and v.off_nose < 0.9:
        c = steer(me, level(v.bearing, -0.25), 4.0, 1.0)
    c.trigger = aimed(me, v, lead)
    return c


@wp.func
def fly_ace(me: Plane, v: View, lead: bool) -> Command:
    """Hold the best turning speed; against an overshoot pull up out of the plane, far behind cut the corner low."""
    speed = wp.length(me.vel)
    aim = v.bearing
    if v.distance < 1200.0:
        aim = track(me, v)
    if v.distance < 900.0 and v.closure > 60.0 and v.off_nose < 0.85 and v.off_tail > 0.0:
        aim = wp.normalize(v.bearing + wp.vec3(0.0, 0.0, -0.9))
    elif v.distance > 1200.0 and v.off_tail > 0.3 and v.off_nose > 0.5:
        aim = wp.normalize(v.bearing + wp.vec3(0.0, 0.0, 0.05))
    throttle = wp.where(speed > BEST_TURN + 25.0 and v.off_nose < 0.7, 0.5, 1.0)
    most = wp.where(speed < SLOW and v.off_nose < 0.9, 4.0, LOAD_MOST)
    c = steer(me, aim, most, throttle)
    if speed < 120.0 and v.off_nose < 0.9:
        c = steer(me, level(v.bearing, -0.35), 3.0, 1.0)
    c.trigger = aimed(me, v, lead)
    return c


@wp.func
def fly_evader(me: Plane, it: Plane, v: View) -> Command:
    """Break across the path of an opponent near and pointing at it; otherwise leave at military power."""
    threat = -wp.dot(direction_of(it), v.bearing)  # 1 when it flies straight at me
    away = level(-1.0 * v.bearing, 0.0)
    c = steer(me, away, 5.0, MILITARY)
    if v.distance < 2000.0 and threat > 0.6:
        ahead = direction_of(me)
        beam = v.bearing - ahead * wp.dot(v.bearing, ahead)
        c = steer(me, wp.normalize(beam + wp.vec3(0.0, 0.0, 0.1)), LOAD_MOST, 1.0)
    return c


@wp.func
def decide(bot: int, me: Plane, it: Plane, lead: bool, wing: wp.vec2) -> Command:
    """Return a scripted pilot's command; with `lead` its gun fires rounds that take time, `wing` is for pull-outs."""
    c = Command()
    c.load = 1.0
    c.throttle = CRUISE
    if bot == DO_NOTHING:
        return c
    if bot == STRAIGHT:
        return keep_out(me, steer(me, level(me.vel, 0.0), 4.0, cruise(me)))
    if bot == TURNING:
        flat = level(me.vel, 0.0)
        aside = wp.vec3(-flat[1], flat[0], 0.0)
        return keep_out(me, steer(me, wp.normalize(flat + aside), 3.0, cruise(me)))
    v = see(me, it, lead)
    if bot == CHASER:
        c = steer(me, v.bearing, LOAD_MOST, 1.0)
        c.trigger = aimed(me, v, lead)
    elif bot == DOGFIGHTER:
        c = fly_dogfighter(me, v, lead)
    elif bot == ACE:
        c = fly_ace(me, v, lead)
    elif bot == BRAWLER:
        c = steer(me, track(me, v), LOAD_MOST, wp.where(wp.length(me.vel) > 200.0, 0.3, 1.0))
        c.trigger = v.distance < FIRE_RANGE and wp.dot(me.nose, v.aim) > 0.996
    elif bot == EVADER:
        c = fly_evader(me, it, v)
    else:
        return decide_low(bot, me, it, v, lead, wing)
    return keep_out(me, c)


check_branches(tuple(rules.BOTS), decide, decide_low)
