"""Common parts of the four fighting bots: timers, dodges, and guards against the ground and a stall."""

import warp as wp

from sparring.envs.dogfight.kernels.bots.view import BotView, up
from sparring.envs.dogfight.kernels.state import BotMemory, Fighter


@wp.func
def count_down(ticks: wp.int16) -> wp.int16:
    """Return a timer after one more decision, at least 0."""
    return wp.max(ticks - wp.int16(1), wp.int16(0))


@wp.func
def enter(m: BotMemory, mode: int, hold: int) -> BotMemory:
    """Change the mode and hold it: it may change again on the `hold`-th decision after this one."""
    m.mode = wp.int16(mode)
    m.timer = wp.int16(hold)
    return m


@wp.func
def dodge(m: BotMemory, v: BotView, radius: float, ticks: int) -> BotMemory:
    """Continue a dodge, or start one in the other direction if a bullet is within `radius` m.

    Tested after the countdown: with a bullet still near, the next dodge follows the last one without a pause.
    """
    m.evade_ticks = count_down(m.evade_ticks)
    if m.evade_ticks == wp.int16(0) and v.bullet_distance < radius:
        m.evade_direction = -m.evade_direction
        m.evade_ticks = wp.int16(ticks)
    return m


@wp.func
def dodging(m: BotMemory) -> bool:
    """Return whether a dodge is in progress."""
    return m.evade_ticks > wp.int16(0)


@wp.func
def keep_off_edges(turn: float, v: BotView, floor: float, ceiling: float) -> float:
    """Replace a dodge that pushes a descending nose down below `floor`, or a climbing one up above `ceiling`.

    Classic bots treat a positive turn as nose up in either flight direction; challenge bots use their heading.
    """
    lift = float(1.0)
    descending = float(0.0)
    if v.challenge:
        lift = up(v.me)
        descending = 0.1
    kept = turn
    if v.me.y < floor and kept * lift < 0.0 and v.me.sin_yaw < descending:
        kept = lift
    if v.me.y > ceiling and kept * lift > 0.0 and v.me.sin_yaw > 0.0:
        kept = -lift
    return kept


@wp.func
def altitude_guard(f: Fighter, challenge: bool) -> float:
    """Return the turn command +-1 of a fighter diving at the ground or climbing into the ceiling, else 0."""
    low = f.y < 70.0 and f.sin_yaw < -0.3
    if challenge:
        low = (
            (f.y < 50.0 and f.sin_yaw < 0.5) or (f.y < 100.0 and f.sin_yaw < 0.0) or (f.y < 150.0 and f.sin_yaw < -0.3)
        )
    if low:
        return up(f)
    if f.y > 570.0 and f.sin_yaw > 0.3:
        return -up(f)
    return 0.0


@wp.func
def stall_guard(action: wp.vec3, speed: float) -> wp.vec3:
    """Limit the turn and raise the throttle below 45 m/s."""
    # u rises from 0 at 45 m/s to 1 at the stall speed of 30 m/s.
    u = wp.clamp((45.0 - speed) / 15.0, 0.0, 1.0)
    limit = 1.0 - 0.7 * u
    return wp.vec3(wp.clamp(action[0], -limit, limit), wp.max(action[1], 0.8 * u), action[2])
