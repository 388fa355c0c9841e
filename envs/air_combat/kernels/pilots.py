"""Scripted pilots, by their ids in `rules.BOTS`. Each returns the command that an agent could give as an action.

All steer through `steer`, which finds the load factor and the roll that turn the velocity towards a direction. The
wanted acceleration k V angle, plus gravity's share, lies in the plane of lift after a roll.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import warp as wp

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.kernels.state import Command, Plane
from sparring.envs.air_combat.kernels.view import View, direction_of, see
from sparring.envs.kernel_bots import check_branches

ROLL_MOST = wp.constant(rules.ROLL_MOST)
LOAD_MOST = wp.constant(rules.LOAD_MOST)
G = wp.constant(9.80665)
TURN_GAIN = wp.constant(2.0)  # Rate of turn wanted per angle, 1/s.
ROLL_GAIN = wp.constant(4.0)
NO_BOT = wp.constant(rules.ACTIONS)
DO_NOTHING, STRAIGHT, TURNING, CHASER, DOGFIGHTER, ACE, BRAWLER, EVADER = (
    wp.constant(rules.bot_id(name))
    for name in ("do_nothing", "straight", "turning", "chaser", "dogfighter", "ace", "brawler", "evader")
)
MILITARY = wp.constant(0.77)
CRUISE = wp.constant(0.25)  # Throttle of level flight at about 200 m/s.
CRUISE_SPEED = wp.constant(200.0)  # m/s.
SAFE_HEIGHT = wp.constant(450.0)  # m, below which a dive is always broken off.
TOP_HEIGHT = wp.constant(rules.CEILING - 1500.0)
SLOW = wp.constant(140.0)  # m/s, below which an energy fighter dives.
BEST_TURN = wp.constant(215.0)  # m/s, near the greatest sustained rate of turn at medium height.
FIRE_RANGE = wp.constant(900.0)  # m.
CONE_COS = wp.constant(rules.CONE_COS)


@wp.func
def steer(me: Plane, direction: wp.vec3, most: float, throttle: float) -> Command:
    """Return the command that turns the velocity towards `direction` with a load factor of at most `most`."""
    c = Command()
    c.throttle = throttle
    ahead = direction_of(me)
    right = wp.cross(ahead, me.up)
    lift = wp.cross(right, ahead)
    cosine = wp.clamp(wp.dot(ahead, direction), -1.0, 1.0)
    side = direction - ahead * cosine
    length = wp.length(side)
    if length < 1.0e-4:  # straight ahead, or straight behind: any side will do
        side = wp.where(cosine > 0.0, side, lift)
        length = wp.max(wp.length(side), 1.0e-4)
    angle = wp.acos(cosine)  # rad, of the turn that is wanted
    # The turn gets what the limit leaves beside gravity's share, or a long turn would sink.
    turn = wp.min(TURN_GAIN * angle * wp.length(me.vel) / G, wp.sqrt(wp.max(most * most - 1.0, 0.25)))
    pull = side * (turn / length)  # g, across the velocity
    roof = wp.vec3(0.0, 0.0, -1.0)
    pull = pull + roof - ahead * wp.dot(roof, ahead)  # plus gravity's share: 1 g up, across the velocity
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
def decide(bot: int, me: Plane, it: Plane, lead: bool) -> Command:
    """Return a scripted pilot's command; with `lead` its gun fires rounds that take time."""
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
    return keep_out(me, c)


check_branches(tuple(rules.BOTS), decide)
