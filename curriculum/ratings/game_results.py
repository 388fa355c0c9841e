"""Finished games of any number of players, as ratings and win rates see them: who sat where, and who came before whom.

A game of n seats is n (n - 1) / 2 comparisons, one for each pair of seats. A player may sit in several seats: each of
them is compared with the seats of others, and none with its own, since that says nothing about anybody. Games that
ended alike are one `GameResult` with their number, so that the thousands of matches of one update are a few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from sparring.configs.core.errors import InputError

Pair = tuple[str, str]
"""Two players, in the order of their names."""
Result = tuple[int, int, int]
"""Wins, draws and losses."""
WIN, DRAW, LOSS = 1.0, 0.5, 0.0


@dataclass(frozen=True)
class GameResult:
    """A finished game, or several that ended alike; raises `InputError` for what is none."""

    players: tuple[str, ...]
    """By name, a seat each."""
    ranks: tuple[int, ...]
    """Of the seats; 1 is the best, and equal ranks are a draw between them."""
    count: int = 1
    """How many games these were."""

    def __post_init__(self) -> None:
        if len(self.players) < 2 or len(self.ranks) != len(self.players):
            raise InputError(f"game of players {self.players} with ranks {self.ranks}: give at least two, a rank each")
        if not all(1 <= rank <= len(self.ranks) for rank in self.ranks):
            raise InputError(f"game with ranks {self.ranks}: must be in [1, {len(self.ranks)}]")
        if self.count < 1:
            raise InputError(f"game with count {self.count}: must be at least 1")

    def comparisons(self) -> Iterator[tuple[str, str, float]]:
        """Every two seats of different players in one of these games: the one, the other, and what the one scored."""
        for i, j in combinations(range(len(self.players)), 2):
            if self.players[i] != self.players[j]:
                score = DRAW if self.ranks[i] == self.ranks[j] else WIN if self.ranks[i] < self.ranks[j] else LOSS
                yield self.players[i], self.players[j], score


def ranks(scores: Sequence[float]) -> tuple[int, ...]:
    """The ranks of these scores, the highest being 1; equal ones share the better rank, as in 1, 2, 2, 4."""
    return tuple(1 + sum(other > score for other in scores) for score in scores)


def pair(one: str, other: str) -> Pair:
    """The key of two players, whichever is named first."""
    return (one, other) if one < other else (other, one)


def head_to_head(one: str, other: str, result: Result) -> list[GameResult]:
    """What came of the first of two players against the second in games of two, as games."""
    outcomes = zip(((1, 2), (1, 1), (2, 1)), result, strict=True)
    return [GameResult((one, other), ranked, count) for ranked, count in outcomes if count]


def meetings(games: Iterable[GameResult]) -> Counter[Pair]:
    """In how many of the games two players met, however many seats they had."""
    met: Counter[Pair] = Counter()
    for game in games:
        for key in {pair(one, other) for one, other, _ in game.comparisons()}:
            met[key] += game.count
    return met


def results(games: Iterable[GameResult]) -> dict[Pair, Result]:
    """The first player's result against the second over all pairs of seats, for everybody who met."""
    counts: dict[Pair, list[int]] = {}
    for game in games:
        for one, other, score in game.comparisons():
            key = pair(one, other)
            seen = score if key[0] == one else WIN - score
            counts.setdefault(key, [0, 0, 0])[(WIN, DRAW, LOSS).index(seen)] += game.count
    return {key: (wins, draws, losses) for key, (wins, draws, losses) in counts.items()}
