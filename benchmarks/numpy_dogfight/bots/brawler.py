"""The brawler: close in, brawl with jinks, bait, punish, retreat."""

from __future__ import annotations

import numpy as np

from benchmarks.numpy_dogfight.bots.fighter import (
    Choice,
    Transition,
    behind,
    fire,
    full,
    hold_fire,
    select,
    smart_heading,
    stall_guard,
    steer,
    tailed,
    transit,
)
from benchmarks.numpy_dogfight.sensing import Sight
from benchmarks.numpy_dogfight.state import Array, Memory

CLOSE, BRAWL, BAIT, PUNISH, RETREAT = range(5)
HOLD = 20
PUNISH_TICKS = 60


def brawler(view: Sight, memory: Memory) -> Choice:
    """Decide; jinks are started and counted in every phase and flown while brawling."""
    _change_phase(view, memory)
    modes = [memory.mode == mode for mode in (BRAWL, BAIT, PUNISH, RETREAT)]
    phases = [_brawl(view, memory), _bait(view, memory), _punish(view), _retreat(view)]
    return stall_guard(view, select(modes, phases, _close(view)))


def _change_phase(view: Sight, memory: Memory) -> None:
    """Count the punish timer down, then change the phase once its hold is over."""
    memory.mode_ticks -= memory.mode_ticks > 0
    before = memory.mode.copy()
    transit(memory, _phases(view, memory), memory.timer == 0)
    memory.mode_ticks[(memory.mode == PUNISH) & (before != PUNISH)] = PUNISH_TICKS


def _phases(view: Sight, memory: Memory) -> list[Transition]:
    y, speed, d, hunted = view.me.y, view.me.speed, view.distance, tailed(view)
    everywhere: list[Transition] = [
        (CLOSE, d < 200.0, BRAWL, HOLD),
        (BRAWL, d > 300.0, CLOSE, HOLD),
        (BRAWL, hunted & (d < 180.0) & (view.closing > 30.0), BAIT, HOLD),
        (BAIT, behind(view) | ((np.abs(view.off) < 1.0) & (d < 200.0)), PUNISH, HOLD),
        (BAIT, d > 250.0, CLOSE, HOLD),
        (BAIT, ~hunted, BRAWL, HOLD),
        (PUNISH, memory.mode_ticks == 0, BRAWL, HOLD),
    ]
    if not view.challenge:
        classic: list[Transition] = [
            (BRAWL, (y < 80.0) & (speed < 60.0), RETREAT, HOLD),
            (RETREAT, (y > 180.0) & (speed > 80.0), CLOSE, HOLD),
        ]
        return everywhere + classic
    too_low: list[Transition] = [
        (CLOSE, y < 130.0, RETREAT, HOLD),
        (BRAWL, y < 120.0, RETREAT, HOLD),
        (BAIT, y < 140.0, RETREAT, HOLD),
    ]
    return [*too_low, *everywhere, (RETREAT, (y > 220.0) & (speed > 80.0), CLOSE, HOLD)]


def _close(view: Sight) -> Choice:
    turn = steer(view, smart_heading(view, 1.0), 3.0)
    diving = (view.me.y < 120.0) & (view.me.sin < 0.0)
    turn = np.where(diving, np.clip(turn + 0.3, -1.0, 1.0), turn)
    return Choice(turn, full(view, 1.0), fire(view, 0.25, 300.0))


def _brawl(view: Sight, memory: Memory) -> Choice:
    speed = view.me.speed
    turn = np.where(memory.evade_ticks > 0, memory.evade_direction, steer(view, smart_heading(view, 0.7), 4.0))
    throttle = np.select([speed > 120.0, speed < 70.0], [0.0, 0.6], 0.2)
    return Choice(turn, throttle, fire(view, 0.3, 250.0))


def _bait(view: Sight, memory: Memory) -> Choice:
    heading = view.bearing + np.pi / 2 * memory.evade_direction
    return Choice(steer(view, heading, 2.0), full(view, 0.0), fire(view, 0.35, 200.0))


def _punish(view: Sight) -> Choice:
    return Choice(steer(view, smart_heading(view, 0.8), 4.0), full(view, 0.5), fire(view, 0.35, 300.0))


def _retreat(view: Sight) -> Choice:
    left: Array = ~(view.me.cos > 0.0) if view.challenge else view.me.cos < 0.0
    return Choice(steer(view, np.where(left, np.pi - 0.5, 0.5), 2.0), full(view, 1.0), hold_fire(view))
