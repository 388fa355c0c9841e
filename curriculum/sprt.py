"""Sequential probability ratio test of whether A is stronger than B, on seat-swapped pairs of games.

H0: A is `elo0` stronger, H1: A is `elo1` stronger. The unit is the pair, two games from one start with seats swapped,
because its games are not independent. Its score is 0, 1/4, 1/2, 3/4 or 1 (pentanomial). With n pairs of mean score m
and variance v, and s0, s1 the scores that the two differences in rating predict, the log-likelihood ratio is about

    LLR = n (s1 - s0) (2 m - s0 - s1) / (2 v),

the generalized SPRT in its normal approximation, as chess-engine testing uses it (M. Van den Bergh, "The generalized
sequential probability ratio test", 2020). H1 is accepted if LLR >= ln((1 - beta) / alpha), H0 if LLR <= ln(beta / (1 -
alpha)) (Wald, 1945). The probability of wrongly accepting H1 is about alpha, of wrongly accepting H0 about beta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.curriculum.ratings import Elo, expected_score
from sparring.curriculum.score import SCORES

PRIOR = 0.5
"""Pseudocount of each score (Jeffreys): a few equal pairs would otherwise have a variance of 0."""


@dataclass(frozen=True)
class Hypotheses:
    """The two hypotheses, in Elo, and the probabilities of error."""

    elo0: float = 0.0
    elo1: float = 20.0
    alpha: float = 0.05
    beta: float = 0.05

    def check(self) -> None:
        """Raise `InputError` unless elo0 < elo1 and both error probabilities are in (0, 0.5)."""
        if not -1000.0 <= self.elo0 < self.elo1 <= 1000.0:
            limits = f"elo0={self.elo0:g} elo1={self.elo1:g}"
            raise InputError(f"sprt {limits}: elo0 must be below elo1, both in [-1000, 1000]")
        for name in ("alpha", "beta"):
            if not 0.0 < getattr(self, name) < 0.5:
                raise InputError(f"sprt {name}={getattr(self, name):g}: must be in (0, 0.5)")

    @property
    def bounds(self) -> tuple[float, float]:
        """LLR at or below which H0 is accepted, and LLR at or above which H1 is."""
        return math.log(self.beta / (1.0 - self.alpha)), math.log((1.0 - self.beta) / self.alpha)


@dataclass(frozen=True)
class SPRTVerdict:
    """State of the test."""

    pairs: tuple[int, int, int, int, int]
    """Number of pairs by A's score: 0, 1/4, 1/2, 3/4, 1."""
    llr: float
    accepted: str | None
    """"H0", "H1", or None while it is open."""

    @property
    def elo(self) -> float:
        """Difference in rating that corresponds to the mean score; infinite for 0 or 1, NaN without pairs."""
        if not sum(self.pairs):
            return math.nan
        score = float(np.dot(self.pairs, SCORES)) / sum(self.pairs)
        if score in (0.0, 1.0):
            return math.copysign(math.inf, score - 0.5)
        # Inverse of Elo's expected score.
        return 400.0 * math.log10(score / (1.0 - score))


def judge(pairs: Sequence[int], hypotheses: Hypotheses) -> SPRTVerdict:
    """Return the state of the test after the pairs counted so far, by score [5]."""
    low, high = hypotheses.bounds
    value = llr(pairs, hypotheses)
    accepted = "H1" if value >= high else "H0" if value <= low else None
    zero, quarter, half, three, full = (int(count) for count in pairs)
    return SPRTVerdict((zero, quarter, half, three, full), value, accepted)


def llr(pairs: Sequence[int], hypotheses: Hypotheses) -> float:
    """Return the log-likelihood ratio of H1 to H0, given the counts of pairs by score [5]."""
    # The variance is estimated from the pairs themselves, so draws and correlated games need no model.
    counts = np.asarray(pairs, dtype=np.float64) + PRIOR
    n = counts.sum()
    mean = counts @ SCORES / n
    variance = counts @ (SCORES - mean) ** 2 / n
    s0, s1 = (expected_score(Elo(elo), Elo(0.0)) for elo in (hypotheses.elo0, hypotheses.elo1))
    return float(n * (s1 - s0) * (2.0 * mean - s0 - s1) / (2.0 * variance))
