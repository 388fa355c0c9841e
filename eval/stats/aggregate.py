"""Interquartile mean of scores over tasks and runs, and its stratified bootstrap; source: see `eval/seeds.py`.

T tasks (an opponent under a physics), R runs. Strata are the tasks: in every bootstrap sample each task keeps R
scores, resampled from its own with replacement and independently of the other tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparring.configs.core.errors import require_package

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


def scipy_stats() -> Any:
    """Return the module `scipy.stats`, loaded at its first use. Raises `MissingPackageError` without SciPy."""
    require_package("scipy", "analysis")
    from scipy import stats

    return stats


def mean_estimate(values: np.ndarray, *, least: float = -math.inf, most: float = math.inf) -> Estimate:
    """Return the mean of `values` [N] and its Student t interval, clipped to [`least`, `most`]; all of it for N = 1."""
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(mean, (float(least), float(most)))
    half = float(scipy_stats().t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return Estimate(mean, (max(mean - half, least), min(mean + half, float(most))))


def spread(scores: np.ndarray, seed: int, resamples: int) -> Spread:
    """Summarize `scores` [T, R], R at least 2."""
    iqm = Estimate(interquartile_mean(scores), _interval(_pooled_iqm, list(scores), seed, resamples))
    return Spread(iqm, float(scores.mean()), float(scores.min()))


def interquartile_mean(scores: np.ndarray) -> float:
    """Return the mean of `scores` without the lowest and the highest quarter."""
    return float(scipy_stats().trim_mean(scores, CUT, axis=None))


def improvement(ours: np.ndarray, theirs: np.ndarray, seed: int, resamples: int) -> Estimate:
    """Return the probability that a run of `ours` [T, R] beats one of `theirs` [T, S], ties half, mean over tasks.

    This is the Mann-Whitney statistic divided by R S.
    """
    samples = [*ours, *theirs]
    value = float(_probability(*samples, axis=-1))
    return Estimate(value, _interval(_probability, samples, seed, resamples))


def _pooled_iqm(*samples: np.ndarray, axis: int) -> np.ndarray:
    """Return the IQM [...] of T samples [..., R] pooled."""
    return np.asarray(scipy_stats().trim_mean(np.concatenate(samples, axis=axis), CUT, axis=axis))


def _probability(*samples: np.ndarray, axis: int) -> np.ndarray:
    """Return P(X > Y) + P(X = Y) / 2 [...] of T samples [..., R], then T samples [..., S]; `axis` is the last."""
    tasks = len(samples) // 2
    total = np.zeros(samples[0].shape[:-1])
    for x, y in zip(samples[:tasks], samples[tasks:], strict=True):
        total = total + (0.5 + 0.5 * np.sign(x[..., :, None] - y[..., None, :])).mean(axis=(-2, -1))
    return total / tasks


def _interval(
    statistic: Callable[..., np.ndarray], samples: list[np.ndarray], seed: int, resamples: int
) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval; deterministic in the arguments."""
    result = scipy_stats().bootstrap(
        samples,
        statistic,
        n_resamples=resamples,
        batch=_BATCH,
        vectorized=True,
        axis=-1,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    low, high = result.confidence_interval
    return float(low), float(high)
