"""The chaser: pursuit with yo-yos, high when about to overshoot, low when falling behind."""

from __future__ import annotations

import numpy as np

from benchmarks.numpy_dogfight.bots.fighter import Choice, fire, full, off_heading, select, smart_heading, stall_guard
from benchmarks.numpy_dogfight.sensing import Sight
from benchmarks.numpy_dogfight.state import Array, Memory


def chaser(view: Sight, memory: Memory) -> Choice:
    """Decide; a dodge has no stall guard, and the yo-yo timer runs on through it."""
    dodging = memory.evade_ticks > 0
    dodge = Choice(memory.evade_direction, full(view, 0.8), fire(view, 0.3, 320.0))
    _start_yo_yo(view, memory, ~dodging & (memory.timer == 0))
    turn = np.clip(2.5 * (off_heading(view, smart_heading(view, 1.0)) + _bias(view, memory)), -1.0, 1.0)
    throttle = np.where((view.me.speed > 120.0) & (np.abs(turn) > 0.7), 0.7, 1.0)
    pursuit = Choice(turn, throttle, fire(view, 0.22, 320.0))
    return select([dodging], [dodge], stall_guard(view, pursuit))


def _start_yo_yo(view: Sight, memory: Memory, free: Array) -> None:
    """Start a high or a low yo-yo where none runs; `mode` holds its sign and keeps it afterwards."""
    d, y, closing = view.distance, view.me.y, view.closing
    high = free & (d < 120.0) & (closing > 50.0) & (y < 500.0)
    low = free & ~high & (d > 300.0) & (closing < -20.0) & (y > 150.0)
    memory.mode[high], memory.timer[high] = 1, 40
    memory.mode[low], memory.timer[low] = -1, 30


def _bias(view: Sight, memory: Memory) -> Array:
    """Return the sum of the yo-yo's bias and the one away from the ground or the ceiling, rad."""
    y, sin = view.me.y, view.me.sin
    yo_yo = np.where(memory.timer > 0, 0.4 * memory.mode, 0.0)
    return yo_yo + np.select([(y < 120.0) & (sin < 0.1), (y > 520.0) & (sin > -0.1)], [0.25, -0.25], 0.0)
