"""Bootstrap intervals of means: of independent values, of pairs, of two samples, and of a dependent series.

All are percentile intervals of 95 % and deterministic in their arguments. Of fewer than about six values they are too
narrow, as every bootstrap is; the reports say how many values there were.
"""

from __future__ import annotations

import numpy as np

from sparring.eval.stats.aggregate import Estimate

RESAMPLES = 2000
SEED = 0


def block_draws(count: int, resamples: int, seed: int = SEED) -> np.ndarray:
    """Return indices [resamples, count] of circular blocks of about count^(1/2) neighbours."""
    block = max(1, round(count**0.5))
    starts = np.random.default_rng(seed).integers(0, count, (resamples, -(-count // block)))
    return ((starts[..., None] + np.arange(block)) % count).reshape(resamples, -1)[:, :count]


def mean_of(values: np.ndarray, *, dependent: bool = False) -> Estimate:
    """Return the mean of `values` [N] and its bootstrap interval; of neighbouring values in blocks if `dependent`."""
    count = len(values)
    if dependent:
        draws = block_draws(count, RESAMPLES)
    else:
        draws = np.random.default_rng(SEED).integers(0, count, (RESAMPLES, count))
    return _estimate(float(values.mean()), values[draws].mean(axis=1))


def difference_of_means(ours: np.ndarray, theirs: np.ndarray) -> Estimate:
    """Return mean(ours) - mean(theirs) of two independent samples [N], [M] and its bootstrap interval."""
    rng = np.random.default_rng(SEED)
    first, second = (part[rng.integers(0, len(part), (RESAMPLES, len(part)))].mean(axis=1) for part in (ours, theirs))
    return _estimate(float(ours.mean() - theirs.mean()), first - second)


def _estimate(value: float, samples: np.ndarray) -> Estimate:
    low, high = np.percentile(samples, [2.5, 97.5])
    return Estimate(value, (float(low), float(high)))
