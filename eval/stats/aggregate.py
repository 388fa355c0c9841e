"""Statistics over runs: means with intervals, interquartile means with their stratified bootstrap, Kendall's tau.

T tasks (an opponent under a physics), R runs; source: see `eval/seeds.py`. Strata are the tasks: in every bootstrap
sample each task keeps R scores, resampled from its own with replacement and independently of the other tasks.
Everything is NumPy, since the base package reads runs without SciPy; tests compare with SciPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sparring.curriculum.student import student_95

CUT = 0.25
"""Fraction of the scores dropped at each end; rounded down to whole scores."""
_BATCH = 1000
"""Bootstrap samples in memory at once."""


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Spread:
    """Summary of the scores of several runs."""

    iqm: Estimate
    mean: float
    least: float
    """Lowest single score."""


def mean_estimate(values: np.ndarray, *, least: float = -math.inf, most: float = math.inf) -> Estimate:
    """Return the mean of `values` [N] and its Student t interval, clipped to [`least`, `most`]; all of it for N = 1."""
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(mean, (float(least), float(most)))
    half = float(student_95(len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return Estimate(mean, (max(mean - half, least), min(mean + half, float(most))))


def bounded_estimate(values: np.ndarray, least: float, most: float) -> Estimate:
    """Return `mean_estimate` of independent values [N] in [`least`, `most`], which are games, not seeds.

    N equal values have no spread, but their mean is not certain: another value may have a probability of up to
    1 - 0.025^(1/N), the end of the exact binomial interval.
    """
    if len(values) > 1 and np.all(values == values[0]):
        mean, other = float(values[0]), 1.0 - 0.025 ** (1.0 / len(values))
        return Estimate(mean, (mean + other * (least - mean), mean + other * (most - mean)))
    return mean_estimate(values, least=least, most=most)


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


def spread(scores: np.ndarray, seed: int, resamples: int) -> Spread:
    """Summarize `scores` [T, R], R at least 2."""
    iqm = Estimate(interquartile_mean(scores), _interval(_pooled_iqm, list(scores), seed, resamples))
    return Spread(iqm, float(scores.mean()), float(scores.min()))


def interquartile_mean(scores: np.ndarray) -> float:
    """Return the mean of `scores` without the lowest and the highest quarter."""
    return float(_pooled_iqm(scores.ravel()))


def improvement(ours: np.ndarray, baseline: np.ndarray, seed: int, resamples: int) -> Estimate:
    """Return the probability that a run of `ours` [T, R] beats one of `baseline` [T, S], ties half, mean over tasks.

    This is the Mann-Whitney statistic divided by R S.
    """
    samples = [*ours, *baseline]
    value = float(_probability(*samples))
    return Estimate(value, _interval(_probability, samples, seed, resamples))


def _pooled_iqm(*samples: np.ndarray) -> np.ndarray:
    """Return the IQM [...] of T samples [..., R] pooled."""
    pooled = np.concatenate(samples, axis=-1)
    n = pooled.shape[-1]
    cut = int(CUT * n)
    middle: np.ndarray = np.partition(pooled, (cut, n - cut - 1), axis=-1)[..., cut : n - cut].mean(axis=-1)
    return middle


def _probability(*samples: np.ndarray) -> np.ndarray:
    """Return P(X > Y) + P(X = Y) / 2 [...] of T samples [..., R], then T samples [..., S]."""
    tasks = len(samples) // 2
    total = np.zeros(samples[0].shape[:-1])
    for x, y in zip(samples[:tasks], samples[tasks:], strict=True):
        total = total + (0.5 + 0.5 * np.sign(x[..., :, None] - y[..., None, :])).mean(axis=(-2, -1))
    return total / tasks


def _interval(
    statistic: Callable[..., np.ndarray], samples: Sequence[np.ndarray], seed: int, resamples: int
) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval; deterministic in the arguments."""
    rng, values = np.random.default_rng(seed), []
    for start in range(0, resamples, _BATCH):
        count = min(_BATCH, resamples - start)
        drawn = [sample[rng.integers(0, len(sample), (count, len(sample)))] for sample in samples]
        values.append(statistic(*drawn))
    low, high = np.percentile(np.concatenate(values), [2.5, 97.5])
    return float(low), float(high)
