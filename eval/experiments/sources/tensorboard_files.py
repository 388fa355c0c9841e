"""TensorBoard event files, with the protobuf classes of tensorboard and all points, not the first 10,000.

A folder that holds event files is one run. The step of an event counts as env steps, as everywhere in Sparring, and a
step is a row. As in TensorBoard a writer that starts hides earlier rows from its first step on. Values are float32,
since the files hold no more. An event file has no end mark: a run whose last record is cut off and whose file is not
open reads as killed, any other as completed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparring.configs.core.regular_file import read_regular
from sparring.eval.experiments.record import History, RunRecord, Status, not_found
from sparring.eval.experiments.sources.folder_files import in_run_folder
from sparring.eval.experiments.sources.open_files import open_files
from sparring.eval.experiments.sources.row_table import last_values
from sparring.eval.experiments.sources.scalar_events import ScalarEvents, decode
from sparring.eval.experiments.sources.tfrecord import find_records

MARK = "events.out.tfevents."
CUT_OFF = "is cut off"


class TensorBoardFiles:
    """Runs in the folders under `root` that hold event files; a run's name is its path from `root`.

    With `beside_folders` those in run folders are left out, since these have better logs.
    """

    name = "tensorboard"

    def __init__(self, root: Path, *, beside_folders: bool = False) -> None:
        self.root, self.beside_folders = root, beside_folders

    def runs(self) -> list[RunRecord]:
        """Return the runs, newest first."""
        held = open_files(MARK)
        return sorted((self._record(path, held) for path in self._folders()), key=lambda run: run.updated, reverse=True)

    def record(self, id: str) -> RunRecord:
        """Return one run."""
        return self._record(self._folder(id), open_files(MARK))

    def history(self, id: str, metrics: Sequence[str] | None = None) -> History:
        """Return all rows of a run."""
        return read_folder(self._folder(id), metrics)

    def artifacts(self, id: str) -> list[dict[str, Any]]:
        """Return the event files of a run."""
        return [
            {"name": path.name, "kind": "log", "bytes": path.stat().st_size, "sha256": None, "path": str(path)}
            for path in event_files(self._folder(id))
        ]

    def _folders(self) -> list[Path]:
        paths = self.root.rglob(f"{MARK}*") if self.root.is_dir() else ()
        chosen = (path for path in paths if not (self.beside_folders and in_run_folder(path, self.root)))
        return sorted({path.parent for path in chosen})

    def _name(self, folder: Path) -> str:
        return folder.name if folder == self.root else str(folder.relative_to(self.root))

    def _folder(self, id: str) -> Path:
        found = {self._name(path): path for path in self._folders()}
        if id not in found:
            raise not_found(id, found, f"the event files under {self.root}")
        return found[id]

    def _record(self, folder: Path, held: set[str]) -> RunRecord:
        history, files = read_folder(folder), event_files(folder)
        times = history.timestamp[~np.isnan(history.timestamp)]
        summary: dict[str, Any] = dict(last_values(history))
        if len(history.env_steps):
            summary |= {"env_steps": int(history.env_steps[-1]), "updates": int(history.step[-1])}
        running = any(str(path.resolve()) in held for path in files)
        return RunRecord(
            id=self._name(folder),
            source=self.name,
            path=str(folder),
            status="running" if running else _status(history),
            created=float(times.min()) if len(times) else min((path.stat().st_mtime for path in files), default=0.0),
            updated=max((path.stat().st_mtime for path in files), default=0.0),
            summary=summary,
            damage=() if running and all(CUT_OFF in line for line in history.damage) else history.damage,
        )


def read_folder(folder: Path, metrics: Sequence[str] | None = None) -> History:
    """Return the rows of all event files in a folder, in the order of their names, which begin with their time."""
    events, number = ScalarEvents(), 0
    for path in event_files(folder):
        try:
            data = np.frombuffer(read_regular(path), np.uint8)
        except OSError as error:
            events.damage.append(f"{path}: cannot be read ({error.strerror})")
            continue
        starts, lengths, damage = find_records(data)
        events.damage += [f"{path}: {line}" for line in damage]
        decode(data, starts, lengths, number, events)
        number += len(starts)
    return _history(events, metrics)


def event_files(folder: Path) -> list[Path]:
    """Return the event files directly in a folder, oldest first."""
    return sorted(path for path in folder.glob(f"{MARK}*") if path.is_file())


def times_by_step(folder: Path) -> dict[int, float]:
    """Return the unix seconds of each step in a folder's event files, empty without any."""
    history = read_folder(folder)
    return dict(zip(history.env_steps.tolist(), history.timestamp.tolist(), strict=True))


def _history(events: ScalarEvents, metrics: Sequence[str] | None) -> History:
    if not events.order:
        none = np.zeros(0, np.int64)
        return History(none, np.zeros(0), none, {}, events.texts, tuple(events.damage))
    order, tag, step, wall, value = (
        np.concatenate(part) for part in (events.order, events.tag, events.step, events.wall, events.value)
    )
    shown = _not_hidden(order, step, events.starts)
    sequence = np.argsort(order[shown], kind="stable")
    tag, step, wall, value = (part[shown][sequence] for part in (tag, step, wall, value))
    steps, row = np.unique(step, return_inverse=True)
    times = np.full(len(steps), math.nan)
    times[row] = wall
    columns = {}
    by_tag = np.argsort(tag, kind="stable")
    bounds = np.searchsorted(tag[by_tag], np.arange(len(events.names) + 1))
    for name, number in sorted(events.names.items()):
        members = by_tag[bounds[number] : bounds[number + 1]]
        if (metrics is None or name in metrics) and np.isfinite(value[members]).any():
            column = np.full(len(steps), math.nan)
            column[row[members]] = np.where(np.isfinite(value[members]), value[members], math.nan)
            columns[name] = column
    numbers = np.arange(1, len(steps) + 1, dtype=np.int64)
    return History(numbers, times, steps.astype(np.int64), columns, events.texts, tuple(events.damage))


def _not_hidden(order: np.ndarray, step: np.ndarray, starts: list[tuple[int, int]]) -> np.ndarray:
    """Return which values no later writer hides, bool [V]."""
    shown = np.ones(len(order), bool)
    for number, first in starts:
        shown &= (order > number) | (step < first)
    return shown


def _status(history: History) -> Status:
    if any(CUT_OFF in line for line in history.damage):
        return "killed"
    return "completed" if len(history.step) else "empty"
