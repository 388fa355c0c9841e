"""Kendall's tau, and slopes of autocorrelated series with an interval that accounts for the correlation.

Least squares of y over x, N points in order of time. The residuals are taken as a first-order autoregression. Its
coefficient is the one under which neighbouring residuals of this regression have the observed correlation on average;
the slope's variance and degrees of freedom follow from it (F. E. Satterthwaite, 1946). Slow drift under fast noise is
not such a process. Points are therefore also averaged in twos, fours and so on while at least ten remain, and the
widest interval is used.

`eval/analysis/reports/power_law.py` states the measured coverage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from sparring.curriculum.student import student_95

LEAST_POINTS = 10
"""Fewest averages."""
CORRELATIONS = np.concatenate([np.linspace(-0.4, 0.8, 13), [0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995]])


@dataclass(frozen=True)
class Trend:
    """Slope of a series per unit of x, and half the length of its 95 % interval; infinite for fewer than 4 points."""

    slope: float
    half: float


def trend(x: np.ndarray, y: np.ndarray) -> Trend:
    """Return the trend of `y` [N] over `x` [N]."""
    if len(y) < 4 or not np.ptp(x):
        return Trend(0.0, math.inf)
    fitted, window = _line(x, y), 2
    while len(x) // window >= LEAST_POINTS:
        fitted = replace(fitted, half=max(fitted.half, _line(_averages(x, window), _averages(y, window)).half))
        window *= 2
    return fitted


def _averages(values: np.ndarray, window: int) -> np.ndarray:
    """Return the means of `window` neighbours each; the first points are dropped if they do not fill a window."""
    return values[len(values) % window :].reshape(-1, window).mean(axis=1)


def _line(x: np.ndarray, y: np.ndarray) -> Trend:
    """Return the trend if the residuals are a first-order autoregression."""
    dx = x - x.mean()
    slope = float(dx @ y / (dx @ dx))
    rest = y - y.mean() - slope * dx
    squares = float(rest @ rest)
    if squares <= 1e-24 * float(y @ y):  # on the line up to rounding
        return Trend(slope, 0.0)
    expected, variance, freedom = _moments(x.tobytes())
    correlation = float(rest[1:] @ rest[:-1]) / squares
    error = math.sqrt(float(np.interp(correlation, expected, variance)) * squares)
    return Trend(slope, student_95(max(int(np.interp(correlation, expected, freedom)), 1)) * error)


@lru_cache(maxsize=16)
def _moments(places: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each of `CORRELATIONS` what least squares over x makes of noise with that correlation.

    That is: the correlation of neighbouring residuals, the slope's variance for a sum of squared residuals of 1, and
    the degrees of freedom of that sum. With M the projection to residuals and R the correlation matrix they are
    tr_1(MRM) / tr(MR), dx R dx / (dx dx)^2 / tr(MR) and tr(MR)^2 / tr(MRMR), tr_1 the sum beside the diagonal.
    """
    x = np.frombuffer(places)
    size, dx = len(x), x - x.mean()
    q = np.stack([np.full(size, size**-0.5), dx / math.sqrt(dx @ dx)], axis=1)  # M = I - q q'
    lags = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    figures = []
    for correlation in CORRELATIONS:
        powers = correlation ** np.arange(size)
        noise = powers[lags]
        rq = noise @ q
        inner = q.T @ rq
        total = size - np.trace(inner)
        beside = (size - 1) * correlation - (q[:-1] * rq[1:]).sum() - (rq[:-1] * q[1:]).sum()
        beside += ((q[:-1] @ inner) * q[1:]).sum()
        squares = (noise**2).sum() - 2 * (rq**2).sum() + (inner**2).sum()
        figures.append((beside / total, inner[1, 1] / float(dx @ dx) / total, total**2 / squares))
    expected, variance, freedom = np.array(figures).T
    return expected, variance, freedom


def kendall_tau(values: Sequence[float] | np.ndarray) -> float:
    """Return Kendall's tau-b of `values` [N] and their order; NaN where all are equal.

    Rising and falling pairs are counted in the merges of a merge sort, all merges of one width w at once. Blocks of 2 w
    values are shifted by more than any rank: one sorted array then holds all left halves.
    """
    n = len(values)
    ranks = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True)[1].astype(np.int64)
    length = 1 << max(n - 1, 0).bit_length()
    ranks = np.concatenate([ranks, np.full(length - n, n)])  # n exceeds every rank: each value rises to each of these
    rising, falling, width = -n * (length - n), 0, 1
    while width < length:
        halves = np.sort(ranks.reshape(-1, 2, width), axis=2)
        block = np.arange(len(halves))[:, None]
        lefts, rights = ((halves[:, side] + block * (n + 1)).ravel() for side in (0, 1))
        before = np.repeat(block.ravel() * width, width)
        rising += int((np.searchsorted(lefts, rights, "left") - before).sum())
        falling += int((before + width - np.searchsorted(lefts, rights, "right")).sum())
        width *= 2
    pairs = n * (n - 1) // 2
    if not rising + falling:
        return math.nan
    return float(np.clip((rising - falling) / np.sqrt(pairs) / np.sqrt(rising + falling), -1.0, 1.0))
