"""What a run measured: the rows of its metrics.jsonl, and a sweep's measures of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparring.agents.run.logger import METRICS
from sparring.configs.core.regular_file import read_regular_text
from sparring.configs.sweeps.criteria import Measure

Row = Mapping[str, Any]


def read_rows(folder: Path) -> list[Row]:
    """Return the rows of a run's metrics, one per update; none without the file, and a line cut short is left out."""
    path = folder / METRICS
    return [row for line in read_regular_text(path).splitlines() if (row := _row(line))] if path.is_file() else []


def values(rows: Sequence[Row], metric: str) -> np.ndarray:
    """Return the finite values float64 [N] of a metric, a mean over the names where it has a `*`."""
    pattern = re.compile(re.escape(metric).replace(r"\*", "[^/]+"))
    names = {name for row in rows for name in row if pattern.fullmatch(name)}
    found = ([float(row[name]) for name in names if _finite(row.get(name))] for row in rows)
    return np.array([math.fsum(some) / len(some) for some in found if some], np.float64)


def measured(rows: Sequence[Row], measure: Measure) -> float:
    """Return a measure of a run's rows; NaN where its metric has no value."""
    return measure.of(values(rows, measure.metric))


def _row(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
