"""Rows collected into columns, for sources that hold one record per update.

A run that was rolled back or resumed repeats env steps. metrics.jsonl is cut in that case; a W&B file keeps the
reverted rows. Both read the same here: a row counts only if every later row has more env steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sparring.eval.experiments.record import History

STEPS = "env_steps"
UNKNOWN = -1
NOT_FINITE = ("NaN", "Infinity", "-Infinity")
"""How the W&B cloud writes these numbers."""


class RowTable:
    """Rows of numbers, appended one by one; `metrics` limits the columns that are kept."""

    def __init__(self, metrics: Sequence[str] | None = None) -> None:
        self._wanted = None if metrics is None else set(metrics)
        self._steps: list[int] = []
        self._times: list[float] = []
        self._env_steps: list[int] = []
        self._cells: dict[str, tuple[list[int], list[float]]] = {}

    def add(self, values: Iterable[tuple[str, float]], *, env_steps: int, step: int, timestamp: float = np.nan) -> None:
        """Append a row; `env_steps` is -1 and `timestamp` NaN where unknown."""
        row, cells, wanted = len(self._steps), self._cells, self._wanted
        self._steps.append(step)
        self._times.append(timestamp)
        self._env_steps.append(env_steps)
        for key, value in values:
            if wanted is not None and key not in wanted:
                continue
            if key not in cells:
                cells[key] = ([], [])
            rows, found = cells[key]
            rows.append(row)
            found.append(value)

    def __len__(self) -> int:
        return len(self._steps)

    def history(self, events: list[dict[str, Any]], damage: Sequence[str]) -> History:
        """Return the rows that count, as columns."""
        env_steps = np.array(self._env_steps, np.int64)
        keep = _not_reverted(env_steps)
        numbered = bool((env_steps != UNKNOWN).any()) or not len(env_steps)
        steps = np.arange(1, keep.sum() + 1) if numbered else np.array(self._steps, np.int64)[keep]
        return History(
            step=steps.astype(np.int64),
            timestamp=np.array(self._times, np.float64)[keep],
            env_steps=env_steps[keep],
            columns={key: found for key in self._cells if not np.isnan(found := self._column(key, keep)).all()},
            events=events,
            damage=tuple(damage),
        )

    def _column(self, key: str, keep: np.ndarray) -> np.ndarray:
        rows, values = self._cells[key]
        column = np.full(len(keep), np.nan)
        column[rows] = values
        column[~np.isfinite(column)] = np.nan
        return column[keep]


def add_logged(table: RowTable, events: list[dict[str, Any]], values: Iterable[tuple[str, Any]], *, step: int) -> None:
    """Add what one `run.log` of W&B holds: numbers as a row, text values as events; its own keys begin with _."""
    numbers, texts, env_steps, time = [], [], UNKNOWN, math.nan
    for key, value in values:
        if type(value) is float or isinstance(value, bool | int):
            if key == STEPS:
                env_steps = int(value) if 0 <= value < 2**63 else UNKNOWN
            elif key == "_timestamp":
                time = value
            elif key[:1] != "_":
                numbers.append((key, value))
        elif isinstance(value, str) and key[:1] != "_" and value not in NOT_FINITE:
            texts.append((key, value))
    events += [{STEPS: env_steps, "kind": key, "event": text} for key, text in texts]
    if numbers:
        table.add(numbers, env_steps=env_steps, step=step, timestamp=time)


def _not_reverted(env_steps: np.ndarray) -> np.ndarray:
    """Return which rows have fewer env steps than all later ones, bool [N]; rows without env steps are kept."""
    known = env_steps != UNKNOWN
    keep = np.ones(len(env_steps), bool)
    counts = env_steps[known]
    if len(counts) > 1:
        later = np.minimum.accumulate(counts[::-1])[::-1]
        keep[known] = np.append(counts[:-1] < later[1:], True)
    return keep


def last_values(history: History) -> dict[str, float]:
    """Return the last value of each metric that has one."""
    return {key: float(column[~np.isnan(column)][-1]) for key, column in sorted(history.columns.items())}
