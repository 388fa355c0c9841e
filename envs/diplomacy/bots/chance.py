"""Counter-based random draws: each depends only on the seed, the game's id, its phase and the drawer.

Replacing one power's player therefore does not change another power's draws. A game replayed by id in another batch or
on other threads is identical.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.board.state import PROVINCES, Games
from sparring.envs.diplomacy.orders.legal import OrderSink, draw, open_sink

PHASES = wp.constant(5)
DRAWERS = wp.constant(128)
"""Numbers reserved per phase: 75 provinces, then 7 powers, rounded up to a power of two."""
FINE = wp.constant(1 << 24)  # Steps of `fraction`: a float32 holds 24 bits exactly.


@wp.func
def begin(games: Games, game: int, seed: int, drawer: int, sink: OrderSink) -> None:
    """Open a sink for a drawer in the current phase: the province of a unit, or `of_power`."""
    phase = PHASES * int(games.year[game]) + int(games.phase[game])
    game_state = wp.rand_init(seed, games.game_id[game])
    open_sink(sink, wp.rand_init(int(game_state), DRAWERS * phase + drawer))


@wp.func
def of_power(power: int) -> int:
    """Return the drawer number of a power."""
    return PROVINCES + power


@wp.func
def fraction(sink: OrderSink) -> float:
    """Return a random number in [0, 1)."""
    return float(draw(sink, FINE)) / float(FINE)
