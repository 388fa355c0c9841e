"""The score of a player and its interval: a win counts 1, a draw 1/2, a loss 0, divided by the games.

Wins alone do not separate draws from losses: a policy that only flees looks unbeaten. So every table shows the score,
with 50 % for equals, and the decided share, (wins + losses) / games, beside wins.

A mean of half-points is not a proportion. Its interval is Wilson's for n' = n / f trials, with f the observed variance
relative to a proportion with the same mean m:

    f = (S + 1) / (n m (1 - m) + 1)     S = sum over the n units of (score - m)^2
    centre = (m + z^2 / 2n') / (1 + z^2 / n')
    half width = z / (1 + z^2 / n') * sqrt(m (1 - m) / n' + z^2 / 4n'^2)

The 1 keeps a width where all units are draws. Without draws f = 1, and the interval is Wilson's own. Units are games,
or seat-swapped pairs, whose two games have the same start and are not independent.

Coverage of the 95 % interval over the 231 cells (w, d, l) with steps of 5 %, exact sums for n independent games:

    n      mean      lowest    cells below 93 %
    10     97.3 %    91.4 %    6
    20     96.7 %    92.5 %    2
    50     95.9 %    93.5 %    0
    100    95.5 %    93.3 %    0
    200    95.4 %    94.1 %    0

The lowest cells have few draws: they are Wilson's own. For 10, 50 and 200 pairs, it was simulated for 60 distributions
over the five scores of a pair. The mean is 98.2, 96.0 and 95.4 %, the lowest 94.8, 94.0 and 93.7 %.

Wilson's interval: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22 (1927),
209-212. `tests/curriculum/test_score.py` computes the coverage again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparring.curriculum.ratings import Result

SCORES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
"""Scores of a pair of games."""

Z_95 = 1.959964
"""97.5 % quantile of the normal distribution: 2.5 % on either side."""
Interval = tuple[float, float]


class Scored(ABC):
    """Games that a player won, drew and lost, and what they amount to."""

    @property
    @abstractmethod
    def counts(self) -> Result:
        """Wins, draws and losses."""

    @property
    def units(self) -> Sequence[float]:
        """Independent units by their score, in equal steps from 0 to 1: games, where they are independent."""
        return self.counts[::-1]

    @property
    def wins(self) -> int:
        """Games the player won."""
        return self.counts[0]

    @property
    def draws(self) -> int:
        """Games without a winner."""
        return self.counts[1]

    @property
    def losses(self) -> int:
        """Games the player lost."""
        return self.counts[2]

    @property
    def games(self) -> int:
        """Number of games."""
        return sum(self.counts)

    @property
    def win_rate(self) -> float:
        """Fraction of games the player won; a draw is not a win. Raises `ValueError` without games."""
        return self.wins / self._played()

    @property
    def interval(self) -> Interval:
        """95 % interval of the win rate: Wilson's, with a unit's share of wins as a success."""
        n = sum(self.units)
        return wilson(self.wins * n / self._played(), n)

    @property
    def score(self) -> float:
        """Fraction of the points: (wins + draws / 2) / games. Raises `ValueError` without games."""
        return (self.wins + 0.5 * self.draws) / self._played()

    @property
    def score_interval(self) -> Interval:
        """95 % interval of the score."""
        return score_interval(self.units)

    @property
    def decided(self) -> float:
        """Fraction of games with a winner. Raises `ValueError` without games."""
        return (self.wins + self.losses) / self._played()

    def figures(self) -> dict[str, Any]:
        """Return counts, win rate, score, decided share and the intervals, as in the JSON files of all games."""
        names = ("games", "wins", "draws", "losses", "win_rate", "interval", "score", "score_interval", "decided")
        return {name: getattr(self, name) for name in names}

    def _played(self) -> int:
        if not self.games:
            raise ValueError("no game was played, so the win rate and the score are unknown")
        return self.games


@dataclass(frozen=True)
class GameCounts(Scored):
    """Independent games that were won, drawn and lost."""

    results: Result

    @property
    def counts(self) -> Result:
        """Wins, draws and losses."""
        return self.results


def score_interval(units: Sequence[float], z: float = Z_95) -> Interval:
    """Return the interval of the mean score of units counted by score, in equal steps from 0 to 1; (0, 1) without any.

    Three counts are of games lost, drawn and won, five of pairs of games. Source: see the module docstring.
    """
    n, last = sum(units), len(units) - 1
    if not n:
        return 0.0, 1.0
    mean = math.fsum(count * step for step, count in enumerate(units)) / (n * last)
    squares = math.fsum(count * (step / last - mean) ** 2 for step, count in enumerate(units))
    trials = n * (n * mean * (1.0 - mean) + 1.0) / (squares + 1.0)
    return wilson(mean * trials, trials, z)


def wilson(successes: float, n: float, z: float = Z_95) -> Interval:
    """Return the Wilson score interval of a proportion; (0, 1) for n = 0. Source: see the module docstring."""
    if not 0 <= successes <= n:
        raise ValueError(f"successes={successes} of n={n}: must be between 0 and n")
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    scale = 1.0 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(p * (1.0 - p) / n + z * z / (4 * n * n))
    return (0.0 if successes == 0 else centre - half), (1.0 if successes == n else centre + half)


def count_pairs(outcome: np.ndarray) -> np.ndarray:
    """Count the pairs by score, int64 [5], from outcomes (-1, 0, 1) [N] of A; games j and j + N/2 are a pair."""
    points = outcome + 1  # 0, 1, 2 halves of a point; a pair has 0 to 4.
    half = len(points) // 2
    return np.bincount(points[:half] + points[half:], minlength=len(SCORES))
