"""The ace: early dodges, hard breaks, steady altitude; it has no modes."""

from __future__ import annotations

import numpy as np

from benchmarks.numpy_dogfight.bots.fighter import (
    Choice,
    attack_throttle,
    break_heading,
    fire,
    full,
    off_heading,
    select,
    smart_heading,
    stall_guard,
    steer,
    tailed,
    upward,
)
from benchmarks.numpy_dogfight.sensing import Sight
from benchmarks.numpy_dogfight.state import Array, Memory


def ace(view: Sight, memory: Memory) -> Choice:
    """Decide: dodge, else break away from an opponent close behind, else attack."""
    dodge = Choice(_dodge_turn(view, memory), full(view, 0.7), fire(view, 0.3, 380.0))
    brake = np.where(view.me.speed > 100.0, 0.3, 0.5)
    # This bias is a part of the heading and wrapped with it.
    hard_break = Choice(steer(view, break_heading(view) + 0.15, 3.5), brake, fire(view, 0.35, 350.0))
    turn = np.clip(3.0 * (off_heading(view, smart_heading(view, 1.0)) + _bias(view)), -1.0, 1.0)
    attack = Choice(turn, attack_throttle(view, turn), fire(view, 0.2, 380.0))
    cases = [memory.evade_ticks > 0, tailed(view) & (view.distance < 250.0)]
    return stall_guard(view, select(cases, [dodge, hard_break], attack))


def _dodge_turn(view: Sight, memory: Memory) -> Array:
    """Return the direction of the dodge, reversed if it would lead into the ground or the ceiling."""
    turn, y, sin = memory.evade_direction, view.me.y, view.me.sin
    if view.challenge:
        up = upward(view)
        turn = np.where((y < 120.0) & (turn * view.me.cos < 0.0) & (sin < 0.1), up, turn)
        return np.where((y > 540.0) & (turn * view.me.cos > 0.0) & (sin > 0.0), -up, turn)
    turn = np.where((y < 90.0) & (turn < 0) & (sin < 0.0), 1.0, turn)
    return np.where((y > 540.0) & (turn > 0) & (sin > 0.0), -1.0, turn)


def _bias(view: Sight) -> Array:
    """Return the sum of the bias toward middle altitudes and a dip when slow and high, rad."""
    y, sin = view.me.y, view.me.sin
    low = np.where((y < 250.0) & (sin < 0.2), 0.35 * np.minimum((250.0 - y) / 100.0, 1.0), 0.0)
    high = np.where((y > 480.0) & (sin > -0.2), -0.3 * np.minimum((y - 480.0) / 80.0, 1.0), 0.0)
    return low + high + np.where((view.me.speed < 90.0) & (y > 300.0) & (sin > -0.1), -0.08, 0.0)
