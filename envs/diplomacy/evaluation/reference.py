"""A player compared with a reference in the same games: the same power, start, and draws of the six.

y[i] and x[i] are the shares of squares of player and reference in game i, where both have power i % 7 against the same
six. Every power is played equally often, so deviations are within powers, over G games:

    by power      mean(y)                      variance within powers, / G
    difference    mean(y) - mean(x)            the same of y - x
    corrected     mean(y) - b (mean(x) - 1/7)  s^2 (1 / G + (mean(x) - 1/7)^2 / Sxx),  b = Sxy / Sxx

The last is a control variate. It needs six of the reference: the seven players are then equal, and the mean of x is
1/7 without an error. s^2 is the variance of the residuals. Intervals are Student's t with G - 7 degrees of freedom, and
G - 8 for the last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparring.curriculum.student import student_95
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.eval.stats.aggregate import Estimate, bounded_estimate
from sparring.eval.stats.tables import percent, table

FEWEST = 2 * NUM_POWERS
"""Games in which every power is played twice."""
ERROR, NORMAL = 0.03, 1.96
"""Half width for which the number of games is stated, and its quantile of the normal distribution."""


@dataclass(frozen=True)
class PairedRow:
    """An estimate from games of a player and a reference, and the number of games needed for +-3 points."""

    name: str
    estimate: Estimate
    games: int


def stratified(values: np.ndarray) -> tuple[Estimate, float]:
    """Return the mean of `values` [G] with its interval from the variance within powers, and their deviation."""
    squares, games = float(np.square(_within(values)).sum()), len(values)
    deviation = math.sqrt(squares / (games - NUM_POWERS))
    return _estimate(float(values.mean()), deviation / math.sqrt(games), games - NUM_POWERS), deviation


def corrected(values: np.ndarray, reference: np.ndarray, expected: float) -> tuple[Estimate, float]:
    """Return the mean of `values` [G], corrected by a `reference` [G] of `expected` mean, and the deviation left."""
    x, y, games = _within(reference), _within(values), len(values)
    spread = float(x @ x)
    slope = float(x @ y) / spread if spread else 0.0
    residual, error = y - slope * x, float(reference.mean()) - expected
    deviation = math.sqrt(float(residual @ residual) / (games - NUM_POWERS - 1))
    width = deviation * math.sqrt(1.0 / games + (error**2 / spread if spread else 0.0))
    return _estimate(float(values.mean()) - slope * error, width, games - NUM_POWERS - 1), deviation


def paired_rows(player: str, reference: str, six: str, shares: np.ndarray, theirs: np.ndarray) -> list[PairedRow]:
    """Return the estimates from games with the `shares` [G] of a player and `theirs` [G] of a reference.

    None of fewer than `FEWEST` games.
    """
    if len(shares) < FEWEST:
        return []
    estimates = {
        f"{player}, every game alone": (bounded_estimate(shares, 0.0, 1.0), float(shares.std(ddof=1))),
        f"{player}, by power": stratified(shares),
    }
    if reference == six:
        estimates[f"{player}, corrected by {reference}"] = corrected(shares, theirs, 1.0 / NUM_POWERS)
    estimates[f"difference from {reference}"] = stratified(shares - theirs)
    return [PairedRow(name, estimate, _needed(deviation)) for name, (estimate, deviation) in estimates.items()]


def paired_table(rows: Sequence[PairedRow]) -> str:
    """Return the rows as a table."""
    cells = [
        [row.name, percent(row.estimate.value), "{} to {}".format(*map(percent, row.estimate.interval)), str(row.games)]
        for row in rows
    ]
    return table(("squares %", "value", "95 %", "games for +-3 points"), cells)


def _within(values: np.ndarray) -> np.ndarray:
    """Return the deviations of `values` [G] from the mean of their power; the power of game i is i % 7."""
    deviations = values.astype(np.float64)
    for power in range(NUM_POWERS):
        deviations[power::NUM_POWERS] -= deviations[power::NUM_POWERS].mean()
    return deviations


def _estimate(value: float, width: float, freedom: int) -> Estimate:
    half = float(student_95(freedom)) * width
    return Estimate(value, (value - half, value + half))


def _needed(deviation: float) -> int:
    """Return the approximate number of games, a multiple of seven, for an interval of +-3 points."""
    return max(FEWEST, NUM_POWERS * math.ceil((NORMAL * deviation / ERROR) ** 2 / NUM_POWERS))
