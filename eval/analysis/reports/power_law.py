"""Cumulative compute of a run, and the power law of its reward against compute: reward = a C^b.

Seconds come from the rows' timestamps where known, else from sums of the time that every row reports. FLOPs are
estimates with P parameters: 2 P for a forward pass of a sample or token, 6 P for a forward and backward pass. PPO:
(2 + 6 E) P for each env step in an update of E epochs. GRPO: 2 P for each token computed for sampling; tokens from the
prefix cache are free. Training adds 8 P for each prompt token of a sample (6 P, and 2 P for the reference).

The law is a line through log reward and log compute. Points whose reward or compute is not positive are left out and
counted. Within a run `eval/analysis/trends.py` gives the interval of b. The coverage of its 95 % intervals was measured
in 64 cells of 400 simulated runs. Compute was even and geometric; noise was independent, lasting, falling,
heavy-tailed, or with slow and quick parts. Coverage was 94 to 99 % at 200 and 500 points, 86 to 98 % at 50, 84 to 97 %
at 20. It is low where the noise lasts for a quarter of the run. Across R runs it is a jackknife over whole runs with
Student's t of R - 1, since the points of one run are not independent evidence. Its coverage was 92 to 99 % in 20 cells,
R from 3 to 20.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.curriculum.student import student_95
from sparring.eval.analysis.record import History, RunRecord
from sparring.eval.analysis.reports.series import first_known, window_means
from sparring.eval.analysis.trends import trend
from sparring.eval.stats.aggregate import Estimate

AXES: Mapping[str, str] = {
    "env_steps": "env steps",
    "games": "games",
    "years": "simulated years",
    "tokens": "prompt tokens",
    "seconds": "seconds",
    "flops": "FLOPs (estimate)",
    "money": "cost",
}
"""Names of the measures of compute, and their labels."""
GAMES = ("rollout/matches", "rollout/episodes", "game/total_games")
HOUR = 3600.0
_WEIGHTS = re.compile(r"\((?P<count>[\d,]+) weights\)")


@dataclass(frozen=True)
class Price:
    """Price of an hour of the machine, in a currency."""

    per_hour: float
    currency: str = "USD"


@dataclass(frozen=True)
class ComputeChoice:
    """Basis of the figures: the reward's metric (empty: the first known), the price, and the weights of the network."""

    reward: str = ""
    price: Price | None = None
    parameters: int | None = None
    """None: the number that the run records, if it does."""


@dataclass(frozen=True)
class Compute:
    """Cumulative compute at the end of each of N rows, float64 [N] by the names of `AXES`, without unknown ones."""

    axes: Mapping[str, np.ndarray]
    parameters: int | None
    price: Price | None

    def total(self, axis: str) -> float | None:
        """Return the compute of the whole run, None if unknown."""
        return float(self.axes[axis][-1]) if axis in self.axes and len(self.axes[axis]) else None


def compute_of(record: RunRecord, history: History, choice: ComputeChoice) -> Compute:
    """Return the compute of a run."""
    count, price = choice.parameters or _parameters(record, history), choice.price
    axes: dict[str, np.ndarray] = {}
    if (history.env_steps >= 0).all() and len(history.env_steps):
        axes["env_steps"] = history.env_steps.astype(np.float64)
    games = first_known(history, GAMES)
    sums = {"games": games, "tokens": first_known(history, ("cache/prompt_tokens", "train/tokens"))}
    axes |= {name: np.cumsum(_known(history, metric)) for name, metric in sums.items() if metric}
    if "power_law/cumulative_simulated_years" in history.columns:
        axes["years"] = np.fmax.accumulate(history.columns["power_law/cumulative_simulated_years"])
    seconds = _seconds(history)
    if seconds is not None:
        axes["seconds"] = np.cumsum(seconds)
        if price:
            axes["money"] = axes["seconds"] / HOUR * price.per_hour
    if count and (flops := _flops(history, count)) is not None:
        axes["flops"] = np.cumsum(flops)
    return Compute(axes, count, price)


def label(axis: str, price: Price | None = None) -> str:
    """Return the label of a measure of compute."""
    return f"cost ({price.currency} at {price.per_hour:g} an hour)" if axis == "money" and price else AXES[axis]


def _seconds(history: History) -> np.ndarray | None:
    """Return the seconds [N] that each row took; None if nothing says so."""
    stamps, get = history.timestamp, history.columns.get
    if np.isfinite(stamps).all() and len(stamps) > 1 and stamps[-1] > stamps[0]:
        steps = np.maximum(np.diff(stamps), 0.0)  # The first row's start is unknown: it is taken as usual.
        return np.concatenate([[np.median(steps)], steps])
    for speed, work in (
        ("time/steps_per_second", _env_steps(history)),
        ("time/tokens_per_second", get("train/tokens")),
    ):
        if speed in history.columns and work is not None:
            speeds = np.nan_to_num(history.columns[speed])
            return np.divide(np.nan_to_num(work), speeds, out=np.zeros(len(speeds)), where=speeds > 0)
    parts = [get(f"benchmark/{name}") for name in ("rollout_time_s", "training_time_s", "pipeline_overlap_s")]
    if parts[0] is None or parts[1] is None:
        return None
    rollout, training, overlap = (np.zeros(len(stamps)) if part is None else np.nan_to_num(part) for part in parts)
    return np.maximum(rollout + training - overlap, 0.0)


def _env_steps(history: History) -> np.ndarray | None:
    if not len(history.env_steps) or (history.env_steps < 0).any():
        return None
    return np.maximum(np.diff(history.env_steps, prepend=0), 0).astype(np.float64)


def _flops(history: History, parameters: int) -> np.ndarray | None:
    if "cache/total_queries" in history.columns:
        computed = _known(history, "cache/total_queries") - _known(history, "cache/total_hits")
        trained = _known(history, "cache/prompt_tokens") * (1.0 - _known(history, "processing/skip_rate"))
        return parameters * (2.0 * np.maximum(computed, 0.0) + 8.0 * trained)
    steps = _env_steps(history)
    if steps is None or "train/epochs_completed" not in history.columns:
        return None
    return parameters * (2.0 + 6.0 * _known(history, "train/epochs_completed")) * steps


def _known(history: History, metric: str) -> np.ndarray:
    return np.nan_to_num(history.columns.get(metric, np.zeros(len(history.step))))


def _parameters(record: RunRecord, history: History) -> int | None:
    """Return the weights of the network, which the first event of a PPO run names; None if unknown."""
    stored = record.summary.get("parameters")
    if isinstance(stored, int) and stored > 0:
        return stored
    matches = (_WEIGHTS.search(str(event.get("event", ""))) for event in history.events[:5])
    return next((int(match["count"].replace(",", "")) for match in matches if match), None)


MEAN_RESAMPLES = 2000
SEED = 0


def mean_of(values: np.ndarray, *, dependent: bool = False) -> Estimate:
    """Return the mean of `values` [N] and its bootstrap interval.

    Neighbouring values that are `dependent` are drawn in circular blocks of about N^(1/2).
    """
    count = len(values)
    block = max(1, round(count**0.5)) if dependent else 1
    starts = np.random.default_rng(SEED).integers(0, count, (MEAN_RESAMPLES, -(-count // block)))
    draws = ((starts[..., None] + np.arange(block)) % count).reshape(MEAN_RESAMPLES, -1)[:, :count]
    return _percentiles(float(values.mean()), values[draws].mean(axis=1))


def difference_of_means(a: np.ndarray, b: np.ndarray) -> Estimate:
    """Return mean(a) - mean(b) of two independent samples [N], [M] and its bootstrap interval."""
    rng = np.random.default_rng(SEED)
    draws = [part[rng.integers(0, len(part), (MEAN_RESAMPLES, len(part)))].mean(axis=1) for part in (a, b)]
    return _percentiles(float(a.mean() - b.mean()), draws[0] - draws[1])


def _percentiles(value: float, samples: np.ndarray) -> Estimate:
    low, high = np.percentile(samples, [2.5, 97.5])
    return Estimate(value, (float(low), float(high)))


MOST_POINTS = 500
"""Longer series are averaged in windows of equal length, so a fit of a million rows is fast."""
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


def fit_run(compute: np.ndarray, reward: np.ndarray) -> PowerLaw:
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
    return _law(x, y, trend(x, y).half, left_out)


def fit_runs(runs: Sequence[tuple[np.ndarray, np.ndarray]]) -> PowerLaw:
    """Fit all points of R runs, (compute [N_r], reward [N_r]) each, every run with the same weight.

    Raises `PowerLawError` for fewer than 3 runs with positive points, and for a constant reward.
    """
    logs = [_logs(*run) for run in runs]
    positive = [(x, y) for x, y, _ in logs if len(x)]
    if len(positive) < 3:
        raise PowerLawError(f"{len(positive)} runs have positive points: a fit across runs needs 3")
    _refuse_constant(np.concatenate([y for _, y in positive]))
    moments = np.array([[x.mean(), y.mean(), (x * x).mean(), (x * y).mean()] for x, y in positive])
    count = len(positive)
    means = (moments.sum(axis=0) - moments) / (count - 1)  # without each run in turn
    spread = means[:, 2] - means[:, 0] ** 2
    weights = np.concatenate([np.full(len(x), 1.0 / len(x)) for x, _ in positive])
    x, y = (np.concatenate([pair[side] for pair in positive]) for side in (0, 1))
    half = math.inf
    if (spread > 1e-12).all():
        slopes = (means[:, 3] - means[:, 0] * means[:, 1]) / spread
        half = student_95(count - 1) * math.sqrt((count - 1) * float(slopes.var()))
    return _law(x, y, half, sum(left_out for _, _, left_out in logs), weights)


def _refuse_constant(y: np.ndarray) -> None:
    """Raise `PowerLawError` for logarithms [N] of one reward: any exponent near 0 would be an artefact of rounding."""
    if np.ptp(y) <= 1e-12:
        raise PowerLawError(
            f"all {len(y)} rewards are {np.exp(y[0]):.4g}: a constant has no exponent; choose another --reward"
        )


def _logs(compute: np.ndarray, reward: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    finite = np.isfinite(compute) & np.isfinite(reward)
    compute, reward = (window_means(values[finite], MOST_POINTS) for values in (compute, reward))
    positive = (compute > 0) & (reward > 0)
    return np.log(compute[positive]), np.log(reward[positive]), int((~positive).sum())


def _law(x: np.ndarray, y: np.ndarray, half: float, left_out: int, weights: np.ndarray | None = None) -> PowerLaw:
    shares = np.full(len(x), 1.0 / len(x)) if weights is None else weights / weights.sum()
    dx, dy = x - shares @ x, y - shares @ y
    if not (spread := shares @ (dx * dx)):
        raise PowerLawError("all points have the same compute: a fit needs different ones")
    slope = float(shares @ (dx * dy) / spread)
    total = float(shares @ (dy * dy))
    explained = 1.0 if total == 0 else slope**2 * float(spread) / total
    start = float(np.exp(shares @ y - slope * (shares @ x)))
    return PowerLaw(Estimate(slope, (slope - half, slope + half)), start, explained, len(x), left_out)
