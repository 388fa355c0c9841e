"""The observation of one seat, written directly into a row of the caller's buffer.

Classic: 59 floats (46 without the physics parameters). Challenge: 56 floats a frame, four frames, newest first. The
tables are in the docstring of `DogfightEnv` (`interfaces/gymnasium_env.py`).
"""

import math

import warp as wp

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.kernels.physics import wrap_dx
from sparring.envs.dogfight.kernels.sensing import energy, look
from sparring.envs.dogfight.kernels.state import SLOTS, Bullet, Fighter, MatchClock, Physics, Settings

# Normalizers, as reciprocals: a multiplication in place of a division. Speeds and energies are scaled by the default
# maximum speed of 250 m/s, and turn rates by the default of 4 rad/s, whatever the physics of the match.
DISTANCE_SCALE = wp.constant(1.0 / 1000.0)
HEIGHT_SCALE = wp.constant(1.0 / rules.HEIGHT)
X_SCALE = wp.constant(1.0 / rules.HALF_WIDTH)
SPEED_SCALE = wp.constant(1.0 / 250.0)
ENERGY_SCALE = wp.constant(1.0 / (250.0**2 + 2.0 * rules.CHALLENGE_GRAVITY * rules.HEIGHT))
TURN_RATE_SCALE = wp.constant(1.0 / 4.0)
INV_PI = wp.constant(1.0 / math.pi)
MAX_BULLETS = wp.constant(rules.OBSERVED_BULLETS)
FRAME = wp.constant(rules.CHALLENGE_FRAME_SIZE)
FRAMES = wp.constant(rules.CHALLENGE_FRAMES)
SCALES = [1.0 / parameter.normalizer for parameter in rules.PARAMETERS]


@wp.func
def bullet_distance(b: Bullet, me: Fighter, challenge: bool) -> float:
    """Return the squared distance to a live bullet, m^2; infinity for a free slot."""
    if b.life <= 0:
        return wp.inf
    dx = wrap_dx(b.x - me.x, challenge)
    dy = b.y - me.y
    return dx * dx + dy * dy


@wp.func
def write_bullets(
    obs: wp.array2d[float],
    row: int,
    match: int,
    seat: int,
    start: int,
    me: Fighter,
    bullets: wp.array2d[Bullet],
    challenge: bool,
) -> None:
    """Write eight bullets, nearest first (ties: lower slot first), four floats each; zeros for missing ones."""
    last = float(-1.0)
    last_slot = int(-1)
    searching = bool(True)
    # Selection by repeated minimum over at most four slots: no scratch array, and the order is total (distance, slot).
    for k in range(MAX_BULLETS):
        best = float(wp.inf)
        best_slot = int(-1)
        if searching:
            for s in range(2 * SLOTS):
                d = bullet_distance(bullets[match, s], me, challenge)
                if d < best and (d > last or (d == last and s > last_slot)):
                    best = d
                    best_slot = s
        at = start + 4 * k
        if best_slot >= 0:
            b = bullets[match, best_slot]
            dx = wrap_dx(b.x - me.x, challenge)
            dy = b.y - me.y
            obs[row, at] = dx * DISTANCE_SCALE
            obs[row, at + 1] = dy * DISTANCE_SCALE
            obs[row, at + 2] = wp.where(best_slot / SLOTS == seat, 1.0, 0.0)
            obs[row, at + 3] = wp.atan2(dy, dx) * INV_PI
            last = best
            last_slot = best_slot
        else:
            searching = False
            for j in range(4):
                obs[row, at + j] = 0.0


@wp.func
def write_physics(obs: wp.array2d[float], row: int, start: int, p: Physics) -> None:
    """Write the 13 parameters, each divided by its normalizer."""
    obs[row, start] = p.gravity * wp.static(SCALES[0])
    obs[row, start + 1] = p.drag_coeff * wp.static(SCALES[1])
    obs[row, start + 2] = p.turn_bleed_coeff * wp.static(SCALES[2])
    obs[row, start + 3] = p.max_speed * wp.static(SCALES[3])
    obs[row, start + 4] = p.min_speed * wp.static(SCALES[4])
    obs[row, start + 5] = p.max_thrust * wp.static(SCALES[5])
    obs[row, start + 6] = p.bullet_speed * wp.static(SCALES[6])
    obs[row, start + 7] = p.gun_cooldown_ticks * wp.static(SCALES[7])
    obs[row, start + 8] = p.bullet_lifetime_ticks * wp.static(SCALES[8])
    obs[row, start + 9] = p.max_hp * wp.static(SCALES[9])
    obs[row, start + 10] = p.max_turn_rate * wp.static(SCALES[10])
    obs[row, start + 11] = p.min_turn_rate * wp.static(SCALES[11])
    obs[row, start + 12] = p.rear_aspect_cone * wp.static(SCALES[12])


@wp.func
def write_self(obs: wp.array2d[float], row: int, me: Fighter, p: Physics) -> None:
    """Write the observer's six values, the first in both layouts."""
    obs[row, 0] = me.speed / p.max_speed
    obs[row, 1] = me.cos_yaw
    obs[row, 2] = me.sin_yaw
    obs[row, 3] = float(me.hp) / p.max_hp
    obs[row, 4] = float(me.cooldown) / p.gun_cooldown_ticks
    obs[row, 5] = me.y * HEIGHT_SCALE


@wp.func
def write_other(
    obs: wp.array2d[float], row: int, start: int, dx: float, dy: float, d: float, it: Fighter, p: Physics
) -> None:
    """Write seven values of the opponent: relative position, speed, heading, hp, distance."""
    obs[row, start] = dx * DISTANCE_SCALE
    obs[row, start + 1] = dy * DISTANCE_SCALE
    obs[row, start + 2] = it.speed / p.max_speed
    obs[row, start + 3] = it.cos_yaw
    obs[row, start + 4] = it.sin_yaw
    obs[row, start + 5] = float(it.hp) / p.max_hp
    obs[row, start + 6] = d * DISTANCE_SCALE


@wp.func
def write_classic(
    obs: wp.array2d[float],
    row: int,
    match: int,
    seat: int,
    me: Fighter,
    it: Fighter,
    p: Physics,
    bullets: wp.array2d[Bullet],
    clock: MatchClock,
    settings: Settings,
) -> None:
    """Write the 59 (46) floats of classic rules."""
    dx = it.x - me.x
    dy = it.y - me.y
    write_self(obs, row, me, p)
    write_other(obs, row, 6, dx, dy, wp.sqrt(dx * dx + dy * dy), it, p)
    write_bullets(obs, row, match, seat, 13, me, bullets, False)
    obs[row, 45] = float(settings.max_ticks - clock.tick) / float(settings.max_ticks)
    if settings.observe_physics:
        write_physics(obs, row, 46, p)


@wp.func
def write_challenge(
    obs: wp.array2d[float],
    row: int,
    match: int,
    seat: int,
    me: Fighter,
    it: Fighter,
    p: Physics,
    bullets: wp.array2d[Bullet],
    clock: MatchClock,
    settings: Settings,
) -> None:
    """Write the newest frame of 56 floats under challenge rules."""
    s = look(me, it, True)
    write_self(obs, row, me, p)
    obs[row, 6] = me.x * X_SCALE
    obs[row, 7] = energy(me, p.gravity) * ENERGY_SCALE
    write_other(obs, row, 8, s.dx, s.dy, s.distance, it, p)
    obs[row, 15] = wp.clamp(clock.closing * SPEED_SCALE, -1.0, 1.0)
    obs[row, 16] = wp.clamp(it.turn_rate * TURN_RATE_SCALE, -1.0, 1.0)
    obs[row, 17] = energy(it, p.gravity) * ENERGY_SCALE
    off_its_nose = wp.atan2(s.its_side, s.its_ahead) * INV_PI
    obs[row, 18] = off_its_nose  # The original layout has this value twice, here and at 52.
    write_bullets(obs, row, match, seat, 19, me, bullets, True)
    obs[row, 51] = wp.atan2(s.side, s.ahead) * INV_PI
    obs[row, 52] = off_its_nose
    obs[row, 53] = (me.speed * me.cos_yaw - it.speed * it.cos_yaw) * SPEED_SCALE
    obs[row, 54] = (me.speed * me.sin_yaw - it.speed * it.sin_yaw) * SPEED_SCALE
    obs[row, 55] = float(settings.max_ticks - clock.tick) / float(settings.max_ticks)


@wp.func
def shift_frames(obs: wp.array2d[float], row: int) -> None:
    """Move every frame one place back, dropping the oldest, to make room for a new one."""
    for k in range(FRAME * (FRAMES - 1)):
        # From the end, since source and target overlap.
        at = FRAME * FRAMES - 1 - k
        obs[row, at] = obs[row, at - FRAME]


@wp.func
def clear_older_frames(obs: wp.array2d[float], row: int) -> None:
    """Zero all frames but the newest."""
    for k in range(FRAME * (FRAMES - 1)):
        obs[row, FRAME + k] = 0.0


@wp.func
def write_newest(
    obs: wp.array2d[float],
    row: int,
    match: int,
    seat: int,
    me: Fighter,
    it: Fighter,
    p: Physics,
    bullets: wp.array2d[Bullet],
    clock: MatchClock,
    settings: Settings,
) -> None:
    """Write one seat's observation to `obs[row]`, under challenge rules its newest frame."""
    if settings.challenge:
        write_challenge(obs, row, match, seat, me, it, p, bullets, clock, settings)
    else:
        write_classic(obs, row, match, seat, me, it, p, bullets, clock, settings)
