"""Series of a run: the values of one metric over the run's rows, and the shell-style patterns that name metrics.

A `Series` has rows x int64 [N] (row numbers), env steps int64 [N] (-1 unknown) and finite values float64 [N]. Windows
are in rows that have a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from sparring.eval.experiments.record import History


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
    wanted = list(patterns)
    return [
        name
        for name, values in sorted(history.columns.items())
        if any(fnmatchcase(name, pattern) for pattern in wanted) and np.isfinite(values).any()
    ]


def first_known(history: History, names: Sequence[str]) -> str | None:
    """Return the first of the patterns `names` that has a metric with a value: that metric, or None."""
    return next((found[0] for name in names if (found := matching(history, [name]))), None)


def moving_mean(values: np.ndarray, window: int) -> np.ndarray:
    """Return the means [N - window + 1] of `window` values in a row."""
    total = np.cumsum(np.concatenate([[0.0], values]))
    return (total[window:] - total[:-window]) / window
