"""TensorBoard event files, with the checksum and protobuf classes of tensorboard; all points, not the first 10,000.

A folder with event files is one run. The step of an event counts as env steps, as everywhere in Sparring. A step is a
row; a metric with several values at one step has one row for each. As in TensorBoard, a new writer hides earlier values
from its first step on; a file that repeats a metric's steps without a start event does the same. Values are stored as
float32. An event file has no end mark: a run reads as killed if its last record is truncated and its file is not open,
otherwise as completed.

A file is a sequence of TFRecords: length (8 bytes), masked CRC-32C of the length (4), data, masked CRC-32C of the data
(4), little-endian. After a bad length, the rest is unreachable; bad data affects only that record. The records are
parsed here, since tensorboard's own loader stops silently at the first fault.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from sparring.configs.core.errors import MissingPackageError, require_package
from sparring.configs.core.files import holds, read_regular
from sparring.eval.analysis.output import warn
from sparring.eval.analysis.record import History, RunRecord, Status, newest_first, not_found
from sparring.eval.analysis.sources.reading import MOST_LOG, in_run_folder, log_entries, open_files, summary_of
from sparring.eval.analysis.sources.step_axis import step_metric

MARK = "events.out.tfevents."
CUT_OFF = "is truncated"
LATEST = 2.0**53
"""Seconds beyond which a wall time is invalid."""
LENGTH, FOOTER = struct.Struct("<QI"), 4
"""Length of a record and its checksum before the data, and bytes of the checksum after it."""
LONGEST = 1 << 26
"""Most bytes of one record that are read."""
TEXT_SUFFIX = "/text_summary"


class ScalarEvents:
    """Scalars of V values in the order of the files: number of the record, tag, step, wall time in seconds, value."""

    def __init__(self) -> None:
        self.records = 0
        self.order, self.tag, self.step = array("q"), array("q"), array("q")
        self.wall, self.value = array("d"), array("d")
        self.names: dict[str, int] = {}
        """Tag to its number in `tag`."""
        self.files: list[tuple[int, str]] = []
        """First record and name of each file."""
        self.starts: list[tuple[int, int]] = []
        """Records at which a writer began, and the step from which it hides earlier records."""
        self.texts: list[dict[str, Any]] = []
        self.damage: list[str] = []

    def read(self, path: Path) -> None:
        """Add the events of a file. Raises `MissingPackageError` without tensorboard."""
        require_package("tensorboard", "analysis")
        from google.protobuf.message import DecodeError
        from tensorboard.compat.proto.event_pb2 import Event

        try:
            data = read_regular(path, most=MOST_LOG)
        except OSError as error:
            self.damage.append(f"{path}: cannot be read ({error.strerror})")
            return
        self.files.append((self.records, path.name))
        damage, strange = list[str](), list[str]()
        for record in _records(data, damage):
            try:
                self._add(Event.FromString(record))
            except DecodeError:
                strange.append(f"record {self.records} is not an event; skipped")
            self.records += 1
        self.damage += [*(f"{path}: {line}" for line in damage), *strange]

    def _add(self, event: Any) -> None:
        """Add whatever an event holds: scalars, old or as tensors, texts, or the start of a writer."""
        what = event.WhichOneof("what")
        if what == "session_log" and event.session_log.status == event.session_log.START:
            self.starts.append((self.records, event.step))
        for value in event.summary.value if what == "summary" else ():
            scalar = _scalar(value)
            if scalar is not None:
                self.order.append(self.records)
                self.tag.append(self.names.setdefault(value.tag, len(self.names)))
                self.step.append(event.step)
                self.wall.append(event.wall_time)
                self.value.append(scalar)
            elif value.HasField("tensor") and value.tensor.string_val:
                text = b"\n".join(value.tensor.string_val).decode(errors="replace")
                kind = value.tag.removesuffix(TEXT_SUFFIX)
                self.texts.append({"env_steps": int(event.step), "kind": kind, "event": text})


def _records(data: bytes, damage: list[str]) -> Iterator[bytes]:
    """Yield the data of all whole records; `damage` gets a line for each kind of fault, without the file's name."""
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    at, end, too_long, wrong = 0, "", 0, list[int]()
    right_heads = set[bytes]()  # the checksum is slow, and lengths repeat
    while at + LENGTH.size + FOOTER <= len(data):
        head, start = data[at : at + LENGTH.size], at + LENGTH.size
        length, checksum = LENGTH.unpack(head)
        if length > len(data) - start - FOOTER:
            break
        if head not in right_heads and masked_crc32c(head[:8]) != checksum:
            end = f"byte {at}: wrong checksum of a record's length; the rest of the file is skipped"
            break
        right_heads.add(head)
        at = start + length + FOOTER
        record = data[start : start + length]
        if length > LONGEST:
            too_long += 1
        elif masked_crc32c(record) != int.from_bytes(data[start + length : at], "little"):
            wrong.append(start)
        else:
            yield record
    if not end and at < len(data):
        end = f"byte {at}: the last record {CUT_OFF}; skipped"
    damage += [end] if end else []
    if too_long:
        damage.append(f"{too_long} records have more than {LONGEST} bytes; skipped")
    if wrong:
        damage.append(f"{len(wrong)} records have a wrong checksum, the first at byte {wrong[0]}; skipped")


class TensorBoardFiles:
    """Runs in the folders under `root` that hold event files; a run's name is its path from `root`.

    With `beside_folders`, files in run folders are skipped, since the folders have better logs.
    """

    name = "tensorboard"

    def __init__(self, root: Path, *, beside_folders: bool = False) -> None:
        self.root, self.beside_folders = root, beside_folders

    def runs(self) -> list[RunRecord]:
        """Return the runs, newest first."""
        open_paths = open_files(MARK)
        runs = ((self._name(path), str(path), partial(self._record, path, open_paths)) for path in self._folders())
        return newest_first(self.name, runs)

    def names(self) -> list[str]:
        """Return the names of the folders."""
        return [self._name(path) for path in self._folders()]

    def record(self, id: str) -> RunRecord:
        """Return one run."""
        return self._record(self._folder(id), open_files(MARK))

    def history(self, id: str) -> History:
        """Return all rows of a run."""
        return read_folder(self._folder(id))

    def artifacts(self, id: str) -> list[dict[str, Any]]:
        """Return the event files of a run."""
        return log_entries(event_files(self._folder(id)))

    def _folders(self) -> list[Path]:
        paths = self.root.rglob(f"{MARK}*") if self.root.is_dir() else ()
        chosen = (path for path in paths if not (self.beside_folders and in_run_folder(path, self.root)))
        return sorted({path.parent for path in chosen})

    def _name(self, folder: Path) -> str:
        return folder.name if folder == self.root else str(folder.relative_to(self.root))

    def _folder(self, id: str) -> Path:
        folders = {self._name(path): path for path in self._folders()}
        if id not in folders:
            raise not_found(id, folders, f"the event files under {self.root}")
        return folders[id]

    def _record(self, folder: Path, open_paths: set[str]) -> RunRecord:
        history, files = read_folder(folder), event_files(folder)
        times = history.timestamp[~np.isnan(history.timestamp)]
        running = any(str(path.resolve()) in open_paths for path in files)
        return RunRecord(
            id=self._name(folder),
            source=self.name,
            path=str(folder),
            status="running" if running else _status(history),
            created=float(times.min()) if len(times) else min((path.stat().st_mtime for path in files), default=0.0),
            updated=max((path.stat().st_mtime for path in files), default=0.0),
            summary=summary_of(history),
            damage=() if running and all(CUT_OFF in line for line in history.damage) else history.damage,
            notes=history.notes,
        )


def read_folder(folder: Path) -> History:
    """Return the rows of all event files in a folder, in the order of their names, which begin with their time."""
    events = ScalarEvents()
    for path in event_files(folder):
        events.read(path)
    return _history(events)


def event_files(folder: Path) -> list[Path]:
    """Return the event files directly in a folder, oldest first."""
    return sorted(path for path in folder.glob(f"{MARK}*") if path.is_file())


def times_by_step(folder: Path) -> dict[int, float]:
    """Return the unix seconds of each step in a folder's event files, empty without any.

    Without tensorboard they are unknown, with one warning.
    """
    if not event_files(folder) or not _reads_events():
        return {}
    history = read_folder(folder)
    return dict(zip(history.env_steps.tolist(), history.timestamp.tolist(), strict=True))


@cache
def _reads_events() -> bool:
    try:
        require_package("tensorboard", "analysis")
    except MissingPackageError as error:
        warn(f"times of rows are unknown: {error}")
        return False
    return True


def holds_events(folder: Path) -> bool:
    """Return True for a folder with event files of its own."""
    return holds(folder.is_dir) and bool(event_files(folder))


def _history(events: ScalarEvents) -> History:
    if not events.order:
        none = np.zeros(0, np.int64)
        return History(none, np.zeros(0), none, {}, events.texts, tuple(events.damage))
    order, tag, step = (np.array(part, np.int64) for part in (events.order, events.tag, events.step))
    wall, value = np.array(events.wall), np.array(events.value)
    file = np.searchsorted([first for first, _ in events.files], order, side="right")
    step, notes = _steps_that_go_on(tag, step, value, file, events)
    visible, hidden = _shown(order, tag, step, events)
    tag, step, wall, value, file = (part[visible] for part in (tag, step, wall, value, file))
    notes += [*hidden, *_falling(tag, step, file)]
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
        if np.isfinite(value[members]).any():
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


def _steps_that_go_on(
    tag: np.ndarray, step: np.ndarray, value: np.ndarray, file: np.ndarray, events: ScalarEvents
) -> tuple[np.ndarray, list[str]]:
    """Return the steps [V] of values, and a note where they come from a step metric that the run logs itself.

    These count where the events' own step begins again in a later file, which marks no restart, and the metric goes on.
    """
    members = {name: np.flatnonzero(tag == number) for name, number in events.names.items()}
    columns = {name: (rows, value[rows]) for name, rows in members.items() if len(rows)}
    if events.starts or len(np.unique(file)) < 2 or not (name := step_metric(columns, file, by_name=True)):
        return step, []
    rows = members[name]
    first = np.flatnonzero(np.diff(file[rows])) + 1
    if not (step[rows][first] <= step[rows][first - 1]).any() or (value[rows][first] <= value[rows[0]]).any():
        return step, []
    steps = step.copy()
    for number in np.unique(file[rows]):
        inside, counted = file == number, rows[file[rows] == number]
        index = np.searchsorted(step[counted], step[inside], side="right") - 1
        steps[inside] = value[counted][np.maximum(index, 0)].astype(np.int64)
    return steps, [f"the step of the events restarts in a later file; the steps are read from {name}, which continues"]


def _shown(order: np.ndarray, tag: np.ndarray, step: np.ndarray, events: ScalarEvents) -> tuple[np.ndarray, list[str]]:
    """Return a mask bool [V] of values that no later writer hides, and a line for each writer that hides some.

    If a later file repeats a metric at a step that earlier files reached, it hides theirs from its first such step on.
    """
    visible, notes = np.ones(len(order), bool), []
    files = dict(events.files)
    ends = [*list(files)[1:], math.inf]
    silent = [
        (begin, None)
        for begin, end in zip(files, ends, strict=True)
        if not any(begin <= n < end for n, _ in events.starts)
    ]
    for begin, first in sorted([*events.starts, *silent], key=lambda start: start[0]):
        earlier = visible & (order < begin)
        if first is None:
            in_file = (order >= begin) & (order < min(end for end in ends if end > begin))
            shared = in_file & np.isin(tag, tag[earlier])
            if not shared.any():
                continue
            first = int(step[shared].min())
            if not (earlier & np.isin(tag, tag[shared]) & (step >= first)).any():
                continue
        hidden = earlier & (step >= first)
        visible &= ~hidden
        if hidden.any():
            name = files[max(number for number in files if number <= begin)]
            notes.append(
                f"{name} restarts at step {first}: earlier values at {len(np.unique(step[hidden]))} steps from "
                "there on are skipped, as from an abandoned attempt; another run needs its own folder"
            )
    return visible, notes


def _falling(tag: np.ndarray, step: np.ndarray, file: np.ndarray) -> list[str]:
    """Return a line if the step of a metric falls within a file, for values in the order of the files."""
    by_tag = np.lexsort((file, tag))
    same = (np.diff(tag[by_tag]) == 0) & (np.diff(file[by_tag]) == 0)
    falls = int((same & (np.diff(step[by_tag]) < 0)).sum())
    if not falls:
        return []
    return [f"the step falls {falls} times, as if a counter restarted; all values are kept, in order of their steps"]


def _repetition(tag: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return for each value [V] the number of earlier ones of the same metric and step."""
    order = np.lexsort((step, tag))
    new = np.ones(len(order), bool)
    new[1:] = (np.diff(tag[order]) != 0) | (np.diff(step[order]) != 0)
    index = np.arange(len(order))
    repetition = np.empty(len(order), np.int64)
    repetition[order] = index - np.maximum.accumulate(np.where(new, index, 0))
    return repetition


def _status(history: History) -> Status:
    if any(CUT_OFF in line for line in history.damage):
        return "killed"
    return "completed" if len(history.step) else "empty"


def _scalar(value: Any) -> float | None:
    """Return the number of a summary's value, None if it is not a single number."""
    if value.WhichOneof("value") == "simple_value":
        return float(value.simple_value)
    if not value.HasField("tensor") or value.tensor.string_val or value.tensor.tensor_shape.dim:
        return None
    from tensorboard.util.tensor_util import make_ndarray

    try:
        return float(make_ndarray(value.tensor))
    except (TypeError, ValueError, KeyError, IndexError, OverflowError):
        return None
