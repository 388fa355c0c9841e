"""The dogfighter: attack, defend, regain energy, disengage."""

from __future__ import annotations

import numpy as np

from benchmarks.numpy_dogfight.bots.fighter import (
    Choice,
    Transition,
    attack_throttle,
    behind,
    break_heading,
    energy_ratio,
    fire,
    full,
    hold_fire,
    off_heading,
    select,
    smart_heading,
    stall_guard,
    steer,
    tailed,
    transit,
    upward,
)
from benchmarks.numpy_dogfight.sensing import Sight
from benchmarks.numpy_dogfight.state import Array, Memory

ATTACK, DEFEND, ENERGY, DISENGAGE = range(4)
CLIMB = np.arctan(0.5)


def dogfighter(view: Sight, memory: Memory) -> Choice:
    """Decide; modes and the attack count stand still in a dodge."""
    dodging = memory.evade_ticks > 0
    dodge = Choice(_dodge_turn(view, memory), full(view, 0.8), fire(view, 0.3, 350.0))
    table = _challenge_modes(view) if view.challenge else _classic_modes(view, memory)
    transit(memory, table, ~dodging & (memory.timer == 0))
    attacking = memory.mode == ATTACK
    memory.mode_ticks = np.where(dodging, memory.mode_ticks, np.where(attacking, memory.mode_ticks + 1, 0))

    turn = np.clip(3.0 * (off_heading(view, smart_heading(view, 1.0)) + _bias(view)), -1.0, 1.0)
    attack = Choice(turn, attack_throttle(view, turn), fire(view, 0.22, 350.0))
    brake = np.where(view.me.speed > 100.0, 0.3, 0.6)
    defend = Choice(steer(view, break_heading(view), 3.5), brake, fire(view, 0.3, 250.0))
    regain = Choice(steer(view, _energy_heading(view), 2.0), full(view, 1.0), fire(view, 0.25, 300.0))
    flee = Choice(steer(view, np.arctan2(-view.dy, -view.dx), 2.5), full(view, 1.0), hold_fire(view))
    modes = [memory.mode == mode for mode in (DEFEND, ENERGY, DISENGAGE)]
    return stall_guard(view, select([dodging, *modes], [dodge, defend, regain, flee], attack))


def _dodge_turn(view: Sight, memory: Memory) -> Array:
    """Return the direction of the dodge, turned up if it would push a sinking nose down near the ground."""
    direction, y, sin = memory.evade_direction, view.me.y, view.me.sin
    if view.challenge:
        return np.where((y < 80.0) & (direction * view.me.cos < 0.0) & (sin < 0.1), upward(view), direction)
    return np.where((y < 80.0) & (direction < 0) & (sin < 0.0), 1.0, direction)


def _classic_modes(view: Sight, memory: Memory) -> list[Transition]:
    ratio, d, hunted = energy_ratio(view), view.distance, tailed(view)
    return [
        (ATTACK, hunted & (d < 200.0), DEFEND, 45),
        (ATTACK, (ratio < 0.7) & (view.me.y > 100.0), ENERGY, 60),
        (ATTACK, (memory.mode_ticks > 360) & (d < 250.0), DISENGAGE, 90),
        (DEFEND, ~hunted | (d > 300.0), ATTACK, 30),
        (DEFEND, ratio < 0.6, ENERGY, 60),
        (ENERGY, ratio > 0.9, ATTACK, 30),
        (ENERGY, hunted & (d < 150.0), DEFEND, 45),
        (DISENGAGE, (d > 350.0) | behind(view), ATTACK, 30),
        (DISENGAGE, hunted & (d < 150.0), DEFEND, 45),
    ]


def _challenge_modes(view: Sight) -> list[Transition]:
    ratio, d, hunted = energy_ratio(view), view.distance, tailed(view)
    return [
        (ATTACK, hunted & (d < 200.0), DEFEND, 45),
        (ATTACK, (ratio < 0.5) & (view.me.y > 100.0), ENERGY, 30),
        (DEFEND, ~hunted | (d > 300.0), ATTACK, 30),
        (DEFEND, ratio < 0.4, ENERGY, 30),
        (ENERGY, (ratio > 0.7) | (d < 200.0), ATTACK, 30),
        (ENERGY, hunted & (d < 150.0), DEFEND, 45),
    ]


def _bias(view: Sight) -> Array:
    """Return the sum of three biases, rad: away from the ceiling, away from the ground, dip when slow and high."""
    y, sin = view.me.y, view.me.sin
    floor = 130.0 if view.challenge else 100.0
    push = np.where(sin > 0.0, -0.3 * np.minimum((y - 550.0) / 50.0, 1.0), 0.0)
    high = np.select([y > 550.0, (y > 450.0) & (sin > 0.3)], [push, -0.1], 0.0)
    pull = np.where(sin < 0.1, 0.4 * np.minimum((floor - y) / 60.0, 1.0), 0.0)
    low = np.select([y < floor, (y < 180.0) & (sin < -0.2)], [pull, 0.15], 0.0)
    return high + low + np.where((view.me.speed < 100.0) & (y > 250.0) & (sin > -0.2), -0.08, 0.0)


def _energy_heading(view: Sight) -> Array:
    """Return the heading: a climb away from the opponent below 400 m (challenge: always to the right), level above."""
    away = CLIMB if view.challenge else np.where(view.dx < 0.0, CLIMB, np.pi - CLIMB)
    return np.where(view.me.y < 400.0, away, np.where(view.me.cos > 0.0, 0.0, np.pi))
