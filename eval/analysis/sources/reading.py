"""Shared by the sources: collecting rows into columns, and locating files and run folders.

Loggers write one step in several calls, and a run that was rolled back or resumed repeats steps: metrics.jsonl is
truncated then, but a W&B file keeps the reverted rows. Both read the same here. A row is one step. If one of its
metrics is logged again later, at the same step or an earlier one, the row is dropped with a note. The step is env
steps. Rows without them use the step of `step_axis.py` between parts of a resumed run, else the logger's step.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sparring.agents.run.log_files import METRICS
from sparring.configs.core.files import holds
from sparring.eval.analysis.record import History, unusable_data
from sparring.eval.analysis.sources import step_axis

CONFIG = "config.yaml"
MOST_LOG = 1 << 30
"""Most bytes read from one log, of any source."""


def is_run_folder(path: Path) -> bool:
    """Return True for a folder with a configuration or metrics."""
    return holds(path.is_dir) and ((path / CONFIG).is_file() or (path / METRICS).is_file())


def in_run_folder(path: Path, root: Path) -> bool:
    """Return True for a path that lies in a run folder under `root`."""
    parents = path.relative_to(root).parents
    return any(is_run_folder(root / parent) for parent in parents if parent != Path())


def log_entries(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return log files as entries of a list of artifacts."""
    return [
        {"name": path.name, "kind": "log", "bytes": path.stat().st_size, "sha256": None, "path": str(path)}
        for path in paths
    ]


def open_files(suffix_or_part: str) -> set[str]:
    """Return paths that contain `suffix_or_part` of files that other processes have open.

    Empty without /proc; only processes of the same user are visible.
    """
    paths = set()
    for descriptors in Path("/proc").glob("[0-9]*/fd"):
        if descriptors.parent.name == str(os.getpid()):
            continue
        with suppress(OSError):
            for entry in os.scandir(descriptors):
                with suppress(OSError):
                    target = os.readlink(entry.path)
                    if suffix_or_part in target:
                        paths.add(target)
    return paths


STEPS = "env_steps"
UNKNOWN = -1
NOT_FINITE = ("NaN", "Infinity", "-Infinity")
"""How the W&B cloud writes non-finite numbers."""


class RowTable:
    """Rows of numbers, appended one by one."""

    def __init__(self) -> None:
        self._steps: list[int] = []
        self._times: list[float] = []
        self._env_steps: list[int] = []
        self._cells: dict[str, tuple[list[int], list[float]]] = {}
        self._starts: list[int] = []
        self._too_large, self._replaced = 0, 0

    def begin_part(self) -> None:
        """Begin a part of the run, such as a file of a process that resumed it."""
        self._starts.append(len(self))

    def add(self, values: Iterable[tuple[str, float]], *, env_steps: int, step: int, timestamp: float = np.nan) -> None:
        """Append a row, or add to the last one if its env steps are equal; existing metrics are replaced.

        `env_steps` is -1 and `timestamp` NaN where unknown.
        """
        cells = self._cells
        if env_steps == UNKNOWN or not self._env_steps or self._env_steps[-1] != env_steps:
            self._steps.append(step)
            self._times.append(timestamp)
            self._env_steps.append(env_steps)
        row = len(self._steps) - 1
        self._times[row] = timestamp
        for key, value in values:
            rows, numbers = cells.setdefault(key, ([], []))
            if rows and rows[-1] == row:
                rows.pop()
                numbers.pop()
                self._replaced += 1
            rows.append(row)
            numbers.append(self._float(value))

    def __len__(self) -> int:
        return len(self._steps)

    def history(
        self, events: list[dict[str, Any]], damage: Sequence[str], declared: Sequence[tuple[str, str]] = ()
    ) -> History:
        """Return the rows that count, as columns; `declared` has a pattern of metrics and their step metric each."""
        env_steps, steps = np.array(self._env_steps, np.int64), np.array(self._steps, np.int64)
        counted = env_steps != UNKNOWN
        repeated, notes = self._reverted(np.where(counted, env_steps, steps), counted, declared)
        # Late rows, such as an evaluation of an earlier step, belong to the row of that step.
        order = np.flatnonzero(~repeated)
        reached = np.maximum.accumulate(np.where(counted, env_steps, UNKNOWN)[order]) if len(order) else order
        late = np.where(counted[order], env_steps[order], reached)
        order = order[np.argsort(late, kind="stable")]
        first = np.ones(len(order), bool)
        first[1:] = ~counted[order[1:]] | (env_steps[order[1:]] != env_steps[order[:-1]])
        target = np.full(len(repeated), -1)
        target[order] = np.cumsum(first) - 1
        chosen = order[first]
        numbered = bool(counted.any()) or not len(counted)
        columns = {
            key: column for key in self._cells if not np.isnan(column := self._column(key, target, len(chosen))).all()
        }
        if self._too_large:
            damage = (*damage, f"{self._too_large} numbers are too large for float64; skipped")
        if self._replaced:
            notes.append(f"{self._replaced} values are replaced by later ones of the same metric and step")
        return History(
            step=np.arange(1, len(chosen) + 1) if numbered else rising(steps[chosen]),
            timestamp=np.array(self._times, np.float64)[chosen],
            env_steps=env_steps[chosen],
            columns=columns,
            events=events,
            damage=tuple(damage),
            notes=tuple(notes),
        )

    def _reverted(
        self, axis: np.ndarray, counted: np.ndarray, declared: Sequence[tuple[str, str]]
    ) -> tuple[np.ndarray, list[str]]:
        """Return the rows, bool [N], with a metric that is logged again later at the same step or an earlier one.

        Rows whose env steps are `counted` are compared by these, in `axis`. Other rows are compared within their part
        by the logger's step, also in `axis`, and with later parts by the run's step metric. Also return the notes.
        """
        cells = {key: (np.array(rows), np.array(values)) for key, (rows, values) in self._cells.items()}
        parts = self._parts(axis, counted)
        repeated = np.zeros(len(axis), bool)
        for rows, _ in cells.values():
            rest = rows[~counted[rows]]
            for members in (rows[counted[rows]], *np.split(rest, np.flatnonzero(np.diff(parts[rest])) + 1)):
                if len(members) > 1:
                    later = np.minimum.accumulate(axis[members][::-1])[::-1]
                    repeated[members[:-1]] |= axis[members][:-1] >= later[1:]
        name, notes = "", list[str]()
        if len(parts) and parts[-1] > 0 and not counted.all():
            in_later_part, name, notes = step_axis.repeated(
                cells, parts, np.where(counted, axis, UNKNOWN), axis, declared
            )
            repeated |= in_later_part & ~counted
        if repeated.any():
            by = f" by {name}" if name else ""
            notes.append(
                f"{repeated.sum()} of {len(self)} rows are skipped: their metrics are logged again later at the same "
                f"step or an earlier one{by}, as after a rollback or a resume; a counter that restarts needs "
                "another name than the step"
            )
        return repeated, notes

    def _parts(self, axis: np.ndarray, counted: np.ndarray) -> np.ndarray:
        """Return the part of each row, int [N]; without a start, one begins where a step without env steps falls."""
        starts, rest = np.zeros(len(axis) + 1, bool), np.flatnonzero(~counted)
        starts[self._starts or rest[1:][np.diff(axis[rest]) < 0]] = True
        return np.cumsum(starts[:-1]) - starts[:1]

    def _column(self, key: str, target: np.ndarray, size: int) -> np.ndarray:
        rows, values = (np.array(part) for part in self._cells[key])
        counts = (target[rows] >= 0) & np.isfinite(values)
        column = np.full(size, np.nan)
        column[target[rows[counts]]] = values[counts]
        return column

    def _float(self, value: float) -> float:
        try:
            return float(value)
        except OverflowError:
            self._too_large += 1
            return math.nan


def rising(steps: np.ndarray) -> np.ndarray:
    """Return steps [N] in which the steps after each fall are shifted to continue from the last before it."""
    falls = np.flatnonzero(np.diff(steps) < 0) + 1
    moved = steps.copy()
    for fall in falls:
        moved[fall:] += moved[fall - 1] + 1 - moved[fall]
    return moved


def add_logged(table: RowTable, events: list[dict[str, Any]], values: Iterable[tuple[str, Any]], *, step: int) -> None:
    """Add one W&B `run.log` call: numbers as a row, text values as events; W&B's own keys begin with _."""
    numbers, texts, env_steps, time = [], [], UNKNOWN, math.nan
    for key, value in values:
        if type(value) is float or isinstance(value, bool | int):
            if key == STEPS:
                env_steps = int(value) if 0 <= value < 2**63 else UNKNOWN
            elif key == "_timestamp":
                time = value if abs(value) < 2**63 else math.nan
            elif key[:1] != "_":
                numbers.append((key, value))
        elif isinstance(value, str) and key[:1] != "_" and value not in NOT_FINITE:
            texts.append((key, value))
    events += [{STEPS: env_steps, "kind": key, "event": text} for key, text in texts]
    if numbers:
        table.add(numbers, env_steps=env_steps, step=min(max(step, 0), 2**63 - 1), timestamp=time)


def parse_json(text: Any) -> Any:
    """Return untrusted JSON as plain data; None if it cannot be read or shown."""
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return None if unusable_data(value) else value


def summary_of(history: History) -> dict[str, Any]:
    """Return the last value of each metric, the number of updates, and the env steps where known."""
    summary: dict[str, Any] = {
        key: float(column[~np.isnan(column)][-1]) for key, column in sorted(history.columns.items())
    }
    if len(history.env_steps):
        summary["updates"] = len(np.unique(history.step))
        summary |= {STEPS: int(history.env_steps[-1])} if history.env_steps[-1] >= 0 else {}
    return summary
