"""Elo ratings for games of two players and of many.

Elo's model: the share of points expected against an opponent is 1 / (1 + 10^((theirs - mine) / 400)), and after a
result both sides move by K (score - expected), in opposite directions, so the sum of all ratings never changes.
Source: A. Elo, "The Rating of Chessplayers, Past and Present" (1978). A game of n players is a result between each two
of them with K / (n - 1); for n = 2 that is Elo's own rule.

A batch of games is rated at once from the ratings before it, independent of their order, to the bit (sums are rounded
once, by `math.fsum`). Each of the G games between two players counts 1 / G, so that hundreds of games against one
opponent count as a single result with a fractional score. Rated one by one they would move a rating by K times the
noise of the last few, in an order that batched games do not have; K times their number would overshoot. So no two
players move each other by more than one game could, and the gap to the true difference shrinks by a constant factor,
with less noise the more games there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NewType

from sparring.curriculum.ratings.game_results import GameResult, meetings, pair

Elo = NewType("Elo", float)
"""A rating in this model's units, where a difference of 400 means odds of ten to one."""
START = Elo(1000.0)
K = 48.0
"""Largest change of a rating by one game, over all its opponents together."""
SCALE = 400.0


def expected_score(mine: Elo, theirs: Elo) -> float:
    """Return the share of points, in (0, 1), that a player rated `mine` is expected to take from one rated `theirs`."""
    return 1.0 / (1.0 + 10.0 ** ((theirs - mine) / SCALE))


def elo_after(before: Mapping[str, Elo], games: Sequence[GameResult], *, k: float = K) -> dict[str, Elo]:
    """Return the new ratings of all players with an opponent in this batch of games.

    `before` has the ratings of all players, by name; raises `KeyError` for a missing one.
    """
    met = meetings(games)
    moves: dict[str, list[float]] = {}
    for game in games:
        # A player of an n-seat game has n - 1 comparisons, which together move it by K at most.
        share = k / (len(game.players) - 1)
        for one, other, score in game.comparisons():
            move = _move(before[one], before[other], score, game.count * share / met[pair(one, other)])
            moves.setdefault(one, []).append(move)
            moves.setdefault(other, []).append(-move)  # Zero-sum, so that the mean rating stays.
    # fsum rounds once: the result does not depend on the order of games.
    return {name: Elo(before[name] + math.fsum(parts)) for name, parts in moves.items()}


def _move(mine: Elo, theirs: Elo, score: float, k: float) -> float:
    """Return the change of my rating by a result; theirs changes by its negative."""
    return k * (score - expected_score(mine, theirs))
