"""Inputs of a bot's decision: the geometry, both fighters, the nearest bullet of the opponent.

Angles are in radians, counter-clockwise positive, lengths in metres, speeds in m/s.
"""

import math

import warp as wp

from sparring.envs.dogfight.kernels.physics import wrap_dx
from sparring.envs.dogfight.kernels.sensing import Sight, angle_to, lead_point, look
from sparring.envs.dogfight.kernels.state import SLOTS, Bullet, Fighter, Physics

BEHIND_COS = wp.constant(math.cos(2.0))
CROSSING_OFFSET = wp.constant(60.0)  # m
CLOSING_LIMIT = wp.constant(250.0)  # m/s, the limit of the challenge observation.
READY_SHARE = wp.constant(0.01)  # Of the cooldown; challenge bots read the gun from the observation.
MIN_RANGE = wp.constant(1.0)  # m
PI = wp.constant(math.pi)
TWO_PI = wp.constant(2.0 * math.pi)


@wp.struct
class BotView:
    """The inputs of one decision."""

    me: Fighter
    it: Fighter
    p: Physics
    s: Sight
    off: float
    """Signed angle from my nose to the opponent, rad."""
    range: float
    """Distance for leading and closing, m: at least 1 under classic rules."""
    closing: float
    """Closing speed, m/s; positive while the distance shrinks."""
    bullet_distance: float
    """Distance to the nearest live bullet of the opponent, m."""
    armour_cos: float
    tailed: bool
    """True if the opponent is more than 2 rad off my nose: behind me."""
    behind: bool
    """True if I am more than 2 rad off its nose: behind it."""
    challenge: bool


@wp.func
def nearest_bullet(bullets: wp.array2d[Bullet], match: int, shooter: int, me: Fighter, challenge: bool) -> float:
    """Return the distance to the nearest live bullet of the opponent, m; 1e6 for none."""
    nearest = float(1.0e12)
    for slot in range(SLOTS):
        if bullets[match, shooter * SLOTS + slot].life > 0:
            b = bullets[match, shooter * SLOTS + slot]
            dx = wrap_dx(b.x - me.x, challenge)
            dy = b.y - me.y
            nearest = wp.min(nearest, dx * dx + dy * dy)
    return wp.sqrt(nearest)


@wp.func
def see(
    me: Fighter,
    it: Fighter,
    p: Physics,
    bullets: wp.array2d[Bullet],
    match: int,
    seat: int,
    armour_cos: float,
    closing: float,
    challenge: bool,
) -> BotView:
    """Build the view of `seat`. `closing` is the closing speed over the last tick, m/s, for challenge bots."""
    v = BotView()
    v.me = me
    v.it = it
    v.p = p
    v.s = look(me, it, challenge)
    v.off = wp.atan2(v.s.side, v.s.ahead)
    # Classic bots keep angles in [-pi, pi): dead astern is on the right.
    if not challenge and v.off >= PI:
        v.off = -PI
    v.range = wp.where(challenge, v.s.distance, wp.max(v.s.distance, MIN_RANGE))
    # Classic bots project both velocities on the line of sight; challenge bots read the observed, limited rate.
    v.closing = v.s.closing * v.s.distance / v.range
    if challenge:
        v.closing = wp.clamp(closing, -CLOSING_LIMIT, CLOSING_LIMIT)
    v.bullet_distance = nearest_bullet(bullets, match, 1 - seat, me, challenge)
    v.armour_cos = armour_cos
    v.tailed = v.s.ahead < BEHIND_COS
    v.behind = v.s.its_ahead < BEHIND_COS
    v.challenge = challenge
    return v


@wp.func
def side_of(value: float, challenge: bool) -> float:
    """Return the sign as +-1.0; zero counts as positive under classic rules and as negative under challenge rules."""
    if value > 0.0 or (value == 0.0 and not challenge):
        return 1.0
    return -1.0


@wp.func
def up(f: Fighter) -> float:
    """Return the turn command that raises the nose: +1 when flying right, else -1."""
    return wp.where(f.cos_yaw > 0.0, 1.0, -1.0)


@wp.func
def wrap(angle: float) -> float:
    """Bring an angle within one turn of zero into [-pi, pi]."""
    if wp.abs(angle) > PI:
        return angle - wp.sign(angle) * TWO_PI
    return angle


@wp.func
def steer(gain: float, angle: float) -> float:
    """Return the turn command toward an angle off the nose, rad; a sum of angle and bias is not wrapped on purpose."""
    return wp.clamp(gain * angle, -1.0, 1.0)


@wp.func
def fire(v: BotView, cos_limit: float, reach: float) -> float:
    """Return 1.0 to shoot: within angle (by its cosine) and range, gun ready, outside of the armour's cone."""
    ready = v.me.cooldown == wp.int16(0)
    if v.challenge:
        ready = float(v.me.cooldown) < READY_SHARE * v.p.gun_cooldown_ticks
    if ready and v.s.ahead > cos_limit and v.s.distance < reach and v.s.along <= v.armour_cos:
        return 1.0
    return 0.0


@wp.func
def smart_aim(v: BotView, lead: float) -> float:
    """Return the angle off the nose, rad, of the lead point; from behind, moved 60 m across the path, away from me.

    Bullets from behind glance off the rear armour, so the attack crosses the path instead of following it.
    """
    point = lead_point(v.s, v.it, v.p, lead * v.range)
    if v.behind:
        # its_side is minus the projection of the line of sight on its left-hand normal.
        offset = CROSSING_OFFSET * side_of(-v.s.its_side, v.challenge)
        point = point + wp.vec2(-v.it.sin_yaw * offset, v.it.cos_yaw * offset)
    return angle_to(v.me, point)


@wp.func
def break_angle(v: BotView) -> float:
    """Return the angle off the nose of a break, rad: away from the opponent, leaving it abeam on the other side."""
    return wrap(v.off + side_of(v.off, v.challenge) * wp.static(0.5 * math.pi))


@wp.func
def attack_throttle(v: BotView, turn: float) -> float:
    """Return the throttle: full when slow or far, half in a hard turn, else 0.7; `turn` is before the stall guard."""
    if v.me.speed < 80.0:
        return 1.0
    if wp.abs(turn) > 0.7:
        return 0.5
    return wp.where(v.s.distance > 250.0, 1.0, 0.7)
