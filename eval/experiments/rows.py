"""Histories as rows and as statistics of series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparring.eval.experiments.record import X_AXES, History

STATISTICS = ("count", "first", "last", "min", "max", "mean", "std", "slope")


def history_rows(history: History) -> list[dict[str, Any]]:
    """Return the rows as objects, with `_step`, `_timestamp`, `env_steps`, and the metrics that have a value."""
    lists = {key: column.tolist() for key, column in sorted(history.columns.items())}
    steps, times = history.step.tolist(), history.timestamp.tolist()
    env_steps = history.env_steps.tolist()
    rows = []
    for i in range(len(steps)):
        row: dict[str, Any] = {"_step": steps[i]}
        row |= {"_timestamp": times[i]} if times[i] == times[i] else {}
        row |= {"env_steps": env_steps[i]} if env_steps[i] >= 0 else {}
        rows.append(row | {key: values[i] for key, values in lists.items() if values[i] == values[i]})
    return rows


def wide_rows(history: History, metrics: Sequence[str], x_axis: str) -> list[list[Any]]:
    """Return a row [x, value of each metric] for each row of the history in which one of them has a value."""
    x = dict(zip(X_AXES, (history.step, history.timestamp, history.env_steps), strict=True))[x_axis].tolist()
    columns = [history.columns[metric].tolist() for metric in metrics]
    rows = [[x[i], *(column[i] for column in columns)] for i in range(len(x))]
    return [row for row in rows if any(value == value for value in row[1:])]


def statistics(x: np.ndarray, y: np.ndarray) -> dict[str, float | int]:
    """Return figures of a series of P >= 1 values; std of a sample, least-squares slope per unit of x."""
    spread = float(y.std(ddof=1)) if len(y) > 1 else 0.0
    centred = x - x.mean()
    scale = float(centred @ centred)
    slope = float(centred @ (y - y.mean())) / scale if scale > 0 else 0.0
    ends = {"count": len(y), "first": float(y[0]), "last": float(y[-1])}
    return ends | {"min": float(y.min()), "max": float(y.max()), "mean": float(y.mean()), "std": spread, "slope": slope}
