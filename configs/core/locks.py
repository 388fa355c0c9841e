"""Lock for one process at a time on one machine, released when its owner ends.

The operating system holds the lock (flock, through filelock) and releases it when the owning process ends in any way.
The file names the owner, for the message; it stays when the lock is released. A process forked by the owner does not
share the lock and cannot hold it after the owner's end.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import filelock

PAUSE = 0.01
"""Seconds between two tries."""


class LockBusyError(Exception):
    """Another process holds the lock; `owner` names it in words."""

    def __init__(self, owner: str) -> None:
        super().__init__(f"held by {owner}")
        self.owner = owner


class FileLock:
    """Lock held from construction until `release` or process end; a context manager.

    Waits for at most `patience` seconds, then raises `LockBusyError`. Raises `OSError` where `path` cannot be written.
    """

    def __init__(self, path: Path, *, patience: float = 0.0) -> None:
        path.touch()  # filelock would make a missing folder
        # Without flock filelock would take a soft lock, which outlives its owner.
        self._lock = filelock.UnixFileLock(
            path, timeout=patience, poll_interval=PAUSE, thread_local=False, fallback_to_soft=False
        )
        try:
            self._lock.acquire()
        except filelock.Timeout as error:
            owner = path.read_text(encoding="utf-8", errors="replace").strip()
            raise LockBusyError(owner or "another process") from error
        with suppress(OSError):  # a full disk: the lock holds without a name in it
            path.write_text(f"process {os.getpid()} on {socket.gethostname()}\n", encoding="utf-8")

    def release(self) -> None:
        """Release the lock; calling it again does nothing."""
        self._lock.release()

    def __enter__(self) -> FileLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
