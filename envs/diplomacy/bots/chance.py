"""Chance of a game's own: what is drawn depends on the seed, the game's number, its phase and who draws, nothing else.

So a power that comes to be played by somebody else changes nobody's draws, and a game replayed by its number in another
batch, or on other threads, is the same game.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.board.state import PROVINCES, Games
from sparring.envs.diplomacy.orders.legal import OrderSink, draw, open_sink

PHASES = wp.constant(5)
DRAWERS = wp.constant(128)
"""Room for provinces, and for powers behind them."""
FINE = wp.constant(1 << 24)


@wp.func
def begin(games: Games, game: int, seed: int, drawer: int, sink: OrderSink) -> None:
    """Open a sink for a drawer in the game's present phase: a unit's province, or `of_power`."""
    phase = PHASES * int(games.year[game]) + int(games.phase[game])
    own = wp.rand_init(seed, games.game_id[game])
    open_sink(sink, wp.rand_init(int(own), DRAWERS * phase + drawer))


@wp.func
def of_power(power: int) -> int:
    """A power as a drawer."""
    return PROVINCES + power


@wp.func
def fraction(sink: OrderSink) -> float:
    """A number in [0, 1)."""
    return float(draw(sink, FINE)) / float(FINE)
