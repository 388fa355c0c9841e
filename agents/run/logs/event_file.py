"""A TensorBoard event file that is written at once, by the thread that logs.

`SummaryWriter` writes in a thread of its own: on a full disk that thread ends with a traceback, and with it the log.
Here the caller gets the `OSError`, and later records are written when there is space again. The file begins with its
version and the step from which it hides the rows of earlier files, as `SummaryWriter(purge_step=...)` writes them.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast

from sparring.configs.core.regular_file import open_regular

VERSION = "brain.Event:2"
NUMBERS = itertools.count()
"""Numbers of this process's event files, which keep files of one second apart."""


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
        first = [Event(file_version=VERSION), Event(file_version=VERSION, step=first_step), restart]
        self._head = _records([*first, *(Event(summary=summary) for summary in summaries)])

    def write(self, step: int, summaries: Iterable[Any]) -> None:
        """Append a record per `Summary`, all with the time of now. Raises `OSError`; then none of them is kept."""
        from tensorboard.compat.proto.event_pb2 import Event

        data = self._head + _records(Event(step=step, summary=summary) for summary in summaries)
        if self._file is None:
            self._file = cast(BinaryIO, os.fdopen(open_regular(self._path, os.O_RDWR | os.O_CREAT), "r+b", buffering=0))
        self._file.seek(self._size)
        if self._file.write(data) < len(data):
            with suppress(OSError):
                self._file.truncate(self._size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        self._file.truncate()
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
