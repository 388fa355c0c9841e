"""The five scripted opponents over K matches at once.

Each bot is a function of what it sees (`Sight`), of the distance of the nearest enemy bullet and of its memory; it
returns turn, throttle and shot for all K matches and changes the memory in place. Modes are resolved with
`np.select`: every mode's action is computed and the right one picked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from benchmarks.numpy_dogfight.sensing import Sight, lead_point, sight
from benchmarks.numpy_dogfight.state import Array, Memory, State, wrap_angle, wrap_x
from envs.dogfight import rules

NOSE_BEHIND = 2.0
ATTACK, DEFEND, ENERGY, DISENGAGE = range(4)
CLOSE, BRAWL, BAIT, PUNISH, RETREAT = range(5)
NO_BULLET = 1e9


@dataclass
class Choice:
    """A decision for K matches; `shoot` is a bool array."""

    turn: Array
    throttle: Array
    shoot: Array


Pilot = Callable[[Sight, Memory, Array], Choice]


def bot_actions(state: State, bots: Array, *, challenge: bool, active: Array | None = None) -> Array:
    """Actions [N, 2, 3] of the seats that `bots` [N, 2] gives to a scripted opponent; zeros elsewhere.

    do_nothing keeps its hands off the controls: zeros too.

    The memory of those seats moves on by one decision, in the `active` [N] matches (default: all).
    """
    actions = np.zeros((*bots.shape, 3), state.x.dtype)
    for seat in (0, 1):
        for name, pilot in PILOTS.items():
            mask = bots[:, seat] == rules.bot_id(name)
            if active is not None:
                mask &= active
            if not mask.any():
                continue
            where = slice(None) if mask.all() else np.flatnonzero(mask)
            choice = _decide(state, seat, where, pilot, challenge=challenge)
            actions[where, seat, 0] = choice.turn
            actions[where, seat, 1] = choice.throttle
            actions[where, seat, 2] = choice.shoot
    return actions


def _decide(state: State, seat: int, where: Array | slice, pilot: Pilot, *, challenge: bool) -> Choice:
    view = sight(state, seat, where, challenge=challenge)
    memory = Memory(*(getattr(state.memory, field.name)[where, seat].copy() for field in fields(Memory)))
    choice = pilot(view, memory, _nearest_bullet(state, seat, where, challenge=challenge))
    guarded, guard = altitude_guard(view)
    for field in fields(Memory):
        old = getattr(state.memory, field.name)
        old[where, seat] = np.where(guarded, old[where, seat], getattr(memory, field.name))
    return stall_guard(view, select([guarded], [guard], choice))


def _nearest_bullet(state: State, seat: int, where: Array | slice, *, challenge: bool) -> Array:
    foe = 1 - seat
    dx = wrap_x(state.bullet_x[where, foe] - state.x[where, seat, None], challenge=challenge)
    dy = state.bullet_y[where, foe] - state.y[where, seat, None]
    distance = np.where(state.bullet_life[where, foe] > 0, np.hypot(dx, dy), NO_BULLET)
    return distance.min(axis=1)


# Shared parts


def select(masks: list[Array], choices: list[Choice], otherwise: Choice) -> Choice:
    """Pick the first choice whose mask holds, match by match."""
    return Choice(
        *(
            np.select(masks, [getattr(choice, field.name) for choice in choices], getattr(otherwise, field.name))
            for field in fields(Choice)
        )
    )


def steer(view: Sight, heading: Array, gain: float) -> Array:
    """Turn command toward a heading."""
    return np.clip(gain * wrap_angle(heading - view.me.yaw), -1.0, 1.0)


def behind_me(view: Sight) -> Array:
    """Whether the opponent is behind my wing line."""
    return np.abs(view.off) > NOSE_BEHIND


def behind_foe(view: Sight) -> Array:
    """Whether I am behind the opponent's wing line, where its armour is."""
    return np.abs(view.foe_off) > NOSE_BEHIND


def fire(view: Sight, angle: float, reach: float) -> Array:
    """Whether to shoot: on target, in reach, gun ready and the shot not wasted on the armour."""
    aligned = np.cos(view.me.yaw - view.foe.yaw) > np.cos(view.physics["rear_aspect_cone"])
    wasted = (np.abs(view.off) <= 0.5) & aligned
    return (np.abs(view.off) < angle) & (view.distance < reach) & (view.me.cooldown == 0) & ~wasted


def aim(view: Sight, lead: float = 1.0, *, smart: bool = True) -> Array:
    """Direction to the lead point; from behind, a smart aim takes the point 60 m beside it on my side."""
    x, y = lead_point(view, lead)
    if smart:
        across_x, across_y = -view.foe.sin, view.foe.cos
        side = np.where(-(view.dx * across_x + view.dy * across_y) >= 0.0, 60.0, -60.0) * behind_foe(view)
        x, y = x + side * across_x, y + side * across_y
    return np.arctan2(y, x)


def altitude_guard(view: Sight) -> tuple[Array, Choice]:
    """Where it is time to pull away from the ground or the ceiling, and the action that does."""
    floor, dive = (130.0, -0.1) if view.challenge else (70.0, -0.3)
    low = (view.me.y < floor) & (view.me.sin < dive)
    high = (view.me.y > 570.0) & (view.me.sin > 0.3)
    upward = np.where(view.me.cos >= 0.0, 1.0, -1.0)
    one = np.ones_like(view.me.y)
    return low | high, Choice(np.where(low, upward, -upward), one, np.zeros(len(one), bool))


def stall_guard(view: Sight, choice: Choice) -> Choice:
    """Below 45 m/s: less turn, more throttle."""
    slow = np.clip((45.0 - view.me.speed) / 15.0, 0.0, 1.0)
    limit = 1.0 - 0.7 * slow
    return Choice(np.clip(choice.turn, -limit, limit), np.maximum(choice.throttle, 0.8 * slow), choice.shoot)


def evade(memory: Memory, nearest: Array, radius: float, ticks: int, where: Array | None = None) -> Array:
    """Start or go on with an evasive turn (toward `evade_direction`), where allowed; returns where one is flown."""
    allowed = np.ones(len(nearest), bool) if where is None else where
    running = allowed & (memory.evade_ticks > 0)
    start = allowed & ~running & (nearest < radius)
    memory.evade_ticks -= running
    memory.evade_direction[start] *= -1
    memory.evade_ticks[start] = ticks
    return allowed & (memory.evade_ticks > 0)


def count_down(memory: Memory, where: Array) -> Array:
    """Let running timers run, where allowed; returns where none was running, so that the mode may change."""
    running = where & (memory.timer > 0)
    memory.timer -= running
    return where & ~running


def transit(memory: Memory, rows: list[tuple[int, Array, int, int]], free: Array) -> None:
    """Take, where `free`, the first row (from, condition, to, hold) whose condition holds.

    A timer of T, set on one tick, is counted down on the T ticks that follow.
    """
    before = memory.mode.copy()
    for source, condition, target, hold in rows:
        take = free & (before == source) & condition
        memory.mode[take], memory.timer[take], memory.mode_ticks[take] = target, hold, 0
        free = free & ~take


def perpendicular(view: Sight) -> Array:
    """Return the heading that puts the opponent at 90 degrees, on the side it is on now."""
    return view.bearing - np.where(view.off >= 0.0, np.pi / 2, -np.pi / 2)


def attack_throttle(view: Sight, turn: Array) -> Array:
    """Full when slow or far, half in a hard turn."""
    cases = [view.me.speed < 80.0, np.abs(turn) > 0.7, view.distance > 250.0]
    return np.select(cases, [1.0, 0.5, 1.0], 0.7)


def slow_and_high(view: Sight) -> Array:
    """Little speed, much height: worth dipping the nose."""
    return (view.me.speed < 60.0) & (view.me.y > 300.0)


def kept_inside(view: Sight, turn: Array, floor: float, ceiling: float) -> Array:
    """Replace an evasive turn by one toward the middle below the floor or above the ceiling."""
    upward = np.where(view.me.cos >= 0.0, 1.0, -1.0)
    return np.select([view.me.y < floor, view.me.y > ceiling], [upward, -upward], turn)


# The opponents


def chaser(view: Sight, memory: Memory, nearest: Array) -> Choice:
    """Pursuit with yo-yos: high when about to overshoot, low when falling behind."""
    me, d = view.me, view.distance
    evading = evade(memory, nearest, 80.0, 15)
    dodge = Choice(memory.evade_direction, np.full_like(d, 0.8), fire(view, 0.3, 320.0))
    free = count_down(memory, ~evading)
    high = free & (d < 120.0) & (view.closing > 50.0) & (me.y < 500.0)
    low = free & ~high & (d > 300.0) & (view.closing < -20.0) & (me.y > 150.0)
    for mask, sign, ticks in ((high, 1, 40), (low, -1, 30)):
        memory.mode[mask], memory.timer[mask], memory.mode_ticks[mask] = sign, ticks, 0
    memory.mode[free & ~high & ~low] = 0
    near_ground, near_ceiling = (me.y < 120.0) & (me.sin < 0.1), (me.y > 520.0) & (me.sin > -0.1)
    bias = np.select([memory.mode != 0, near_ground, near_ceiling], [0.4 * memory.mode, 0.25, -0.25], 0.0)
    turn = steer(view, aim(view) + bias, 2.5)
    throttle = np.where((me.speed > 120.0) & (np.abs(turn) > 0.7), 0.7, 1.0)
    return select([evading], [dodge], Choice(turn, throttle, fire(view, 0.22, 320.0)))


def dogfighter(view: Sight, memory: Memory, nearest: Array) -> Choice:
    """Attack, defend, regain energy, disengage."""
    me, d = view.me, view.distance
    evading = evade(memory, nearest, 90.0, 18)
    jink = kept_inside(view, memory.evade_direction, 80.0, np.inf)
    dodge = Choice(jink, np.maximum(attack_throttle(view, jink), 0.8), fire(view, 0.3, 350.0))
    _dogfighter_mode(view, memory, ~evading)

    turn = steer(view, aim(view) + _dogfighter_bias(view), 3.0)
    attack = Choice(turn, attack_throttle(view, turn), fire(view, 0.22, 350.0))
    brake = np.where(me.speed > 100.0, 0.3, 0.6)
    defend = Choice(steer(view, perpendicular(view), 3.5), brake, fire(view, 0.3, 250.0))
    level, climb = np.where(view.dx > 0.0, np.pi, 0.0), np.where(me.y < 400.0, np.arctan(0.5), 0.0)
    away = level + np.where(view.dx > 0.0, -climb, climb)
    full, hold_fire = np.ones_like(d), np.zeros(len(d), bool)
    regain = Choice(steer(view, away, 2.0), full, fire(view, 0.25, 300.0))
    flee = Choice(steer(view, view.bearing + np.pi, 2.5), full, hold_fire)
    modes = [memory.mode == mode for mode in (DEFEND, ENERGY, DISENGAGE)]
    return select([evading, *modes], [dodge, defend, regain, flee], attack)


def _dogfighter_mode(view: Sight, memory: Memory, where: Array) -> None:
    ratio, d, tailed = view.me.energy / np.maximum(view.foe.energy, 1.0), view.distance, behind_me(view)
    memory.mode_ticks += where & (memory.mode == ATTACK) & (d < 250.0)
    rows = [
        (ATTACK, tailed & (d < 200.0), DEFEND, 45),
        (ATTACK, (ratio < 0.7) & (view.me.y > 100.0), ENERGY, 60),
        (ATTACK, memory.mode_ticks > 360, DISENGAGE, 90),
        (DEFEND, ~tailed | (d > 300.0), ATTACK, 30),
        (DEFEND, ratio < 0.6, ENERGY, 60),
        (ENERGY, ratio > 0.9, ATTACK, 30),
        (ENERGY, tailed & (d < 150.0), DEFEND, 45),
        (DISENGAGE, (d > 350.0) | behind_foe(view), ATTACK, 30),
        (DISENGAGE, tailed & (d < 150.0), DEFEND, 45),
    ]
    transit(memory, rows, count_down(memory, where))


def _dogfighter_bias(view: Sight) -> Array:
    y, climbing = view.me.y, view.me.sin > 0.0
    cases: list[tuple[Array, Any]] = [
        ((y > 550.0) & climbing, -0.3 * np.minimum((y - 550.0) / 50.0, 1.0)),
        ((y > 450.0) & climbing, -0.1),
        ((y < 100.0) & ~climbing, 0.4 * np.minimum((100.0 - y) / 100.0, 1.0)),
        ((y < 180.0) & (view.me.sin < 0.0), 0.15),
        (slow_and_high(view), -0.08),
    ]
    return np.select([case for case, _ in cases], [bias for _, bias in cases], 0.0)


def ace(view: Sight, memory: Memory, nearest: Array) -> Choice:
    """Early evasion, hard breaks, steady altitude."""
    me, d = view.me, view.distance
    evading = evade(memory, nearest, 130.0, 18)
    jink = kept_inside(view, memory.evade_direction, 90.0, 540.0)
    dodge = Choice(jink, np.maximum(attack_throttle(view, jink), 0.7), fire(view, 0.3, 380.0))
    brake = np.where(me.speed > 100.0, 0.3, 0.5)
    hard = Choice(steer(view, perpendicular(view) + 0.15, 3.5), brake, fire(view, 0.35, 350.0))
    low, high = 0.35 * (250.0 - me.y) / 250.0, -0.3 * np.minimum((me.y - 480.0) / 120.0, 1.0)
    bias = np.select([me.y < 250.0, me.y > 480.0, slow_and_high(view)], [low, high, -0.08], 0.0)
    turn = steer(view, aim(view) + bias, 3.0)
    attack = Choice(turn, attack_throttle(view, turn), fire(view, 0.2, 380.0))
    return select([evading, behind_me(view) & (d < 250.0)], [dodge, hard], attack)


def brawler(view: Sight, memory: Memory, nearest: Array) -> Choice:
    """Close in, brawl with jinks, bait, punish, retreat."""
    me, d = view.me, view.distance
    _brawler_mode(view, memory)
    brawling = memory.mode == BRAWL
    jinking = evade(memory, nearest, 100.0, 8, brawling)
    full, hold_fire = np.ones_like(d), np.zeros(len(d), bool)
    close = Choice(steer(view, aim(view), 3.0), full, fire(view, 0.25, 300.0))
    turn = np.where(jinking, memory.evade_direction, steer(view, aim(view, 0.7, smart=False), 4.0))
    brawl = Choice(turn, np.select([me.speed > 120.0, me.speed < 70.0], [0.0, 0.6], 0.2), fire(view, 0.3, 250.0))
    bait = Choice(steer(view, perpendicular(view), 2.0), 0.0 * full, fire(view, 0.35, 200.0))
    punish = Choice(steer(view, aim(view, 0.8, smart=False), 4.0), 0.5 * full, fire(view, 0.35, 300.0))
    climb = np.where(me.cos >= 0.0, 0.5, np.pi - 0.5)
    retreat = Choice(steer(view, climb, 2.0), full, hold_fire)
    modes = [memory.mode == mode for mode in (BRAWL, BAIT, PUNISH, RETREAT)]
    return select(modes, [brawl, bait, punish, retreat], close)


def _brawler_mode(view: Sight, memory: Memory) -> None:
    me, d, tailed = view.me, view.distance, behind_me(view)
    always = np.ones(len(d), bool)
    rows = [
        (CLOSE, d < 200.0, BRAWL, 20),
        (BRAWL, d > 300.0, CLOSE, 20),
        (BRAWL, tailed & (d < 180.0) & (view.closing > 30.0), BAIT, 20),
        (BRAWL, (me.y < 80.0) & (me.speed < 60.0), RETREAT, 20),
        (BAIT, behind_foe(view) | ((np.abs(view.off) < 1.0) & (d < 200.0)), PUNISH, 60),
        (BAIT, d > 250.0, CLOSE, 20),
        (BAIT, ~tailed, BRAWL, 20),
        (PUNISH, always, BRAWL, 20),
        (RETREAT, (me.y > 180.0) & (me.speed > 80.0), CLOSE, 20),
    ]
    transit(memory, rows, count_down(memory, always))


PILOTS = {"dogfighter": dogfighter, "chaser": chaser, "ace": ace, "brawler": brawler}
