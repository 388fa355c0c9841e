"""Maximum-likelihood ratings of players, in Elo relative to an anchor with a fixed rating.

Model: i takes a point from j with probability p_ij = 1 / (1 + exp(r_j - r_i)), and a draw is half a point for each
player. Let s_ij be the points i took from j and n_ij their games. Then log L = sum_ij s_ij ln p_ij is concave, and
Newton's method finds its maximum, the root of sum_j (s_ij - n_ij p_ij) = 0. Elo = 400 / ln 10 times r. Sources: R. A.
Bradley and M. E. Terry, "Rank analysis of incomplete block designs", Biometrika 39 (1952); D. R. Hunter, "MM algorithms
for generalized Bradley-Terry models", Annals of Statistics 32 (2004), also for when the maximum exists.

The intervals are r +- 1.96 standard errors from the covariance H^-1 V H^-1 (the "sandwich"). H is the observed
information without the anchor, and V the covariance of its gradient. V is estimated from the variance of each cell's
pairs of games. Two games from one start with seats swapped are not independent, and draws vary less than wins and
losses. (H^-1 alone would treat every game as an independent win or loss.) If all pairs of a cell have the same result,
the model's variance is used instead.

A player that won or lost everything does not have a finite maximum. Every player not linked to the anchor by points in
both directions gets half a virtual draw against it (a quarter of a point each), and is marked. The true interval is
then open on one side; the finite bound there is an effect of the virtual draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sparring.configs.core.errors import InputError, choose
from sparring.curriculum.score import SCORES, Z_95

ELO = 400.0 / np.log(10.0)
"""Elo per natural unit."""
VIRTUAL_POINTS = 0.25
"""Points of each side in half a virtual draw."""
PAIR_POINTS = 2.0 * SCORES
"""Points of a pair of games, in the order of `MatchRecord.pairs`."""
_TOLERANCE = 1e-9
_MAX_STEP = 2.0
_ITERATIONS = 200


class RatingError(InputError):
    """Raised for results that cannot be rated; the message is one line with reason and remedy."""


class PairedResult(Protocol):
    """Protocol of the results of two players that a rating needs; `MatchRecord` implements it."""

    @property
    def player(self) -> str:
        """Name of the player on this side."""

    @property
    def opponent(self) -> str:
        """Name of the player on the other side."""

    @property
    def pairs(self) -> tuple[int, int, int, int, int]:
        """Number of pairs of games by the player's points, in the order of `PAIR_POINTS`."""


@dataclass(frozen=True)
class Anchor:
    """Player with a fixed rating, and that rating in Elo."""

    player: str
    elo: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Anchor:
        """Parse `brawler` or `brawler=1000`. Raises `InputError` for a number outside [-10000, 10000]."""
        name, equals, number = text.rpartition("=")
        if not equals:
            return cls(text)
        try:
            elo = float(number)
        except ValueError as error:
            raise InputError(f"--anchor {text}: {number!r} is not a number; write {name}=0") from error
        if not -10_000.0 <= elo <= 10_000.0:
            raise InputError(f"--anchor {text}: must be in [-10000, 10000]; write {name}=0")
        return cls(name, elo)

    @classmethod
    def among(cls, players: Sequence[str], preferred: Sequence[str]) -> Anchor:
        """Return the default anchor at 0 Elo: the first of `preferred` that plays, or the first player."""
        return cls(next((name for name in preferred if name in players), players[0]))

    def check(self, players: Sequence[str]) -> Anchor:
        """Return the anchor if it is one of `players`. Raises `UnknownNameError` with their names if not."""
        choose("--anchor", self.player, players)
        return self


@dataclass(frozen=True)
class Rating:
    """Rating of one player in Elo."""

    player: str
    elo: float
    interval: tuple[float, float]
    """95 % interval; zero width for the anchor, since the other ratings are relative to it."""
    games: int
    virtual: bool
    """True if the player won or lost everything that links it to the anchor and got a virtual draw."""


def rate(records: Iterable[PairedResult], anchor: Anchor) -> list[Rating]:
    """Rate all players in `records`, best first; a pair may occur once or from both sides.

    Raises `UnknownNameError` for an anchor that did not play, and `RatingError` if the players are not connected by
    games, directly or through others.
    """
    players, pairs = _tabulate(records)
    fixed = players.index(anchor.check(players).player)
    points = pairs @ PAIR_POINTS
    _check_connected(players, points)
    virtual = ~_linked(points)[fixed]
    prior = np.zeros_like(points)
    prior[virtual, fixed] = prior[fixed, virtual] = VIRTUAL_POINTS
    ratings = fit(points + prior, fixed)
    errors = standard_errors(pairs, prior, ratings, fixed)
    elo = anchor.elo + ELO * ratings
    half = ELO * Z_95 * errors
    games = 2 * pairs.sum(axis=(1, 2))
    rated = [
        Rating(name, float(elo[i]), (float(elo[i] - half[i]), float(elo[i] + half[i])), int(games[i]), bool(virtual[i]))
        for i, name in enumerate(players)
    ]
    return sorted(rated, key=lambda rating: (-rating.elo, rating.player))


def fit(points: np.ndarray, fixed: int) -> np.ndarray:
    """Return maximum-likelihood ratings [K] in natural units for `points` [K, K], row from column; 0 at `fixed`.

    Raises `RatingError` without a finite maximum.
    """
    if not _linked(points).all():
        raise RatingError("the ratings have no finite maximum: one player won or lost everything; play more games")
    ratings = np.zeros(len(points))
    free = np.arange(len(points)) != fixed
    for _ in range(_ITERATIONS):
        # The gradient of log L [K] is actual minus expected points.
        gradient = (points - (points + points.T) * _probabilities(ratings)).sum(axis=1)[free]
        step = np.zeros_like(ratings)
        step[free] = np.linalg.solve(_information(points, ratings)[np.ix_(free, free)], gradient)
        # log L is concave, but its quadratic approximation is only local, so the step is limited.
        ratings += _no_lower(points, ratings, step * (_MAX_STEP / max(np.abs(step).max(), _MAX_STEP)))
        if np.abs(step).max() < _TOLERANCE:
            return ratings
    raise RuntimeError(f"no maximum within {_ITERATIONS} steps of Newton's method, although one exists")


def standard_errors(pairs: np.ndarray, prior: np.ndarray, ratings: np.ndarray, fixed: int) -> np.ndarray:
    """Return standard errors [K] in natural units, relative to `fixed`, where it is 0.

    `pairs` [K, K, 5] counts pairs of games by the row's points against the column, `prior` [K, K] the virtual points.
    """
    free = np.ix_(*2 * [np.arange(len(ratings)) != fixed])
    inverse = np.linalg.inv(_information(pairs @ PAIR_POINTS + prior, ratings)[free])
    covariance = inverse @ _laplacian(_scatter(pairs, prior, ratings))[free] @ inverse
    return np.insert(np.sqrt(np.diag(covariance)), fixed, 0.0)


def _tabulate(records: Iterable[PairedResult]) -> tuple[list[str], np.ndarray]:
    """Return the players, and their pairs of games [K, K, 5] by the row's points against the column."""
    records = list(records)
    players = list(dict.fromkeys(name for record in records for name in (record.player, record.opponent)))
    pairs = np.zeros((len(players), len(players), len(PAIR_POINTS)))
    for record in records:
        i, j = players.index(record.player), players.index(record.opponent)
        pairs[i, j], pairs[j, i] = record.pairs, record.pairs[::-1]
    return players, pairs


def _probabilities(ratings: np.ndarray) -> np.ndarray:
    """Return p_ij [K, K]."""
    return 1.0 / (1.0 + np.exp(ratings[None, :] - ratings[:, None]))


def _likelihood(points: np.ndarray, ratings: np.ndarray) -> float:
    return float(-(points * np.logaddexp(0.0, ratings[None, :] - ratings[:, None])).sum())


def _information(points: np.ndarray, ratings: np.ndarray) -> np.ndarray:
    """Return the negative Hessian of log L [K, K]: the Laplacian of the weights n_ij p_ij (1 - p_ij)."""
    p = _probabilities(ratings)
    return _laplacian((points + points.T) * p * p.T)


def _laplacian(weights: np.ndarray) -> np.ndarray:
    """Return the graph Laplacian [K, K], sum_ij w_ij (e_i - e_j)(e_i - e_j)'."""
    return np.diag(weights.sum(axis=1)) - weights


def _scatter(pairs: np.ndarray, prior: np.ndarray, ratings: np.ndarray) -> np.ndarray:
    """Return the variance [K, K] of the sum of points in each cell; for virtual points, the model's variance."""
    p = _probabilities(ratings)
    modelled = p * p.T
    n = pairs.sum(axis=2)
    mean = pairs @ PAIR_POINTS / np.maximum(n, 1.0)
    squares = (pairs * (PAIR_POINTS - mean[..., None]) ** 2).sum(axis=2)
    measured = n * squares / np.maximum(n - 1.0, 1.0)
    return np.where(squares > 0.0, measured, 2.0 * n * modelled) + 2.0 * prior * modelled


def _no_lower(points: np.ndarray, ratings: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return `step`, halved until it does not lower the likelihood (up to rounding)."""
    before = _likelihood(points, ratings)
    slack = 1e-12 * abs(before)
    for _ in range(40):
        if _likelihood(points, ratings + step) >= before - slack:
            return step
        step = step / 2.0
    return step


def _linked(points: np.ndarray) -> np.ndarray:
    """Return a mask [K, K]: i reaches j and j reaches i along results where each took points from the next."""
    reached = _reached(points)
    mutual: np.ndarray = reached & reached.T
    return mutual


def _reached(points: np.ndarray) -> np.ndarray:
    """Return a mask [K, K]: a chain of players, each with points taken from the next, leads from i to j."""
    reached = ((points > 0.0) | np.eye(len(points), dtype=bool)).astype(np.float32)  # by the BLAS, unlike bool
    for _ in range(len(points).bit_length()):  # each product doubles the length of the chains
        reached = (reached @ reached > 0.0).astype(np.float32)
    return reached > 0.0


def _check_connected(players: Sequence[str], points: np.ndarray) -> None:
    """Raise `RatingError` with the names of the groups that never met."""
    groups = _reached(points + points.T).argmax(axis=1).tolist()  # each is named by its first player
    if len(set(groups)) > 1:
        parts = ([name for name, root in zip(players, groups, strict=True) if root == g] for g in dict.fromkeys(groups))
        named = "; ".join(map(", ".join, parts))
        raise RatingError(f"no ratings: these groups never met: {named}; play games between them")
