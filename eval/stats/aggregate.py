"""The interquartile mean of scores over tasks and runs, and its stratified bootstrap; `eval/seeds.py` names the source.

T tasks (an opponent under a physics), R runs. Strata are the tasks: in every bootstrap sample each task keeps R scores,
drawn again from its own with replacement and independently of the other tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

CUT = 0.25
"""Share of the scores that is dropped at either end; rounded down to whole scores."""
_BATCH = 1000
"""Bootstrap samples held at once."""


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Spread:
    """Scores of several runs, summed up."""

    iqm: Estimate
    mean: float
    least: float
    """The lowest single score."""


def mean_estimate(values: np.ndarray, *, least: float = -math.inf, most: float = math.inf) -> Estimate:
    """Return the mean of `values` [N] and its Student t interval within [`least`, `most`]; of one value all of that."""
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(mean, (float(least), float(most)))
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return Estimate(mean, (max(mean - half, least), min(mean + half, float(most))))


def spread(scores: np.ndarray, seed: int, resamples: int) -> Spread:
    """Sum up `scores` [T, R], R at least 2."""
    iqm = Estimate(interquartile_mean(scores), _interval(_pooled_iqm, list(scores), seed, resamples))
    return Spread(iqm, float(scores.mean()), float(scores.min()))


def interquartile_mean(scores: np.ndarray) -> float:
    """The mean of what is left of all `scores` once the lowest and highest quarter are cut."""
    return float(stats.trim_mean(scores, CUT, axis=None))


def improvement(ours: np.ndarray, theirs: np.ndarray, seed: int, resamples: int) -> Estimate:
    """The probability that a run of `ours` [T, R] beats one of `theirs` [T, S], ties half, averaged over tasks.

    This is the Mann-Whitney statistic divided by R S.
    """
    samples = [*ours, *theirs]
    value = float(_probability(*samples, axis=-1))
    return Estimate(value, _interval(_probability, samples, seed, resamples))


def _pooled_iqm(*samples: np.ndarray, axis: int) -> np.ndarray:
    """The IQM [...] of T samples [..., R] together."""
    return np.asarray(stats.trim_mean(np.concatenate(samples, axis=axis), CUT, axis=axis))


def _probability(*samples: np.ndarray, axis: int) -> np.ndarray:
    """P(X > Y) + P(X = Y) / 2 [...] of T samples [..., R] and then T samples [..., S]; `axis` is the last."""
    tasks = len(samples) // 2
    total = np.zeros(samples[0].shape[:-1])
    for x, y in zip(samples[:tasks], samples[tasks:], strict=True):
        total = total + (0.5 + 0.5 * np.sign(x[..., :, None] - y[..., None, :])).mean(axis=(-2, -1))
    return total / tasks


def _interval(
    statistic: Callable[..., np.ndarray], samples: list[np.ndarray], seed: int, resamples: int
) -> tuple[float, float]:
    """The percentile bootstrap's 95 % interval; the same arguments give the same one."""
    result = stats.bootstrap(
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
