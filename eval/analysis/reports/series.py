"""Series of a run: the values of one metric over the run's rows, and columns computed from others.

A `Series` has rows x int64 [N] (row numbers), env steps int64 [N] (-1 unknown) and finite values float64 [N]. Windows
are in rows that have a value. Metrics are named by shell-style patterns. Columns for rules that one metric cannot
express:

- `derived/overlap_share`: the part of the shorter of rollouts and training that ran beside the other
- `derived/rollout_wait_s`: seconds of a step in which training waits for rollouts
- `derived/reward_spread`: the standard deviation of rewards over the size of their mean
- `derived/kl_over_target`: the KL to the reference over the run's own target
- `derived/checkpoint_elo`: the last rating of each checkpoint, in the row of its step
- `derived/solved`: the return of the last 100 episodes over Gymnasium's reward threshold of the environment
- `derived/win_rate_since_shift`: the learner's win rate since the last change of phase or stage of the curriculum
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from sparring.eval.analysis.record import History, RunRecord, option


@dataclass(frozen=True)
class Series:
    """Finite values [N] of the metric `name`, at the rows and env steps [N]."""

    name: str
    rows: np.ndarray
    env_steps: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    def after(self, fraction: float) -> Series:
        """Return the part after the first `fraction` of the values."""
        start = int(len(self) * fraction)
        return Series(self.name, self.rows[start:], self.env_steps[start:], self.values[start:])


def series_of(history: History, name: str) -> Series:
    """Return the finite values of a metric; empty if the run lacks it."""
    values = history.columns.get(name, np.full(len(history.step), np.nan))
    finite = np.isfinite(values)
    return Series(name, history.step[finite], history.env_steps[finite], values[finite])


def matching(history: History, patterns: Iterable[str]) -> list[str]:
    """Return the metrics with a value that match one of the `patterns`, in which * stands for any text."""
    chosen = list(patterns)
    return [
        name
        for name, values in sorted(history.columns.items())
        if any(fnmatchcase(name, pattern) for pattern in chosen) and np.isfinite(values).any()
    ]


def first_known(history: History, names: Sequence[str]) -> str | None:
    """Return the first of the patterns `names` that has a metric with a value: that metric, or None."""
    return next((metrics[0] for name in names if (metrics := matching(history, [name]))), None)


def moving_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Return the means [N - window + 1] of `window` values in a row."""
    total = np.cumsum(np.concatenate([[0.0], values]))
    return (total[window:] - total[:-window]) / window


def window_means(values: np.ndarray, most: int) -> np.ndarray:
    """Average values [N] in windows of equal length; at most `most` are left."""
    window = -(-len(values) // most) if len(values) else 1
    return values[: len(values) // window * window].reshape(-1, window).mean(axis=1)


_CHECKPOINT = re.compile(r"elo/.*(?:checkpoint|adapter)_v?(\d{1,9})")
BASE_MODEL, BEST_ELO = "elo/base_model", "league/best_elo"
ODD_SIGNS = 0.2
"""Part of the values that may have the other sign where their mean is a size."""
SOLVED, SINCE_SHIFT = "derived/solved", "derived/win_rate_since_shift"
WINDOW = 10
"""Updates before and after a shift whose means are compared."""


@dataclass(frozen=True)
class CurriculumShift:
    """A change of phase or stage at a row, with the mean win rates of the updates before and after, NaN if unknown."""

    row: int
    env_steps: int
    before: float
    after: float
    at_end: float
    """Mean of the last updates before the next shift, or of the run."""


def has_size(values: np.ndarray) -> bool:
    """Return True if nearly all values have one sign; their mean is then a size to compare with."""
    finite = values[np.isfinite(values)]
    return len(finite) > 0 and min((finite > 0).mean(), (finite < 0).mean()) <= ODD_SIGNS and bool(finite.mean())


def with_derived(record: RunRecord, history: History) -> History:
    """Return the history with the derived columns that can be computed."""
    added = _ratios(history, option_of_any(record.config, "grpo.kl_target")) | _checkpoint_ratings(history)
    threshold = _reward_threshold(str(option(record.config, "env.id") or ""))
    if threshold and "rollout/recent_return" in history.columns:
        added[SOLVED] = history.columns["rollout/recent_return"] / threshold
    shifts, rates = curriculum_shifts(history), history.columns.get("rollout/win_rate")
    if shifts and rates is not None:
        added[SINCE_SHIFT] = np.where(history.step >= shifts[-1].row, rates, np.nan)
    return replace(history, columns=history.columns | added)


def option_of_any(config: Mapping[str, Any], name: str) -> Any:
    """Return an option, also from a flat configuration as other trainers log to W&B; None if unknown."""
    value = option(config, name)
    return option(config, name.rpartition(".")[2]) if value is None else value


def _ratios(history: History, kl_target: Any) -> dict[str, np.ndarray]:
    """Return the derived columns that are ratios of others; NaN where a part is unknown or nothing is to divide by."""
    columns, unknown = history.columns, np.full(len(history.step), np.nan)
    rollout, training, overlap, reward, spread, kl = (
        columns.get(name, unknown)
        for name in (
            *("benchmark/rollout_time_s", "benchmark/training_time_s", "benchmark/pipeline_overlap_s"),
            *("benchmark/reward_mean", "benchmark/reward_std", "kl/mean"),
        )
    )
    target = float(kl_target) if type(kl_target) in (int, float) and kl_target > 0 else np.nan
    unit = np.ones(len(unknown))
    ratios = {
        "derived/overlap_share": (overlap, np.fmin(rollout, training)),
        "derived/rollout_wait_s": (rollout - np.nan_to_num(overlap), unit),
        "derived/reward_spread": (spread, np.abs(reward) if has_size(reward) else unknown),
        "derived/kl_over_target": (kl, target * unit),
    }
    masked = {name: (up, down, down > 0) for name, (up, down) in ratios.items()}
    return {
        name: np.divide(up, down, out=unknown.copy(), where=where)
        for name, (up, down, where) in masked.items()
        if where.any()
    }


def checkpoint_ratings(columns: Iterable[str]) -> dict[str, int]:
    """Return the metrics that are ratings of checkpoints, here or in the original, and the steps in their names."""
    matches = {name: _CHECKPOINT.fullmatch(name) for name in columns}
    return {name: int(match[1]) for name, match in matches.items() if match}


@dataclass(frozen=True)
class EloGap:
    """Rating of the best checkpoint, its metric, and the rating of the base model."""

    metric: str
    best: float
    base: float

    @property
    def value(self) -> float:
        """The gap in Elo, higher is better."""
        return self.best - self.base


def elo_gap(rows: Sequence[Mapping[str, Any]]) -> EloGap | None:
    """Return the best checkpoint's rating minus the base model's, in the last row that has both; None without them.

    Ratings that never stand in one row are the last of each. Where no checkpoint has one, `league/best_elo` counts.
    """
    last: dict[str, Any] = {}
    for row in rows:
        last |= {name: value for name, value in row.items() if _is_finite(value)}
    for names in (set(checkpoint_ratings(last)), {BEST_ELO} & last.keys()):
        for row in (*reversed(rows), last):
            ratings = {name: float(row[name]) for name in names & row.keys() if _is_finite(row[name])}
            if ratings and _is_finite(row.get(BASE_MODEL)):
                metric = max(sorted(ratings), key=ratings.__getitem__)
                return EloGap(metric, ratings[metric], float(row[BASE_MODEL]))
    return None


def no_elo_gap(metrics: Iterable[str]) -> str:
    """Return why a run with these metrics has no Elo gap; empty if it has one, or no ratings at all."""
    names = set(metrics)
    if not any(name.startswith("elo/") or name == BEST_ELO for name in names):
        return ""
    if BASE_MODEL not in names:
        return f"no value of {BASE_MODEL}"
    if checkpoint_ratings(names) or BEST_ELO in names:
        return ""
    return f"no rating of a checkpoint (elo/checkpoint_N, elo/adapter_vN or {BEST_ELO})"


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _checkpoint_ratings(history: History) -> dict[str, np.ndarray]:
    """Return the last rating of each checkpoint in the last row up to its step, the first row at the least."""
    ratings = np.full(len(history.step), np.nan)
    for name, step in checkpoint_ratings(history.columns).items():
        values = series_of(history, name).values
        if len(values):
            ratings[max(int(np.searchsorted(history.step, step, "right")) - 1, 0)] = values[-1]
    return {"derived/checkpoint_elo": ratings} if np.isfinite(ratings).any() else {}


def curriculum_shifts(history: History) -> list[CurriculumShift]:
    """Return the changes of `curriculum/phase` and `curriculum/stage` after the first row."""
    parts = [history.columns.get(f"curriculum/{name}") for name in ("phase", "stage")]
    columns = [np.nan_to_num(part) for part in parts if part is not None]
    if not columns or not len(history.step):
        return []
    changed = np.any([np.diff(part) != 0 for part in columns], axis=0)
    at = np.flatnonzero(changed) + 1
    rates = history.columns.get("rollout/win_rate", np.full(len(history.step), np.nan))
    ends = [*at, len(history.step)][1:]
    return [
        CurriculumShift(
            int(history.step[row]),
            int(history.env_steps[row]),
            _mean(rates[max(row - WINDOW, 0) : row]),
            _mean(rates[row : min(row + WINDOW, end)]),
            _mean(rates[max(row, end - WINDOW) : end]),
        )
        for row, end in zip(at, ends, strict=True)
    ]


def _mean(values: np.ndarray) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")


def _reward_threshold(env_id: str) -> float | None:
    """Return the return at which Gymnasium calls a registered environment solved; None if unknown."""
    from gymnasium.envs.registration import registry

    spec = registry.get(env_id)  # `gymnasium.spec` would import the module named in an id such as module:Env-v0.
    threshold = spec.reward_threshold if spec else None
    return float(threshold) if threshold and threshold > 0 else None
