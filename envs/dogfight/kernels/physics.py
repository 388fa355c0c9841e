"""One tick of the simulation: flight, stalls, walls, bullets and armour.

Pure functions of the structs in `state.py`; every number comes from `rules.py`. Integration is semi-implicit Euler at
1/120 s: heading, then speed, then position. Under `challenge` rules x wraps round, the ground kills and the thin air
near the ceiling slows fighters down; under `classic` rules four soft walls push back.
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import math

import warp as wp

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.kernels.state import SLOTS, Bullet, Fighter, Physics

DT = wp.constant(rules.DT)
HALF_WIDTH = wp.constant(rules.HALF_WIDTH)
WIDTH = wp.constant(2.0 * rules.HALF_WIDTH)
HEIGHT = wp.constant(rules.HEIGHT)
WALL_BAND = wp.constant(rules.WALL_BAND)
WALL_PUSH = wp.constant(rules.WALL_PUSH * rules.DT)  # m per tick.
WALL_X = wp.constant(rules.HALF_WIDTH - rules.WALL_BAND)
CEILING = wp.constant(rules.HEIGHT - rules.WALL_BAND)
CEILING_DRAG = wp.constant(rules.CHALLENGE_CEILING_DRAG * rules.DT)  # m/s per tick.
CEILING_MIN_SPEED = wp.constant(rules.CHALLENGE_CEILING_MIN_SPEED)
DEADLY_ALTITUDE = wp.constant(rules.CHALLENGE_DEADLY_ALTITUDE)
ARENA_RADIUS = wp.constant(rules.ARENA_RADIUS)
ARENA_Y = wp.constant(0.5 * rules.HEIGHT)
MUZZLE_OFFSET = wp.constant(rules.MUZZLE_OFFSET)
HIT_RADIUS_SQUARED = wp.constant((rules.FIGHTER_RADIUS + rules.BULLET_RADIUS) ** 2)
STALL_SPEED = wp.constant(rules.STALL_SPEED)
STALL_RECOVERY_SPEED = wp.constant(rules.STALL_RECOVERY_SPEED)
STALL_TICKS = wp.constant(rules.STALL_TICKS)
STALL_TURN_COS = wp.constant(math.cos(rules.STALL_TURN_RATE * rules.DT))
STALL_TURN_SIN = wp.constant(math.sin(rules.STALL_TURN_RATE * rules.DT))
STALL_TURN_RATE = wp.constant(rules.STALL_TURN_RATE)
SPEED_LOST_PER_HP = wp.constant(rules.SPEED_LOST_PER_HP)
TURN_LOST_PER_HP = wp.constant(rules.TURN_LOST_PER_HP)


@wp.func
def wrap_dx(dx: float, challenge: bool) -> float:
    """Return a horizontal difference, m, the short way round where the arena wraps."""
    if challenge:
        # floor(x + 0.5), not round: +500 m and -500 m are one place and both map to -500 m.
        return dx - WIDTH * wp.floor(dx / WIDTH + 0.5)
    return dx


@wp.func
def alive(f: Fighter) -> bool:
    """Return whether a fighter has hp left and has not crashed."""
    return f.hp > wp.int16(0) and f.crashed == wp.int16(0)


@wp.func
def in_control(f: Fighter) -> bool:
    """Return whether the action of a tick takes effect: alive, not stalled, and not slow enough to stall now."""
    return alive(f) and f.stall == wp.int16(0) and f.speed >= STALL_SPEED


@wp.func
def top_speed(f: Fighter, p: Physics) -> float:
    """Return the maximum speed, m/s, reduced by 3 % for each hp lost."""
    return p.max_speed * (1.0 - SPEED_LOST_PER_HP * (p.max_hp - float(f.hp)))


@wp.func
def turn_rate(f: Fighter, p: Physics) -> float:
    """Return the turn rate, rad/s: `max_turn_rate` at `min_speed` to `min_turn_rate` at `max_speed`, -2 % an hp."""
    share = (f.speed - p.min_speed) / (p.max_speed - p.min_speed)
    rate = p.max_turn_rate + share * (p.min_turn_rate - p.max_turn_rate)
    return rate * (1.0 - TURN_LOST_PER_HP * (p.max_hp - float(f.hp)))


@wp.func
def rotate(f: Fighter, angle: float) -> Fighter:
    """Turn the heading by a small angle (under 0.1 rad); the error of the polynomials is below 1e-9."""
    # Taylor series: at 120 Hz and 5.5 rad/s an angle is below 0.05 rad.
    square = angle * angle
    c = 1.0 - square * (0.5 - square * (1.0 / 24.0))
    s = angle * (1.0 - square * (1.0 / 6.0 - square * (1.0 / 120.0)))
    cos_yaw = f.cos_yaw * c - f.sin_yaw * s
    sin_yaw = f.sin_yaw * c + f.cos_yaw * s
    # One Newton step back to unit length keeps rounding from adding up.
    scale = 1.5 - 0.5 * (cos_yaw * cos_yaw + sin_yaw * sin_yaw)
    f.cos_yaw = cos_yaw * scale
    f.sin_yaw = sin_yaw * scale
    return f


@wp.func
def nose_down(f: Fighter) -> Fighter:
    """Turn a stalled fighter's nose toward -pi/2 by at most 2.5 rad/s."""
    # The cosine of the angle to straight down is -sin_yaw: within one tick's turn of it, snap.
    if -f.sin_yaw >= STALL_TURN_COS:
        f.turn_rate = wp.atan2(-f.cos_yaw, -f.sin_yaw) / DT  # the rest of the way
        f.cos_yaw = 0.0
        f.sin_yaw = -1.0
        return f
    side = wp.where(f.cos_yaw > 0.0, -1.0, 1.0)
    cos_yaw = f.cos_yaw * STALL_TURN_COS - side * f.sin_yaw * STALL_TURN_SIN
    f.sin_yaw = f.sin_yaw * STALL_TURN_COS + side * f.cos_yaw * STALL_TURN_SIN
    f.cos_yaw = cos_yaw
    f.turn_rate = side * STALL_TURN_RATE
    return f


@wp.func
def soft_walls(f: Fighter) -> Fighter:
    """Apply the walls of the classic arena: push back within 50 m of an edge, then clamp to it."""
    # p and q in [0, 1] are the depths in the wall; the push grows with their squares, without a jump at its border.
    p = wp.clamp((wp.abs(f.x) - WALL_X) / WALL_BAND, 0.0, 1.0)
    f.x = wp.clamp(f.x - wp.sign(f.x) * WALL_PUSH * p * p, -HALF_WIDTH, HALF_WIDTH)
    if f.y < WALL_BAND:
        q = wp.min((WALL_BAND - f.y) / WALL_BAND, 1.0)
        f.y = wp.max(f.y + WALL_PUSH * q * q, 0.0)
    if f.y > CEILING:
        q = wp.min((f.y - CEILING) / WALL_BAND, 1.0)
        f.y = wp.min(f.y - WALL_PUSH * q * q, HEIGHT)
    return f


@wp.func
def open_sky(f: Fighter) -> Fighter:
    """Apply the bounds of the challenge arena: x wraps, the ground kills, the air slows fighters above 550 m."""
    f.x = wrap_dx(f.x, True)
    if f.y > CEILING:
        q = wp.min((f.y - CEILING) / WALL_BAND, 1.0)
        f.speed = wp.max(f.speed - CEILING_DRAG * q * q, CEILING_MIN_SPEED)
        f.y = wp.min(f.y, HEIGHT)
    if f.y <= DEADLY_ALTITUDE:
        f.crashed = wp.int16(1)
    return f


@wp.func
def outside(f: Fighter, left: float) -> int:
    """Return 1 for a living fighter outside the circle about the arena's centre with `left` of its first radius."""
    radius = left * ARENA_RADIUS
    dy = f.y - ARENA_Y
    return wp.where(f.hp > wp.int16(0) and f.x * f.x + dy * dy > radius * radius, 1, 0)


@wp.func
def advance(f: Fighter, challenge: bool) -> Fighter:
    """Move along the heading, apply the walls, and count the gun's cooldown down."""
    f.x = f.x + f.speed * f.cos_yaw * DT
    f.y = f.y + f.speed * f.sin_yaw * DT
    f = open_sky(f) if challenge else soft_walls(f)
    if f.cooldown > wp.int16(0) and f.crashed == wp.int16(0):
        f.cooldown = f.cooldown - wp.int16(1)
    return f


@wp.func
def fall(f: Fighter, p: Physics, challenge: bool) -> Fighter:
    """Play a tick of a stall: the nose drops, gravity and drag act, and above 40 m/s the stall ends early."""
    f.stall = f.stall - wp.int16(1)
    f = nose_down(f)
    f.speed = f.speed - p.gravity * f.sin_yaw * DT
    f.speed = f.speed - p.drag_coeff * f.speed * DT
    f.speed = wp.clamp(f.speed, p.min_speed, top_speed(f, p))
    if f.speed > STALL_RECOVERY_SPEED:
        f.stall = wp.int16(0)
    return advance(f, challenge)


@wp.func
def fly(f: Fighter, p: Physics, turn: float, throttle: float, challenge: bool) -> Fighter:
    """Play a tick under control: turn, turn bleed, thrust and drag, gravity along the path, move."""
    f.turn_rate = turn * turn_rate(f, p)
    angle = f.turn_rate * DT
    f = rotate(f, angle)
    # Induced drag: a turn costs speed in proportion to its angle, not to its duration.
    speed = f.speed - p.turn_bleed_coeff * wp.abs(angle) * f.speed
    speed = speed + (throttle * p.max_thrust - p.drag_coeff * speed) * DT
    speed = speed - p.gravity * f.sin_yaw * DT
    f.speed = wp.clamp(speed, p.min_speed, top_speed(f, p))
    return advance(f, challenge)


@wp.func
def tick_fighter(f: Fighter, p: Physics, action: wp.vec3, challenge: bool) -> Fighter:
    """Advance one fighter by one tick; `action` is already clamped. A dead fighter does not move."""
    if not alive(f):
        return f
    if f.stall > wp.int16(0):
        return fall(f, p, challenge)
    if f.speed < STALL_SPEED:
        # The tick that begins a stall does nothing else: no movement, no cooldown.
        f.stall = wp.int16(STALL_TICKS)
        f.turn_rate = 0.0
        return f
    return fly(f, p, action[0], action[1], challenge)


@wp.func
def shoot(bullets: wp.array2d[Bullet], match: int, seat: int, f: Fighter, p: Physics, challenge: bool) -> Fighter:
    """Start a bullet 12 m ahead of the centre, in a free slot of the fighter, and set the cooldown."""
    slot = int(seat * SLOTS)
    for s in range(SLOTS):
        if bullets[match, seat * SLOTS + s].life <= 0:
            slot = seat * SLOTS + s
    b = Bullet()
    b.x = wrap_dx(f.x + MUZZLE_OFFSET * f.cos_yaw, challenge)
    b.y = f.y + MUZZLE_OFFSET * f.sin_yaw
    b.dx = f.cos_yaw
    b.dy = f.sin_yaw
    b.life = int(p.bullet_lifetime_ticks)
    bullets[match, slot] = b
    f.cooldown = wp.int16(p.gun_cooldown_ticks)
    return f


@wp.func
def tick_bullets(bullets: wp.array2d[Bullet], match: int, p: Physics, challenge: bool) -> int:
    """Move every live bullet and take a tick of its life; return the number still alive."""
    live = int(0)
    for s in range(2 * SLOTS):
        life = bullets[match, s].life
        if life > 0:
            b = bullets[match, s]
            b.x = wrap_dx(b.x + p.bullet_speed * b.dx * DT, challenge)
            b.y = b.y + p.bullet_speed * b.dy * DT
            b.life = life - 1
            bullets[match, s] = b
            if life > 1:
                live += 1
    return live


@wp.func
def take_hits(
    bullets: wp.array2d[Bullet], match: int, shooter: int, target: Fighter, armour_cos: float, challenge: bool
) -> int:
    """Consume the shooter's bullets that reach a living target; return the hp they cost.

    A bullet whose direction is within the rear-aspect cone of the target's heading glances off.
    """
    damage = int(0)
    for s in range(SLOTS):
        b = bullets[match, shooter * SLOTS + s]
        if b.life > 0 and alive(target) and damage < int(target.hp):
            dx = wrap_dx(b.x - target.x, challenge)
            dy = b.y - target.y
            if dx * dx + dy * dy <= HIT_RADIUS_SQUARED:
                b.life = 0
                bullets[match, shooter * SLOTS + s] = b
                if b.dx * target.cos_yaw + b.dy * target.sin_yaw <= armour_cos:
                    damage += 1
    return damage
