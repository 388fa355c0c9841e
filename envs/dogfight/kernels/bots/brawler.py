"""The brawler: a close-in turning fight in five phases, with jinks that run in all of them."""

import math

import warp as wp

from sparring.envs.dogfight.kernels.bots.shared import count_down, dodge, dodging, enter
from sparring.envs.dogfight.kernels.bots.view import BotView, fire, side_of, smart_aim, steer, wrap
from sparring.envs.dogfight.kernels.sensing import angle_to
from sparring.envs.dogfight.kernels.state import BotMemory

CLOSE = wp.constant(0)
BRAWL = wp.constant(1)
BAIT = wp.constant(2)
PUNISH = wp.constant(3)
RETREAT = wp.constant(4)

HOLD = wp.constant(20)  # Decisions, as all timers of bots: 120 a second at bot rate tick.
PUNISH_TICKS = wp.constant(60)


@wp.func
def too_low(m: BotMemory, v: BotView) -> bool:
    """Return whether to retreat upward; tested first, and only under challenge rules, where the ground kills."""
    limit = wp.where(m.mode == wp.int16(CLOSE), 130.0, wp.where(m.mode == wp.int16(BRAWL), 120.0, 140.0))
    return v.challenge and m.mode <= wp.int16(BAIT) and v.me.y < limit


@wp.func
def next_phase(m: BotMemory, v: BotView) -> int:
    """Return the phase after this decision: from the first rule that holds, else unchanged."""
    d = v.s.distance
    if too_low(m, v):
        return RETREAT
    if m.mode == wp.int16(CLOSE) and d < 200.0:
        return BRAWL
    if m.mode == wp.int16(BRAWL):
        if d > 300.0:
            return CLOSE
        if v.tailed and d < 180.0 and v.closing > 30.0:
            return BAIT
        if v.me.y < 80.0 and v.me.speed < 60.0 and not v.challenge:
            return RETREAT
    if m.mode == wp.int16(BAIT):
        if v.behind or (v.s.ahead > wp.static(math.cos(1.0)) and d < 200.0):
            return PUNISH
        if d > 250.0:
            return CLOSE
        if not v.tailed:
            return BRAWL
    if m.mode == wp.int16(PUNISH) and m.mode_ticks == wp.int16(0):
        return BRAWL
    if m.mode == wp.int16(RETREAT) and v.me.speed > 80.0 and v.me.y > wp.where(v.challenge, 220.0, 180.0):
        return CLOSE
    return int(m.mode)


@wp.func
def change_phase(m: BotMemory, v: BotView) -> BotMemory:
    """Enter the next phase; every change is held, and PUNISH has an additional timer."""
    phase = next_phase(m, v)
    if phase == int(m.mode):
        return m
    if phase == PUNISH:
        m.mode_ticks = wp.int16(PUNISH_TICKS)
    return enter(m, phase, HOLD)


@wp.func
def close_in(v: BotView) -> wp.vec3:
    """Return the action of CLOSE: straight at the opponent, pulling up out of a low dive."""
    turn = steer(3.0, smart_aim(v, 1.0))
    if v.me.y < 120.0 and v.me.sin_yaw < 0.0:
        turn = wp.clamp(turn + 0.3, -1.0, 1.0)
    return wp.vec3(turn, 1.0, fire(v, wp.static(math.cos(0.25)), 300.0))


@wp.func
def brawl(m: BotMemory, v: BotView) -> wp.vec3:
    """Return the action of BRAWL: turn inside the opponent at low speed, or jink."""
    turn = float(m.evade_direction)
    if not dodging(m):
        turn = steer(4.0, smart_aim(v, 0.7))
    throttle = wp.where(v.me.speed > 120.0, 0.0, wp.where(v.me.speed < 70.0, 0.6, 0.2))
    return wp.vec3(turn, throttle, fire(v, wp.static(math.cos(0.3)), 250.0))


@wp.func
def brawler(m: BotMemory, v: BotView) -> tuple[BotMemory, wp.vec3]:
    """Return memory and action of one decision of the brawler, before the stall guard."""
    m.timer = count_down(m.timer)
    m.mode_ticks = count_down(m.mode_ticks)
    m = dodge(m, v, 100.0, 8)
    if m.timer == wp.int16(0):
        m = change_phase(m, v)
    if m.mode == wp.int16(CLOSE):
        return m, close_in(v)
    if m.mode == wp.int16(BRAWL):
        return m, brawl(m, v)
    if m.mode == wp.int16(BAIT):
        turn = steer(2.0, wrap(v.off + float(m.evade_direction) * wp.static(0.5 * math.pi)))
        return m, wp.vec3(turn, 0.0, fire(v, wp.static(math.cos(0.35)), 200.0))
    if m.mode == wp.int16(PUNISH):
        return m, wp.vec3(steer(4.0, smart_aim(v, 0.8)), 0.5, fire(v, wp.static(math.cos(0.35)), 300.0))
    climb = wp.vec2(side_of(v.me.cos_yaw, v.challenge) * wp.static(math.cos(0.5)), wp.static(math.sin(0.5)))
    return m, wp.vec3(steer(2.0, angle_to(v.me, climb)), 1.0, 0.0)
