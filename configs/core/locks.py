"""One process at a time, on one machine: a lock that dies with its owner.

The operating system holds the lock (flock) and releases it when the process that took it ends, however it ends, so
what a killed owner leaves behind never keeps anybody out. The file says who holds it, for the message; it stays when
the lock is released, since two processes could else hold two files of one name. A process forked by the owner has no
part in the lock: it lets go of its copy at once, and cannot keep the lock alive after the owner's death.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
import weakref
from contextlib import suppress
from pathlib import Path
from types import TracebackType

PAUSE = 0.01
"""Seconds between two tries."""


class LockBusyError(Exception):
    """Another process holds the lock; `owner` says which, in words."""

    def __init__(self, owner: str) -> None:
        super().__init__(f"held by {owner}")
        self.owner = owner


class FileLock:
    """Held from its making until `release` or the end of the process; also a context.

    Waits for at most `patience` seconds, then raises `LockBusyError`. Raises `OSError` where `path` cannot be written.
    """

    def __init__(self, path: Path, *, patience: float = 0.0) -> None:
        self._handle: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        _OPEN.add(self)
        try:
            self._wait(self._handle, time.monotonic() + patience)
        except BaseException:
            self.close()
            raise
        with suppress(OSError):  # a full disk: the lock holds without saying whose it is
            os.ftruncate(self._handle, 0)
            os.write(self._handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def release(self) -> None:
        """Let the next one in; again does nothing."""
        if self._handle is not None:
            fcntl.flock(self._handle, fcntl.LOCK_UN)  # closing alone would wait for copies in processes just forked
            self.close()

    def close(self) -> None:
        """Let go of this process's copy of the file; the lock is released with the last of them."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> FileLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _wait(self, handle: int, deadline: float) -> None:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    owner = os.pread(handle, 200, 0).decode(errors="replace").strip()
                    raise LockBusyError(owner or "another process") from error
                time.sleep(PAUSE)


_OPEN: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _close_copies() -> None:
    for lock in list(_OPEN):
        lock.close()


os.register_at_fork(after_in_child=_close_copies)
