"""Results of finished games of any number of players, as input of ratings and win rates.

A game of n seats is n (n - 1) / 2 comparisons, one for each pair of seats. A player may have several seats: each of
them is compared with the seats of others, but not with its own, which would carry no information; `by_player` joins
them to one first. Games with the same result are one `GameResult` with a count, so that the thousands of matches of one
update become a few.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from sparring.configs.core.errors import InputError

Pair = tuple[str, str]
"""Two players, sorted by name."""
Result = tuple[int, int, int]
"""Wins, draws and losses."""
WIN, DRAW, LOSS = 1.0, 0.5, 0.0
DIGITS = 9
"""Decimal places to which mean scores are compared."""


@dataclass(frozen=True)
class GameResult:
    """One or several finished games with the same result; raises `InputError` for an invalid one."""

    players: tuple[str, ...]
    """Name of the player in each seat."""
    ranks: tuple[int, ...]
    """Rank of each seat; 1 is the best, and equal ranks are a draw."""
    count: int = 1
    """Number of games."""

    def __post_init__(self) -> None:
        if len(self.players) < 2 or len(self.ranks) != len(self.players):
            raise InputError(f"game of players {self.players} with ranks {self.ranks}: give at least two, a rank each")
        if not all(1 <= rank <= len(self.ranks) for rank in self.ranks):
            raise InputError(f"game with ranks {self.ranks}: must be in [1, {len(self.ranks)}]")
        if self.count < 1:
            raise InputError(f"game with count {self.count}: must be at least 1")

    def comparisons(self) -> Iterator[tuple[str, str, float]]:
        """Yield (one, other, score of the one) for every two seats of different players in one of these games."""
        for i, j in combinations(range(len(self.players)), 2):
            if self.players[i] != self.players[j]:
                score = DRAW if self.ranks[i] == self.ranks[j] else WIN if self.ranks[i] < self.ranks[j] else LOSS
                yield self.players[i], self.players[j], score


def ranks(scores: Sequence[float]) -> tuple[int, ...]:
    """Return the ranks of scores, 1 for the highest; equal ones share the better rank, as in 1, 2, 2, 4."""
    return tuple(1 + sum(other > score for other in scores) for score in scores)


def by_player(players: Sequence[str], scores: Sequence[float], *, count: int = 1) -> GameResult:
    """Return a game as a result between its distinct players, each placed by the mean score of its seats.

    A player with six seats is then one opponent, not six. Scores count as equal up to rounding. Raises `InputError`
    for fewer than two players.
    """
    own: dict[str, list[float]] = {}
    for player, score in zip(players, scores, strict=True):
        own.setdefault(player, []).append(score)
    means = [round(math.fsum(parts) / len(parts), DIGITS) for parts in own.values()]
    return GameResult(tuple(own), ranks(means), count)


def pair(one: str, other: str) -> Pair:
    """Return the key of two players, independent of their order."""
    return (one, other) if one < other else (other, one)


def head_to_head(one: str, other: str, result: Result) -> list[GameResult]:
    """Return a result of the first of two players against the second as games of two seats."""
    outcomes = zip(((1, 2), (1, 1), (2, 1)), result, strict=True)
    return [GameResult((one, other), ranked, count) for ranked, count in outcomes if count]


def meetings(games: Iterable[GameResult]) -> Counter[Pair]:
    """Count the games in which two players met, independent of their seats."""
    met: Counter[Pair] = Counter()
    for game in games:
        for key in {pair(one, other) for one, other, _ in game.comparisons()}:
            met[key] += game.count
    return met


def results(games: Iterable[GameResult]) -> dict[Pair, Result]:
    """Return the first player's result against the second over all pairs of seats, for all pairs that met."""
    counts: dict[Pair, list[int]] = {}
    for game in games:
        for one, other, score in game.comparisons():
            key = pair(one, other)
            seen = score if key[0] == one else WIN - score
            counts.setdefault(key, [0, 0, 0])[(WIN, DRAW, LOSS).index(seen)] += game.count
    return {key: (wins, draws, losses) for key, (wins, draws, losses) in counts.items()}
