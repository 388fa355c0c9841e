"""Start of a match: physics drawn, fighters placed, bot memories reset.

Random numbers are counter-based. The draws of a match depend only on (seed, match id, number of matches started in its
row), not on the batch size or the order of threads. The number of draws is the same for all ranges.
"""

import math

import warp as wp

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.kernels.state import BotMemory, Fighter, Physics

CHALLENGE_GRAVITY = wp.constant(rules.CHALLENGE_GRAVITY)
SPAWN_X = wp.constant(rules.SPAWN_X)
SPAWN_Y = wp.constant(rules.SPAWN_Y)
SPAWN_SPEED = wp.constant(rules.SPAWN_SPEED)
LOW_SPEED_MARGIN = wp.constant(rules.SPAWN_SPEED_MARGIN)
HIGH_SPEED = wp.constant(rules.SPAWN_SPEED_HIGH)


@wp.func
def whole(value: float, high: float) -> float:
    """Round a draw from [low, high + 1) down to an integer in [low, high], all equally likely."""
    return wp.min(wp.floor(value), high)  # In float32 a draw can round up to high + 1 itself.


@wp.func
def draw_physics(rng: wp.uint32, ranges: wp.array2d[float], challenge: bool) -> Physics:
    """Draw the parameters of a match from `ranges` [13, 2] (`rules.PARAMETERS`). Challenge rules fix the gravity."""
    p = Physics()
    # Drawn even if challenge rules replace it, to keep all later draws the same.
    p.gravity = wp.randf(rng, ranges[0, 0], ranges[0, 1])
    if challenge:
        p.gravity = CHALLENGE_GRAVITY
    # Decay of speed without thrust, 1/s, and cost of a turn, 1/rad.
    p.drag_coeff = wp.randf(rng, ranges[1, 0], ranges[1, 1])
    p.turn_bleed_coeff = wp.randf(rng, ranges[2, 0], ranges[2, 1])
    # Speed envelope, m/s, and thrust per mass, m/s^2.
    p.max_speed = wp.randf(rng, ranges[3, 0], ranges[3, 1])
    p.min_speed = wp.randf(rng, ranges[4, 0], ranges[4, 1])
    p.max_thrust = wp.randf(rng, ranges[5, 0], ranges[5, 1])
    # The gun: lead to aim with (m/s), rate of fire and reach (ticks).
    p.bullet_speed = wp.randf(rng, ranges[6, 0], ranges[6, 1])
    p.gun_cooldown_ticks = whole(wp.randf(rng, ranges[7, 0], ranges[7, 1] + 1.0), ranges[7, 1])
    p.bullet_lifetime_ticks = whole(wp.randf(rng, ranges[8, 0], ranges[8, 1] + 1.0), ranges[8, 1])
    # Hits until death.
    p.max_hp = whole(wp.randf(rng, ranges[9, 0], ranges[9, 1] + 1.0), ranges[9, 1])
    # Turn rates at the lowest and the highest speed, rad/s.
    p.max_turn_rate = wp.randf(rng, ranges[10, 0], ranges[10, 1])
    p.min_turn_rate = wp.randf(rng, ranges[11, 0], ranges[11, 1])
    # Half angle of the rear armour, rad.
    p.rear_aspect_cone = wp.randf(rng, ranges[12, 0], ranges[12, 1])
    return p


@wp.func
def place(x: float, y: float, yaw: float, speed: float, p: Physics) -> Fighter:
    """Return a fighter at full hp with its gun ready; lengths in m, yaw in rad, speed in m/s."""
    f = Fighter()
    f.x = x
    f.y = y
    f.cos_yaw = wp.cos(yaw)
    f.sin_yaw = wp.sin(yaw)
    f.speed = speed
    f.hp = wp.int16(p.max_hp)
    return f


@wp.func
def spawn(rng: wp.uint32, seat: int, p: Physics, fixed: bool) -> Fighter:
    """Place a fighter, seat 0 on the left and 1 on the right; |x| is one draw for both, the rest are draws of each."""
    side = wp.where(seat == 0, -1.0, 1.0)
    if fixed:
        return place(side * SPAWN_X, SPAWN_Y, wp.where(seat == 0, 0.0, math.pi), SPAWN_SPEED, p)
    x = side * wp.randf(rng, 100.0, 300.0)
    # Skip the other seat's draws: both seats call this with the same generator.
    for _ in range(3 * seat):
        wp.randf(rng)
    y = wp.randf(rng, 150.0, 450.0)
    yaw = wp.randf(rng, -math.pi, math.pi)
    speed = wp.randf(rng, p.min_speed + LOW_SPEED_MARGIN, HIGH_SPEED)
    return place(x, y, yaw, speed, p)


@wp.func
def fresh_memory() -> BotMemory:
    """Return a bot's memory at the start of a match; the first dodge flips the direction before use."""
    m = BotMemory()
    m.evade_direction = wp.int16(1)
    return m
