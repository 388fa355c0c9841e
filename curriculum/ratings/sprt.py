"""Is A stronger than B? A sequential test on seat-swapped pairs of games, which stops as soon as the answer is known.

H0: A is `elo0` stronger, H1: A is `elo1` stronger. The unit is the pair, two games from one start with seats swapped,
because its games are not independent; its score is 0, 1/4, 1/2, 3/4 or 1 (pentanomial). With n pairs of mean score m
and variance v, and s0, s1 the scores that the two differences in rating predict, the log-likelihood ratio is about

    LLR = n (s1 - s0) (2 m - s0 - s1) / (2 v),

the generalized SPRT in its normal approximation, as chess-engine testing uses it (M. Van den Bergh, "The generalized
sequential probability ratio test", 2020). H1 is accepted where LLR >= ln((1 - beta) / alpha), H0 where it is
<= ln(beta / (1 - alpha)); then A is wrongly called stronger with probability alpha at most, wrongly not with beta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.curriculum.ratings.elo import Elo, expected_score

SCORES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
PRIOR = 0.5
"""Added to each count (Jeffreys): with few pairs, all alike, the variance would be 0 and every doubt gone."""


@dataclass(frozen=True)
class Hypotheses:
    """What is to be told apart, in Elo, with which probabilities of error."""

    elo0: float = 0.0
    elo1: float = 20.0
    alpha: float = 0.05
    beta: float = 0.05

    def check(self) -> None:
        """Raise `InputError` unless elo0 < elo1 and both error probabilities are in (0, 0.5)."""
        if not -1000.0 <= self.elo0 < self.elo1 <= 1000.0:
            given = f"elo0={self.elo0:g} elo1={self.elo1:g}"
            raise InputError(f"sprt {given}: elo0 must be below elo1, both in [-1000, 1000]")
        for name in ("alpha", "beta"):
            if not 0.0 < getattr(self, name) < 0.5:
                raise InputError(f"sprt {name}={getattr(self, name):g}: must be in (0, 0.5)")

    @property
    def bounds(self) -> tuple[float, float]:
        """The LLR at and below which H0 is accepted, and at and above which H1 is."""
        return math.log(self.beta / (1.0 - self.alpha)), math.log((1.0 - self.beta) / self.alpha)


@dataclass(frozen=True)
class SPRTVerdict:
    """How the test stands."""

    pairs: tuple[int, int, int, int, int]
    """Pairs by A's score, 0 to 1."""
    llr: float
    accepted: str | None
    """"H0", "H1", or None while it is open."""

    @property
    def elo(self) -> float:
        """The difference in rating that the mean score stands for; infinite for all or nothing."""
        score = float(np.dot(self.pairs, SCORES)) / sum(self.pairs)
        if score in (0.0, 1.0):
            return math.copysign(math.inf, score - 0.5)
        return 400.0 * math.log10(score / (1.0 - score))


def judge(pairs: Sequence[int], hypotheses: Hypotheses) -> SPRTVerdict:
    """Test the pairs counted so far, by score [5]."""
    low, high = hypotheses.bounds
    value = llr(pairs, hypotheses)
    accepted = "H1" if value >= high else "H0" if value <= low else None
    zero, quarter, half, three, one = (int(count) for count in pairs)
    return SPRTVerdict((zero, quarter, half, three, one), value, accepted)


def llr(pairs: Sequence[int], hypotheses: Hypotheses) -> float:
    """The log-likelihood ratio of H1 to H0, given the counts of pairs by score [5]."""
    counts = np.asarray(pairs, dtype=np.float64) + PRIOR
    n = counts.sum()
    mean = counts @ SCORES / n
    variance = counts @ (SCORES - mean) ** 2 / n
    s0, s1 = (expected_score(Elo(elo), Elo(0.0)) for elo in (hypotheses.elo0, hypotheses.elo1))
    return float(n * (s1 - s0) * (2.0 * mean - s0 - s1) / (2.0 * variance))


def count_pairs(outcome: np.ndarray) -> np.ndarray:
    """Pairs by the left contestant's score, int64 [5], from its outcomes (-1, 0, 1) [N]; games j and j + N/2 pair."""
    points = outcome + 1  # 0, 1, 2 halves of a point
    half = len(points) // 2
    return np.bincount(points[:half] + points[half:], minlength=len(SCORES))
