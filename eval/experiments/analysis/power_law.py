"""Power law of reward against compute: reward = a C^b, fitted as a line through log reward and log compute.

The interval of b is a percentile bootstrap. Within a run consecutive updates depend on each other, so blocks of
neighbouring points are drawn (H. R. Kuensch, "The jackknife and the bootstrap for general stationary observations",
1989), of about N^(1/2) points. Across runs whole runs are drawn, since the points of one run are no independent
evidence. Points whose reward or compute is not positive have no logarithm; they are left out and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.eval.experiments.analysis.resampling import block_draws
from sparring.eval.stats.aggregate import Estimate

RESAMPLES = 1000
MOST_POINTS = 500
"""Longer series are averaged in windows of equal length, so that a fit of a million rows is fast."""
LEAST_POINTS = 8


class PowerLawError(InputError):
    """Raised for points that no power law can be fitted to; the message says why and what to do."""


@dataclass(frozen=True)
class PowerLaw:
    """reward = coefficient * compute ** exponent, fitted to P points."""

    exponent: Estimate
    coefficient: float
    r_squared: float
    points: int
    left_out: int
    """Points without a logarithm."""

    def at(self, compute: np.ndarray) -> np.ndarray:
        """Return the fitted reward."""
        return self.coefficient * compute**self.exponent.value

    def describe(self) -> str:
        """Return the fit in one sentence."""
        low, high = self.exponent.interval
        rest = f", {self.left_out} points that are not positive left out" if self.left_out else ""
        return (
            f"reward = {self.coefficient:.3g} x compute^{self.exponent.value:.3f}, 95 % interval of the exponent "
            f"[{low:.3f}, {high:.3f}], R2 {self.r_squared:.2f}, {self.points} points{rest}"
        )


def fit_run(compute: np.ndarray, reward: np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES) -> PowerLaw:
    """Fit one run: compute and reward [N] by update.

    Raises `PowerLawError` for fewer than 8 positive points and for a constant reward.
    """
    x, y, left_out = _logs(compute, reward)
    if len(x) < LEAST_POINTS or np.ptp(x) == 0:
        raise PowerLawError(
            f"{len(x)} of {len(compute)} points have positive compute and reward, or all have the same compute: a fit "
            f"needs {LEAST_POINTS}; choose another --reward, one that is positive"
        )
    _refuse_constant(y)
    drawn = block_draws(len(x), resamples, seed)
    return _law(x, y, _slopes(x[drawn], y[drawn]), left_out)


def fit_runs(runs: Sequence[tuple[np.ndarray, np.ndarray]], *, seed: int = 0, resamples: int = RESAMPLES) -> PowerLaw:
    """Fit all points of R runs, (compute [N_r], reward [N_r]) each, every run with the same weight.

    Raises `PowerLawError` for fewer than 3 runs with positive points, and for a constant reward.
    """
    logs = [_logs(*run) for run in runs]
    known = [(x, y) for x, y, _ in logs if len(x)]
    if len(known) < 3:
        raise PowerLawError(f"{len(known)} runs have positive points: a fit across runs needs 3")
    _refuse_constant(np.concatenate([y for _, y in known]))
    moments = np.array([[x.mean(), y.mean(), (x * x).mean(), (x * y).mean()] for x, y in known])
    drawn = np.random.default_rng(seed).integers(0, len(known), (resamples, len(known)))
    means = moments[drawn].mean(axis=1)
    spread = means[:, 2] - means[:, 0] ** 2
    slopes = (means[:, 3] - means[:, 0] * means[:, 1])[spread > 1e-12] / spread[spread > 1e-12]
    weights = np.concatenate([np.full(len(x), 1.0 / len(x)) for x, _ in known])
    x, y = (np.concatenate([pair[side] for pair in known]) for side in (0, 1))
    return _law(x, y, slopes, sum(left for _, _, left in logs), weights)


def _refuse_constant(y: np.ndarray) -> None:
    """Raise `PowerLawError` for logarithms [N] of one reward: any exponent near 0 would be an artefact of rounding."""
    if np.ptp(y) <= 1e-12:
        raise PowerLawError(
            f"all {len(y)} rewards are {np.exp(y[0]):.4g}: a constant has no exponent; choose another --reward"
        )


def _logs(compute: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    known = np.isfinite(compute) & np.isfinite(reward)
    compute, reward = _thin(compute[known]), _thin(reward[known])
    positive = (compute > 0) & (reward > 0)
    return np.log(compute[positive]), np.log(reward[positive]), int((~positive).sum())


def _thin(values: np.ndarray) -> np.ndarray:
    """Average windows of equal length until at most `MOST_POINTS` are left."""
    window = -(-len(values) // MOST_POINTS) if len(values) else 1
    return values[: len(values) // window * window].reshape(-1, window).mean(axis=1)


def _slopes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the least-squares slopes [B] of B samples [B, N]; samples of equal x are left out."""
    dx, dy = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    spread = (dx * dx).sum(axis=1)
    known = spread > 1e-12
    return (dx * dy).sum(axis=1)[known] / spread[known]


def _law(
    x: np.ndarray, y: np.ndarray, slopes: np.ndarray, left_out: int, weights: np.ndarray | None = None
) -> PowerLaw:
    shares = np.full(len(x), 1.0 / len(x)) if weights is None else weights / weights.sum()
    dx, dy = x - shares @ x, y - shares @ y
    if not (spread := shares @ (dx * dx)):
        raise PowerLawError("all points have the same compute: a fit needs different ones")
    slope = float(shares @ (dx * dy) / spread)
    total = float(shares @ (dy * dy))
    explained = 1.0 if total == 0 else slope**2 * float(spread) / total
    low, high = np.percentile(slopes, [2.5, 97.5]) if len(slopes) else (-np.inf, np.inf)
    start = float(np.exp(shares @ y - slope * (shares @ x)))
    return PowerLaw(Estimate(slope, (float(low), float(high))), start, explained, len(x), left_out)
