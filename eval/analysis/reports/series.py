"""Series of a run: the values of one metric over the run's rows, and columns computed from others.

A `Series` has rows x int64 [N] (row numbers), env steps int64 [N] (-1 unknown) and finite values float64 [N]. Windows
are in rows that have a value. Metrics are named by shell-style patterns. Columns for rules that one metric cannot
express:

- `derived/solved`: the return of the last 100 episodes over Gymnasium's reward threshold of the environment
- `derived/win_rate_since_shift`: the learner's win rate since the last change of phase or stage of the curriculum
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

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
    """Return the finite values of a metric; empty if the run has none."""
    values = history.columns.get(name, np.full(len(history.step), np.nan))
    known = np.isfinite(values)
    return Series(name, history.step[known], history.env_steps[known], values[known])


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


def with_derived(record: RunRecord, history: History) -> History:
    """Return the history with the derived columns that can be computed."""
    added = {}
    threshold = _reward_threshold(str(option(record.config, "env.id") or ""))
    if threshold and "rollout/recent_return" in history.columns:
        added[SOLVED] = history.columns["rollout/recent_return"] / threshold
    shifts, rates = curriculum_shifts(history), history.columns.get("rollout/win_rate")
    if shifts and rates is not None:
        added[SINCE_SHIFT] = np.where(history.step >= shifts[-1].row, rates, np.nan)
    return replace(history, columns=history.columns | added)


def curriculum_shifts(history: History) -> list[CurriculumShift]:
    """Return the changes of `curriculum/phase` and `curriculum/stage` after the first row."""
    parts = [history.columns.get(f"curriculum/{name}") for name in ("phase", "stage")]
    known = [np.nan_to_num(part) for part in parts if part is not None]
    if not known or not len(history.step):
        return []
    changed = np.any([np.diff(part) != 0 for part in known], axis=0)
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
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")


def _reward_threshold(env_id: str) -> float | None:
    """Return the return at which Gymnasium calls a registered environment solved; None if it has none."""
    from gymnasium.envs.registration import registry

    spec = registry.get(env_id)  # `gymnasium.spec` would import the module named in an id such as module:Env-v0.
    threshold = spec.reward_threshold if spec else None
    return float(threshold) if threshold and threshold > 0 else None
