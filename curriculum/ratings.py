"""Results of finished games of any number of players, and the two ratings that they change: Elo and a Bayesian one.

A game of n seats is n (n - 1) / 2 comparisons, one for each pair of seats. A player may have several seats: each is
compared with other players' seats only. `by_player` joins them to one first. Games with the same result are one
`GameResult` with a count: the thousands of matches of an update become a few. A batch of games is rated at once from
the ratings before it, and each of the G games between two players counts 1 / G. The result is bit-identical for any
order of the games (`math.fsum` rounds sums once).

Elo (A. Elo, "The Rating of Chessplayers, Past and Present", 1978): the expected score against an opponent is 1 / (1 +
10^((opponent - rating) / 400)). After a result both ratings move by K (score - expected) in opposite directions, so the
sum of all ratings never changes. In a game of n players, each pair has a result with K / (n - 1); for n = 2 this is
Elo's own rule. Hundreds of games against one opponent count as a single result with a fractional score. Rated one by
one, they would move a rating by K times the noise of the last few, in an order that batched games do not have; K times
their number would overshoot. So two players never move each other by more than one game could. The gap to the true
difference shrinks by a constant factor, with less noise for more games.

Bayesian: a normal distribution of each player's strength. Model and update are algorithm 1 of R. C. Weng and C.-J. Lin,
"A Bayesian approximation method for online ranking", Journal of Machine Learning Research 12 (2011). It is
Bradley-Terry for every pair of a game's players, with teams of one player. For each opponent q of player i, with s = 1,
1/2 or 0 for a win, a draw or a loss:

    c^2 = sigma_i^2 + sigma_q^2 + 2 beta^2      p = 1 / (1 + exp((mu_q - mu_i) / c))
    omega += sigma_i^2 / c * (s - p)            delta += (sigma_i / c) * (sigma_i / c)^2 * p * (1 - p)
    mu_i <- mu_i + omega                        sigma_i^2 <- sigma_i^2 * max(1 - delta, kappa)

The constants are TrueSkill's (R. Herbrich, T. Minka and T. Graepel, NIPS 2006), as is the variance tau^2 that is added
once a batch because strength changes. The update for one game gives a new belief; its quotient with the belief before
the batch is the likelihood of the game. The belief after the batch is the belief before it times all these likelihoods.
For a single game this is the update above.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NewType

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
        """Yield (first, second, score of the first) for every two seats of different players in one of these games."""
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
    scores_of: dict[str, list[float]] = {}
    for player, score in zip(players, scores, strict=True):
        scores_of.setdefault(player, []).append(score)
    means = [round(math.fsum(parts) / len(parts), DIGITS) for parts in scores_of.values()]
    return GameResult(tuple(scores_of), ranks(means), count)


def pair(first: str, second: str) -> Pair:
    """Return the key of two players, independent of their order."""
    return (first, second) if first < second else (second, first)


def head_to_head(first: str, second: str, result: Result) -> list[GameResult]:
    """Return a result of the first of two players against the second as games of two seats."""
    outcomes = zip(((1, 2), (1, 1), (2, 1)), result, strict=True)
    return [GameResult((first, second), ranked, count) for ranked, count in outcomes if count]


def meetings(games: Iterable[GameResult]) -> Counter[Pair]:
    """Count the games in which two players met, independent of their seats."""
    met: Counter[Pair] = Counter()
    for game in games:
        for key in {pair(first, second) for first, second, _ in game.comparisons()}:
            met[key] += game.count
    return met


def results(games: Iterable[GameResult]) -> dict[Pair, Result]:
    """Return the first player's result against the second over all pairs of seats, for all pairs that met."""
    counts: dict[Pair, list[int]] = {}
    for game in games:
        for first, second, score in game.comparisons():
            key = pair(first, second)
            points = score if key[0] == first else WIN - score
            counts.setdefault(key, [0, 0, 0])[(WIN, DRAW, LOSS).index(points)] += game.count
    return {key: (wins, draws, losses) for key, (wins, draws, losses) in counts.items()}


Elo = NewType("Elo", float)
"""A rating in this model's units, where a difference of 400 means odds of ten to one."""
START = Elo(1000.0)
K = 48.0
"""Largest change of a rating by one game, over all its opponents together."""
SCALE = 400.0


def expected_score(rating: Elo, opponent: Elo) -> float:
    """Return the share of points, in (0, 1), that a player of this rating is expected to take from the opponent."""
    return 1.0 / (1.0 + 10.0 ** ((opponent - rating) / SCALE))


def elo_after(before: Mapping[str, Elo], games: Sequence[GameResult], *, k: float = K) -> dict[str, Elo]:
    """Return the new ratings of all players with an opponent in this batch of games.

    `before` has the ratings of all players, by name; raises `KeyError` for a missing one.
    """
    met = meetings(games)
    moves: dict[str, list[float]] = {}
    for game in games:
        # A player of an n-seat game has n - 1 comparisons, which together move it by K at most.
        share = k / (len(game.players) - 1)
        for first, second, score in game.comparisons():
            surprise = score - expected_score(before[first], before[second])
            move = game.count * share / met[pair(first, second)] * surprise
            moves.setdefault(first, []).append(move)
            moves.setdefault(second, []).append(-move)  # Zero-sum, so that the mean rating stays.
    # fsum rounds once: the result does not depend on the order of games.
    return {name: Elo(before[name] + math.fsum(parts)) for name, parts in moves.items()}


MU, SIGMA = 25.0, 25.0 / 3.0
BETA = 25.0 / 6.0
"""Standard deviation of a player's performance from game to game."""
TAU = 25.0 / 300.0  # Per batch: strength may drift between batches.
KAPPA = 1e-4
"""Least factor by which one game may shrink a variance; keeps it positive."""


@dataclass(frozen=True)
class Belief:
    """Mean and standard deviation of a player's strength. In TrueSkill units, not Elo's."""

    mu: float = MU
    sigma: float = SIGMA

    @property
    def shown(self) -> float:
        """Conservative estimate of the strength, mu - 3 sigma, as TrueSkill leaderboards show it."""
        return self.mu - 3.0 * self.sigma


def win_chance(belief: Belief, opponent: Belief) -> float:
    """Return the probability, in (0, 1), that a player with `belief` is placed before one with `opponent`."""
    return 1.0 / (1.0 + math.exp((opponent.mu - belief.mu) / _spread(belief, opponent)))


def beliefs_after(before: Mapping[str, Belief], games: Sequence[GameResult]) -> dict[str, Belief]:
    """Return the new beliefs of all players with an opponent in this batch of games.

    `before` has the beliefs of all players, by name; raises `KeyError` for a missing one.
    """
    met = meetings(games)
    players = {name: before[name] for key in met for name in key}
    widened = {name: Belief(belief.mu, math.sqrt(belief.sigma**2 + TAU**2)) for name, belief in players.items()}
    updated: dict[str, list[tuple[Belief, int]]] = {name: [] for name in widened}
    for game in games:
        for name, belief in _after_one(widened, game, met).items():
            updated[name].append((belief, game.count))
    return {name: _product(widened[name], beliefs) for name, beliefs in updated.items()}


def _after_one(before: Mapping[str, Belief], game: GameResult, met: Counter[Pair]) -> dict[str, Belief]:
    """Return the beliefs of its players after this game alone, with its weight in the batch."""
    omega: dict[str, list[float]] = {}
    delta: dict[str, list[float]] = {}
    for first, second, score in game.comparisons():
        counts = 1.0 / met[pair(first, second)]
        for player, opponent, points in ((first, second, score), (second, first, 1.0 - score)):
            spread, chance = _spread(before[player], before[opponent]), win_chance(before[player], before[opponent])
            variance = before[player].sigma ** 2
            omega.setdefault(player, []).append(counts * variance / spread * (points - chance))
            # Weng and Lin's gamma, sigma_i / c: slows the decrease of the variance.
            gamma = before[player].sigma / spread
            delta.setdefault(player, []).append(counts * gamma * variance / spread**2 * chance * (1.0 - chance))
    return {
        me: Belief(
            before[me].mu + math.fsum(omega[me]),
            before[me].sigma * math.sqrt(max(1.0 - math.fsum(delta[me]), KAPPA)),
        )
        for me in omega
    }


def _product(prior: Belief, updated: Sequence[tuple[Belief, int]]) -> Belief:
    """Return `prior` times the likelihood of each game, given as (belief after it alone, number of equal games).

    Gaussians multiply in natural parameters: precisions 1 / sigma^2 add, and so do precision-weighted means.
    """
    precision = 1.0 / prior.sigma**2  # Of the prior; each game may only add to it.
    gained = math.fsum(times * (1.0 / belief.sigma**2 - precision) for belief, times in updated)
    pull = math.fsum(times * (belief.mu - prior.mu) / belief.sigma**2 for belief, times in updated)
    return Belief(prior.mu + pull / (precision + gained), 1.0 / math.sqrt(precision + gained))


def _spread(belief: Belief, opponent: Belief) -> float:
    # c of the model: both uncertainties and both performance noises.
    return math.sqrt(belief.sigma**2 + opponent.sigma**2 + 2.0 * BETA**2)
