"""TensorBoard event files, with the protobuf classes of tensorboard and all points, not the first 10,000.

A folder that holds event files is one run. The step of an event counts as env steps, as everywhere in Sparring. A step
is a row; a metric with several values at one step has as many rows of that step. As in TensorBoard a writer that starts
hides earlier values from its first step on, and so does a file that repeats steps of a metric without saying so. Values
are float32, since the files hold no more. An event file has no end mark: a run whose last record is cut off and whose
file is not open reads as killed, any other as completed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparring.configs.core.regular_file import read_regular
from sparring.eval.analysis.record import History, RunRecord, Status, not_found, record_or_damage
from sparring.eval.analysis.sources.folder_files import MOST_LOG, in_run_folder, open_files
from sparring.eval.analysis.sources.row_table import last_values
from sparring.eval.analysis.sources.scalar_events import ScalarEvents, decode
from sparring.eval.analysis.sources.tfrecord import find_records

MARK = "events.out.tfevents."
CUT_OFF = "is cut off"
LATEST = 2.0**53
"""Seconds beyond which a wall time is none."""


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
        found = [
            record_or_damage(
                RunRecord(self._name(path), self.name, str(path), "empty", 0.0, 0.0), self._record, path, held
            )
            for path in self._folders()
        ]
        return sorted(found, key=lambda run: run.updated, reverse=True)

    def names(self) -> list[str]:
        """Return the names of the folders."""
        return [self._name(path) for path in self._folders()]

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
            notes=history.notes,
        )


def read_folder(folder: Path, metrics: Sequence[str] | None = None) -> History:
    """Return the rows of all event files in a folder, in the order of their names, which begin with their time."""
    events, number = ScalarEvents(), 0
    for path in event_files(folder):
        try:
            data = np.frombuffer(read_regular(path, most=MOST_LOG), np.uint8)
        except OSError as error:
            events.damage.append(f"{path}: cannot be read ({error.strerror})")
            continue
        starts, lengths, damage = find_records(data)
        events.damage += [f"{path}: {line}" for line in damage]
        events.files.append((number, path.name))
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
    shown, notes = _shown(order, tag, step, events)
    sequence = np.flatnonzero(shown)[np.argsort(order[shown], kind="stable")]
    tag, step, wall, value = (part[sequence] for part in (tag, step, wall, value))
    notes += _falling(tag, step, np.searchsorted([first for first, _ in events.files], order[sequence], side="right"))
    steps, number = np.unique(step, return_inverse=True)
    keys, row = np.unique(number * len(step) + _repetition(tag, step), return_inverse=True)
    number = keys // len(step)
    times = np.full(len(keys), math.nan)
    times[row] = np.where(np.abs(wall) < LATEST, wall, math.nan)
    columns = {}
    by_tag = np.argsort(tag, kind="stable")
    bounds = np.searchsorted(tag[by_tag], np.arange(len(events.names) + 1))
    for name, k in sorted(events.names.items()):
        members = by_tag[bounds[k] : bounds[k + 1]]
        if (metrics is None or name in metrics) and np.isfinite(value[members]).any():
            column = np.full(len(keys), math.nan)
            column[row[members]] = np.where(np.isfinite(value[members]), value[members], math.nan)
            columns[name] = column
    return History(
        step=number + 1,
        timestamp=times,
        env_steps=steps[number].astype(np.int64),
        columns=columns,
        events=events.texts,
        damage=tuple(events.damage),
        notes=tuple(notes),
    )


def _shown(order: np.ndarray, tag: np.ndarray, step: np.ndarray, events: ScalarEvents) -> tuple[np.ndarray, list[str]]:
    """Return which values no later writer hides, bool [V], and a line for each that hides some.

    A later file with a metric of earlier ones at a step that these had reached hides them from its first such step on.
    """
    shown, notes = np.ones(len(order), bool), []
    files = dict(events.files)
    ends = [*list(files)[1:], math.inf]
    silent = [
        (begin, None)
        for begin, end in zip(files, ends, strict=True)
        if not any(begin <= n < end for n, _ in events.starts)
    ]
    for begin, first in sorted([*events.starts, *silent], key=lambda start: start[0]):
        earlier = shown & (order < begin)
        if first is None:
            own = (order >= begin) & (order < min(end for end in ends if end > begin))
            shared = own & np.isin(tag, tag[earlier])
            if not shared.any():
                continue
            first = int(step[shared].min())
            if not (earlier & np.isin(tag, tag[shared]) & (step >= first)).any():
                continue
        hidden = earlier & (step >= first)
        shown &= ~hidden
        if hidden.any():
            name = files[max(number for number in files if number <= begin)]
            notes.append(
                f"{name} begins again at step {first}: earlier values at {len(np.unique(step[hidden]))} steps from "
                "there on are left out, as of an abandoned attempt; another run needs a folder of its own"
            )
    return shown, notes


def _falling(tag: np.ndarray, step: np.ndarray, file: np.ndarray) -> list[str]:
    """Return a line if the step of a metric falls within a file, for values in the order of the files."""
    by_tag = np.lexsort((file, tag))
    same = (np.diff(tag[by_tag]) == 0) & (np.diff(file[by_tag]) == 0)
    falls = int((same & (np.diff(step[by_tag]) < 0)).sum())
    if not falls:
        return []
    return [
        f"the step falls {falls} times, as of a counter that restarts; all values are kept, in order of their steps"
    ]


def _repetition(tag: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return of each value [V] how many of the same metric and step come before it."""
    order = np.lexsort((step, tag))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(tag[order]) != 0) | (np.diff(step[order]) != 0)
    place = np.arange(len(order))
    repetition = np.empty(len(order), np.int64)
    repetition[order] = place - np.maximum.accumulate(np.where(new, place, 0))
    return repetition


def _status(history: History) -> Status:
    if any(CUT_OFF in line for line in history.damage):
        return "killed"
    return "completed" if len(history.step) else "empty"
