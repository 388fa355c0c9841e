"""What a run measured: the rows of its metrics.jsonl, and a sweep's measures of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparring.agents.run.log_files import METRICS
from sparring.configs.core.errors import InputError
from sparring.configs.core.regular_file import read_regular
from sparring.configs.sweeps.criteria import Measure

Row = Mapping[str, Any]
LONGEST = 308
"""Most characters of a whole number, so that it fits a float."""


def read_rows(folder: Path) -> list[Row]:
    """Return the rows of a run's metrics, one per update; none without the file, and a line cut short is left out.

    Raises `InputError` naming the file and line of text that is no UTF-8, and of a number that no float holds.
    """
    path = folder / METRICS
    lines = read_regular(path).splitlines() if path.is_file() else []
    return [row for number, line in enumerate(lines, start=1) if (row := _row(line, f"{path}:{number}"))]


def values(rows: Sequence[Row], metric: str) -> np.ndarray:
    """Return the finite values float64 [N] of a metric, a mean over the names where it has a `*`."""
    pattern = re.compile(re.escape(metric).replace(r"\*", "[^/]+"))
    names = {name for row in rows for name in row if pattern.fullmatch(name)}
    found = ([float(row[name]) for name in names if is_finite(row.get(name))] for row in rows)
    return np.array([math.fsum(some) / len(some) for some in found if some], np.float64)


def measured(rows: Sequence[Row], measure: Measure) -> float:
    """Return a measure of a run's rows; NaN where its metric has no value."""
    return measure.of(values(rows, measure.metric))


def is_finite(value: Any) -> bool:
    """Return whether a value of a row is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _row(line: bytes, place: str) -> Row | None:
    try:
        row = json.loads(line.decode(), parse_int=_whole)
    except UnicodeDecodeError as error:
        raise InputError(f"{place}: is no text in UTF-8; remove the line") from error
    except InputError as error:
        raise InputError(f"{place}: {error}; remove the line") from error
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _whole(text: str) -> int:
    if len(text) > LONGEST:
        raise InputError(f"has a number of {len(text.lstrip('-'))} digits, and at most {LONGEST} are read")
    return int(text)
