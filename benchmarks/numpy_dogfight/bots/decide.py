"""One decision of every scripted seat: altitude guard, timers, dodge trigger, then the bot's own part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from benchmarks.numpy_dogfight.bots.ace import ace
from benchmarks.numpy_dogfight.bots.brawler import brawler
from benchmarks.numpy_dogfight.bots.chaser import chaser
from benchmarks.numpy_dogfight.bots.dogfighter import dogfighter
from benchmarks.numpy_dogfight.bots.fighter import Choice, altitude_guard, select
from benchmarks.numpy_dogfight.sensing import Sight, sight
from benchmarks.numpy_dogfight.state import Array, Memory, State, wrap_x
from sparring.envs.dogfight import rules

NO_BULLET = 1e9


@dataclass(frozen=True)
class Pilot:
    """Function of a bot, and the trigger of its dodge: a bullet within `radius` metres, for `ticks` decisions."""

    choose: Callable[[Sight, Memory], Choice]
    radius: float
    ticks: int


PILOTS = {
    "dogfighter": Pilot(dogfighter, 90.0, 18),
    "chaser": Pilot(chaser, 80.0, 15),
    "ace": Pilot(ace, 130.0, 18),
    "brawler": Pilot(brawler, 100.0, 8),
}


def bot_actions(state: State, bots: Array, *, challenge: bool, active: Array | None = None) -> Array:
    """Return actions [N, 2, 3] of the seats that `bots` [N, 2] gives to a scripted opponent; zeros elsewhere.

    do_nothing gives turn 0, throttle 0 and no shot: zeros too. The memory of the scripted seats moves on by one
    decision, in the `active` [N] matches (default: all).
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
    """Decide for one seat of the matches `where`; a guarded bot's memory stays as it is."""
    view = sight(state, seat, where, challenge=challenge)
    memory = Memory(*(getattr(state.memory, field.name)[where, seat].copy() for field in fields(Memory)))
    memory.timer -= memory.timer > 0
    memory.evade_ticks -= memory.evade_ticks > 0
    # After the decrement: a dodge that has just run out is followed at once by one the other way.
    start = (_nearest_bullet(state, seat, where, challenge=challenge) < pilot.radius) & (memory.evade_ticks == 0)
    memory.evade_ticks[start] = pilot.ticks
    memory.evade_direction[start] *= -1
    choice = pilot.choose(view, memory)
    guarded, guard = altitude_guard(view)
    for field in fields(Memory):
        stored = getattr(state.memory, field.name)
        stored[where, seat] = np.where(guarded, stored[where, seat], getattr(memory, field.name))
    return select([guarded], [guard], choice)


def _nearest_bullet(state: State, seat: int, where: Array | slice, *, challenge: bool) -> Array:
    """Return the distance of the nearest live bullet of the opponent, m [K]."""
    foe = 1 - seat
    dx = wrap_x(state.bullet_x[where, foe] - state.x[where, seat, None], challenge=challenge)
    dy = state.bullet_y[where, foe] - state.y[where, seat, None]
    distance = np.where(state.bullet_life[where, foe] > 0, np.hypot(dx, dy), NO_BULLET)
    return distance.min(axis=1)
