"""Files of a run's logs: JSON lines, and the event file that TensorBoard shows.

metrics.jsonl has one JSON object with sorted keys per update, events.jsonl one per event between updates. A value that
is not finite is written as null, since JSON has no NaN.

TensorBoard's `SummaryWriter` writes in a thread of its own: on a full disk that thread ends with a traceback, and with
it the log. Here the thread that logs writes at once and gets the `OSError`, and later records are written when there is
space again. The event file begins with its version and the step from which it hides the rows of earlier files, as
`SummaryWriter(purge_step=...)` writes them. A video is an animated GIF in an image summary, which TensorBoard plays.
Hyperparameters are written into the run itself; `SummaryWriter.add_hparams` would make a second run.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast

from sparring.configs.core.errors import InputError, one_line
from sparring.configs.core.files import open_regular

METRICS, EVENTS = "metrics.jsonl", "events.jsonl"
CHUNK = 1 << 20
"""Bytes read at once."""
EVENT_VERSION = "brain.Event:2"
NUMBERS = itertools.count()
"""Numbers of this process's event files, which keep files of one second apart."""
SHOWN_METRICS = ("rollout/reward", "rollout/win_rate", "rollout/recent_return", "league/elo", "elo/challenger")
"""Metrics beside the hyperparameters in TensorBoard's HPARAMS; a run without one has an empty cell."""


class LoggerError(InputError):
    """Raised for a logger that is not available; the message is one line saying what to install."""


def warn(text: str) -> None:
    """Print a warning; it stands in for the alerts of a run while its logs are opened."""
    print(f"warning: {one_line(text)}", file=sys.stderr)


class JsonLines:
    """metrics.jsonl: {"env_steps": ..., metrics}; events.jsonl: {"env_steps": ..., "kind": ..., "event": text}.

    `sizes` are the bytes to keep of each file, by default 0, and `hashes` their SHA-256, where known; `damage` has a
    line for each file that differs. A full or missing disk causes one alert. Raises `LoggerError` if a file cannot
    be opened.
    """

    def __init__(self, folder: Path, sizes: Mapping[str, int], hashes: Mapping[str, str] | None = None) -> None:
        hashes = hashes or {}
        self._files = {
            name: LinesFile(folder / name, sizes.get(name, 0), hashes.get(name)) for name in (METRICS, EVENTS)
        }
        self.damage = [file.damage for file in self._files.values() if file.damage]
        self.alert: Callable[[str], None] = warn
        self._alerted = False

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write and flush one row."""
        finite = {key: value if math.isfinite(value) else None for key, value in metrics.items()}
        self._write(METRICS, {"env_steps": env_steps} | finite)

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Write and flush one event."""
        self._write(EVENTS, {"env_steps": env_steps, "kind": kind, "event": text})

    def cut(self, name: str, size: int) -> None:
        """Keep the first `size` bytes of a file; if that fails, the next row overwrites the rest."""
        self._files[name].cut(size)

    def sync(self) -> dict[str, int]:
        """Flush both files to the disk; return the bytes of complete lines in each."""
        for file in self._files.values():
            file.sync()
        return {name: file.size for name, file in self._files.items()}

    def hashes(self) -> dict[str, str]:
        """Return the SHA-256 of each file."""
        return {name: file.hash.hexdigest() for name, file in self._files.items()}

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _write(self, name: str, row: dict[str, Any]) -> None:
        line = (json.dumps(row, sort_keys=True, allow_nan=False) + "\n").encode()
        try:
            self._files[name].write(line)
        except OSError as error:
            if not self._alerted:
                self._alerted = True  # before the alert, which writes an event
                self.alert(f"{name} cannot be written ({error.strerror}); training continues")


class LinesFile:
    """A file of lines, opened unbuffered and truncated to `size` bytes, with the running SHA-256 of its content.

    `damage` says in one line how the file differs from the `size` bytes with hash `expected`; it is empty if it does
    not. Of a shorter file the last, partial line is removed.
    """

    def __init__(self, path: Path, size: int, expected: str | None) -> None:
        try:
            missing = not path.exists()
            descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
            self._file = cast(BinaryIO, os.fdopen(descriptor, "r+b", buffering=0))
            present = os.fstat(descriptor).st_size
            self.size = size if present >= size else self._file.read().rfind(b"\n") + 1  # complete lines
            self.cut(self.size)
        except OSError as error:
            raise LoggerError(
                f"{path}: cannot be opened ({error.strerror}); restore it or choose another name="
            ) from error
        self.damage = ""
        if missing and size:
            self.damage = f"{path}: is missing, the training state has {size} bytes of it; it starts again without them"
        elif present < size:
            self.damage = f"{path}: is shorter than at the training state, {present} of {size} bytes; the rest is lost"
        elif expected and self.hash.hexdigest() != expected:
            self.damage = (
                f"{path}: was changed since the training state was saved: the SHA-256 of its first {size} bytes is "
                "different; it is continued as is"
            )

    def write(self, line: bytes) -> None:
        """Append a line. Raises `OSError` if it does not fit; the part written is removed, or overwritten later."""
        _append(self._file, self.size, line)
        self.size += len(line)
        self.hash.update(line)

    def cut(self, size: int) -> None:
        """Keep the first `size` bytes, if the disk permits, and hash them."""
        self.size, self.hash = size, hashlib.sha256()
        with suppress(OSError):
            self.size = min(size, os.fstat(self._file.fileno()).st_size)  # a longer size would add zeros
            self._file.truncate(self.size)
            self._file.seek(0)
            while part := self._file.read(CHUNK):
                self.hash.update(part)

    def sync(self) -> None:
        """Flush to the disk, if possible."""
        with suppress(OSError):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            self._file.close()


def _append(file: BinaryIO, size: int, data: bytes, *path: str) -> None:
    """Write `data` behind the first `size` bytes, as the end of the file; if it does not fit, these alone are kept."""
    file.seek(size)
    if file.write(data) < len(data):
        with suppress(OSError):
            file.truncate(size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *path)
    file.truncate()


class TensorBoard:
    """An event file in the run's folder, with `hyperparameters` by dotted key; the slow import is deferred to here.

    The methods raise `OSError` for what cannot be written; later rows are written again.
    """

    name, lasting = "TensorBoard", True

    def __init__(self, folder: Path, first_step: int, hyperparameters: Mapping[str, Any]) -> None:
        self._folder, self._first = folder, _hyperparameter_summaries(hyperparameters)
        # Rows of an interrupted run after its last state are hidden.
        self._file = EventFile(folder, first_step, self._first)

    def log(self, env_steps: int, metrics: Mapping[str, float]) -> None:
        """Write one scalar per metric."""
        from torch.utils.tensorboard.summary import scalar

        self._file.write(env_steps, [scalar(key, value) for key, value in metrics.items()])

    def event(self, env_steps: int, kind: str, text: str) -> None:
        """Write a text entry."""
        from torch.utils.tensorboard.summary import text as summary

        self._file.write(env_steps, [summary(kind, text)])

    def video(self, env_steps: int, name: str, gif: bytes) -> None:
        """Write an animated GIF as an image."""
        from PIL import Image
        from tensorboard.compat.proto.summary_pb2 import Summary

        width, height = Image.open(BytesIO(gif)).size
        image = Summary.Image(height=height, width=width, colorspace=3, encoded_image_string=gif)
        self._file.write(env_steps, [Summary(value=[Summary.Value(tag=name, image=image)])])

    def rewind(self, env_steps: int) -> None:
        """Continue in another event file, which hides rows after `env_steps`."""
        self._file.close()
        self._file = EventFile(self._folder, env_steps + 1, self._first)

    def close(self) -> None:
        """Close the event file."""
        self._file.close()


def _hyperparameter_summaries(values: Mapping[str, Any]) -> list[Any]:
    from tensorboard.plugins.hparams import summary_v2 as api  # its `api` needs TensorFlow

    if not values:
        return []
    # Write no summary at the session's end: the run may be continued.
    columns = [api.HParam(name) for name in values]
    return [api.hparams_config_pb(columns, [api.Metric(tag) for tag in SHOWN_METRICS]), api.hparams_pb(dict(values))]


def hyperparameters(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, bool | float | str]]:
    """Yield the values of a nested configuration by dotted key; lists and null become JSON."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from hyperparameters(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, bool | int | float | str) else json.dumps(value)


class EventFile:
    """An event file in `folder` that hides rows from `first_step` on in earlier files and begins with `summaries`.

    It is made by the first `write`. Records that do not fit are removed, or overwritten by the next.
    """

    def __init__(self, folder: Path, first_step: int, summaries: Sequence[Any] = ()) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        host, process = socket.gethostname(), os.getpid()
        self._path = folder / f"events.out.tfevents.{int(time.time()):010d}.{host}.{process}.{next(NUMBERS)}"
        self._file: BinaryIO | None = None
        self._size = 0
        restart = Event(step=first_step, session_log=SessionLog(status=SessionLog.START))
        first = [Event(file_version=EVENT_VERSION), Event(file_version=EVENT_VERSION, step=first_step), restart]
        self._head = _records([*first, *(Event(summary=summary) for summary in summaries)])

    def write(self, step: int, summaries: Iterable[Any]) -> None:
        """Append a record per `Summary`, all with the time of now. Raises `OSError`; then none of them is kept."""
        from tensorboard.compat.proto.event_pb2 import Event

        data = self._head + _records(Event(step=step, summary=summary) for summary in summaries)
        if self._file is None:
            self._file = cast(BinaryIO, os.fdopen(open_regular(self._path, os.O_RDWR | os.O_CREAT), "r+b", buffering=0))
        _append(self._file, self._size, data, str(self._path))
        self._size, self._head = self._size + len(data), b""

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _records(events: Iterable[Any]) -> bytes:
    """Return the events as TFRecords, with the time of now."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    written, now = BytesIO(), time.time()
    writer = RecordWriter(written)
    for event in events:
        event.wall_time = now
        writer.write(event.SerializeToString())
    return written.getvalue()
