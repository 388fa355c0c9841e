"""Training histories of runs as curves, and the starts of curriculum phases and stages.

A curve has a point for every update with a value: null or missing values are skipped. Smoothing is the mean of the last
N updates that have a value, and its band their standard deviation. The mean of several runs is computed without
interpolation, at env steps where all of them have a value, so it does not jump when one of them ends early.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from sparring.agents.opponents.players import find_folder, runs_with
from sparring.agents.run.log_files import EVENTS, METRICS
from sparring.configs.core.errors import InputError, choices, suggestion
from sparring.configs.core.files import read_regular
from sparring.curriculum.student import student_95

STEPS = "env_steps"
PHASE, STAGE = "curriculum/phase", "curriculum/stage"
_BEGINNING = re.compile(r"phase (?P<phase>.+?), update \d+: ")
"""Pattern of the start of a phase in events.jsonl."""

Row = dict[str, Any]


class HistoryError(InputError):
    """Raised for unreadable or missing metrics; the message is one line with the run and the available metrics."""


@dataclass(frozen=True)
class Curve:
    """Curve of P points: env steps int64 [P], increasing, and finite values float64 [P]."""

    steps: np.ndarray
    values: np.ndarray
    half: np.ndarray | None = None
    """Half of the band's width at each point, float64 [P]; None without a band."""


@dataclass(frozen=True)
class PhaseMark:
    """Start of a phase, or of a stage within one; `phase` is the phase's name if known."""

    env_steps: int
    new_phase: bool
    phase: str = ""


@dataclass(frozen=True)
class RunHistory:
    """Rows of one run, one per update, in the order of env steps."""

    name: str
    folder: Path
    rows: Sequence[Row]

    @property
    def metrics(self) -> list[str]:
        """Metrics that have a value in at least one row."""
        return sorted({key for row in self.rows for key, value in row.items() if key != STEPS and _finite(value)})

    def curve(self, metric: str, *, smooth: int = 1) -> Curve:
        """Return the metric where it has a value, each the mean of the last `smooth` updates.

        Raises `HistoryError` without any.
        """
        values = np.array([row[metric] if _finite(row.get(metric)) else math.nan for row in self.rows], np.float64)
        finite = np.isfinite(values)
        if not finite.any():
            raise HistoryError(self._lacks(metric))
        windows = sliding_window_view(np.concatenate([np.full(smooth - 1, math.nan), values]), smooth)
        steps = np.array([row[STEPS] for row in self.rows], np.int64)
        spread = np.nanstd(windows[finite], axis=1) if smooth > 1 else None
        return Curve(steps[finite], np.nanmean(windows[finite], axis=1), spread)

    def marks(self) -> list[PhaseMark]:
        """Return the starts of phases and stages in the rows, with the names in events.jsonl."""
        names = {row[STEPS]: match["phase"] for row in self._events() if (match := _BEGINNING.match(row["event"]))}
        marks, before, begin = [], None, 0
        for row in self.rows:
            now = row.get(PHASE), row.get(STAGE)
            if None not in now and now != before:
                marks.append(PhaseMark(begin, before is None or now[0] != before[0], names.get(begin, "")))
                before = now
            begin = row[STEPS]  # an update begins where the previous one ended
        return marks

    def _events(self) -> list[Row]:
        path = self.folder / EVENTS
        return [row for row in _read_rows(path) if isinstance(row.get("event"), str)] if path.is_file() else []

    def _lacks(self, metric: str) -> str:
        """Return the error text: available metrics of the group (such as rollout/), else the groups; nearest match."""
        room = [name for name in self.metrics if _room(name) == _room(metric)]
        names = ", ".join(room or dict.fromkeys(_room(name) for name in self.metrics))
        meant = suggestion(metric, self.metrics, likeness=0.65)  # keys share endings, so the threshold is high
        return f"--metrics: {self.name} has no values of {metric!r}; available: {names}{meant}"


@dataclass(frozen=True)
class CurveGroup:
    """Group of R runs, such as the seeds of one configuration."""

    label: str
    runs: tuple[RunHistory, ...]

    def curves(self, metric: str, *, smooth: int = 1) -> list[Curve]:
        """Return the metric of every run. Raises `HistoryError` if a run lacks it."""
        return [run.curve(metric, smooth=smooth) for run in self.runs]


def mean(curves: Sequence[Curve]) -> Curve:
    """Return the mean of R curves at the env steps where all of them have a value; may be empty.

    The band is the mean's 95 % interval over the runs, Student's t; a single curve has its own interval.
    """
    if len(curves) == 1:
        return curves[0]
    steps = reduce(np.intersect1d, [curve.steps for curve in curves])
    values = [curve.values[np.isin(curve.steps, steps)] for curve in curves]
    error = np.std(values, axis=0, ddof=1) / math.sqrt(len(curves))
    return Curve(steps, np.mean(values, axis=0), student_95(len(curves) - 1) * error)


def read_history(text: str, *, by_update: bool = False) -> RunHistory:
    """Read the run given by its name or its folder. Raises `HistoryError`; `by_update` is as in `from_rows`."""
    folder = find_folder(text, holding=METRICS)
    if folder is None:
        raise HistoryError(_not_found(text))
    # Runs of the first version have events among the metrics.
    rows = [row for row in _read_rows(folder / METRICS) if "event" not in row]
    return from_rows(folder.name, folder, rows, by_update=by_update)


def from_rows(name: str, path: Path, rows: Sequence[Row], *, by_update: bool) -> RunHistory:
    """Return the history of rows; the last of several with equal env steps is kept.

    `by_update` replaces env steps by update numbers from 1, for runs whose updates differ in length or that record no
    env steps. Raises `HistoryError` without rows, or where env steps are needed and missing.
    """
    if not rows:
        file = path / METRICS
        raise HistoryError(f"{file if file.is_file() else path}: has no metrics yet; wait for the run's first update")
    missing = sum(STEPS not in row for row in rows)
    if missing and not by_update:
        raise HistoryError(f"{name}: {missing} of {len(rows)} rows have no env steps; use --by-update")
    last = {number if missing else row[STEPS]: row for number, row in enumerate(rows)}
    ordered = [last[steps] for steps in sorted(last)]
    if by_update:
        ordered = [row | {STEPS: number} for number, row in enumerate(ordered, start=1)]
    return RunHistory(name, path, ordered)


def _not_found(text: str) -> str:
    runs = runs_with(METRICS)
    hint = choices(text, runs) if runs else "train one first"
    return f"no run {text!r}: no {METRICS} there or in checkpoints/{text}; pass a folder or {hint}"


def _read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a run's file, except an incomplete last line that is still being written."""
    try:
        lines = read_regular(path).split(b"\n")
    except OSError as error:
        raise HistoryError(f"{path}: cannot be read ({error.strerror})") from error
    for number, line in enumerate(lines[:-1], start=1):
        yield _parse(line, f"{path}, line {number}")


def _parse(line: bytes, where: str) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise HistoryError(f"{where}: is not JSON ({error}); repair or remove that line") from error
    if not isinstance(row, dict) or type(row.get(STEPS)) is not int or not 0 <= row[STEPS] < 2**63:
        raise HistoryError(f"{where}: is not a row of a run, with a whole number {STEPS}; repair or remove that line")
    return row


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max  # False for NaN.


def _room(metric: str) -> str:
    return metric.partition("/")[0] + "/"
