"""What runs wrote while they learned, read back: metrics.jsonl as curves, and where the curriculum went on.

A curve has a point for every update that has a value: what is null or left out is skipped, never made up. Smoothing is
the mean of the last N updates, of those that have a value. The mean of several runs is taken where all of them have
one, at the same env steps and without interpolation, so that it cannot jump because one of them ended early.
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

from sparring.agents.run.logger import EVENTS, METRICS
from sparring.configs.core.errors import InputError, suggestion
from sparring.eval.players import find_folder, runs_with

STEPS = "env_steps"
MILLION = 1e6
"""Env steps are shown in millions."""
PHASE, STAGE = "curriculum/phase", "curriculum/stage"
_BEGINNING = re.compile(r"phase (?P<phase>.+?), update \d+: ")
"""How a training run says in events.jsonl that a phase has started."""

Row = dict[str, Any]


class HistoryError(InputError):
    """A run whose metrics cannot be read or lack something; the message is one line naming it and what is there."""


@dataclass(frozen=True)
class Curve:
    """P points: env steps int64 [P], increasing, and finite values float64 [P]."""

    steps: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class PhaseMark:
    """Where a phase begins, or a stage within one; `phase` is the phase's name where that is known."""

    env_steps: int
    new_phase: bool
    phase: str = ""


@dataclass(frozen=True)
class RunHistory:
    """One run's rows, one per update, in the order of their env steps."""

    name: str
    folder: Path
    rows: Sequence[Row]

    @property
    def metrics(self) -> list[str]:
        """Every metric that has a value in some row."""
        return sorted({key for row in self.rows for key, value in row.items() if key != STEPS and _finite(value)})

    def curve(self, metric: str, *, smooth: int = 1) -> Curve:
        """The metric where it has a value, each the mean of the last `smooth` updates.

        Raises `HistoryError` where it never has one.
        """
        values = np.array([row[metric] if _finite(row.get(metric)) else math.nan for row in self.rows], np.float64)
        known = np.isfinite(values)
        if not known.any():
            raise HistoryError(self._lacks(metric))
        windows = sliding_window_view(np.concatenate([np.full(smooth - 1, math.nan), values]), smooth)
        steps = np.array([row[STEPS] for row in self.rows], np.int64)
        return Curve(steps[known], np.nanmean(windows[known], axis=1))

    def marks(self) -> list[PhaseMark]:
        """Where phases and stages begin, as the rows say; their names are those in events.jsonl."""
        names = {row[STEPS]: found["phase"] for row in self._events() if (found := _BEGINNING.match(row["event"]))}
        marks, before, begin = [], None, 0
        for row in self.rows:
            now = row.get(PHASE), row.get(STAGE)
            if None not in now and now != before:
                marks.append(PhaseMark(begin, before is None or now[0] != before[0], names.get(begin, "")))
                before = now
            begin = row[STEPS]  # An update begins where the one before it ended.
        return marks

    def _events(self) -> list[Row]:
        path = self.folder / EVENTS
        return [row for row in _read_rows(path) if isinstance(row.get("event"), str)] if path.is_file() else []

    def _lacks(self, metric: str) -> str:
        """What the run has of the metric's room, as rollout/ is one, or else its rooms, and the nearest metric."""
        room = [name for name in self.metrics if _room(name) == _room(metric)]
        known = ", ".join(room or dict.fromkeys(_room(name) for name in self.metrics))
        meant = suggestion(metric, self.metrics, likeness=0.65)  # Keys of the same end are too alike for less.
        return f"--metrics: {self.name} has no value of {metric!r}, but of {known}{meant}"


@dataclass(frozen=True)
class CurveGroup:
    """R runs that belong together, as the seeds of one configuration do."""

    label: str
    runs: tuple[RunHistory, ...]

    def curves(self, metric: str, *, smooth: int = 1) -> list[Curve]:
        """The metric of every run; raises `HistoryError` where one lacks it."""
        return [run.curve(metric, smooth=smooth) for run in self.runs]


def mean(curves: Sequence[Curve]) -> Curve:
    """The mean of R curves at the env steps where all of them have a value, which may be none."""
    steps = reduce(np.intersect1d, [curve.steps for curve in curves])
    values = [curve.values[np.isin(curve.steps, steps)] for curve in curves]
    return Curve(steps, np.mean(values, axis=0))


def read_history(text: str, *, by_update: bool = False) -> RunHistory:
    """Read the run given by its name or its folder; raises `HistoryError`.

    `by_update` counts updates from 1 where env steps stand else, for runs whose updates are of unequal length.
    """
    folder = find_folder(text, holding=METRICS)
    if folder is None:
        raise HistoryError(_not_found(text))
    # Rows of one moment: the later stands. Runs of the first version have their events among the metrics.
    rows = {row[STEPS]: row for row in _read_rows(folder / METRICS) if "event" not in row}
    if not rows:
        raise HistoryError(f"{folder / METRICS}: holds no metrics yet; wait for the run's first update")
    ordered = [rows[steps] for steps in sorted(rows)]
    if by_update:
        ordered = [row | {STEPS: number} for number, row in enumerate(ordered, start=1)]
    return RunHistory(folder.name, folder, ordered)


def _not_found(text: str) -> str:
    runs = runs_with(METRICS)
    choices = f"choose from {', '.join(runs)}{suggestion(text, runs)}" if runs else "train one first"
    return f"no run {text!r}: no {METRICS} there or in checkpoints/{text}; give a folder or {choices}"


def _read_rows(path: Path) -> Iterator[Row]:
    """Every row of a run's file but a last line without its end, which the run is still writing."""
    try:
        lines = path.read_bytes().split(b"\n")
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
        raise HistoryError(f"{where}: is no row of a run, which has a whole number {STEPS}; repair or remove that line")
    return row


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max  # which no NaN is


def _room(metric: str) -> str:
    return metric.partition("/")[0] + "/"
