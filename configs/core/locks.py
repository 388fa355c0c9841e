"""Lock for one process at a time on one machine, released when its owner ends.

The operating system holds the lock (flock, through filelock) and releases it when the owning process ends in any way.
The file names the owner, for the message; it stays when the lock is released. A process forked by the owner does not
share the lock and cannot hold it after the owner's end.
"""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import filelock

from sparring.configs.core.files import open_regular

RETRY_S = 0.01
"""Seconds between attempts."""
NAMING_S = 2.0
"""Seconds within which a process writes its name after acquiring the lock."""
OWNER = re.compile(r"process (\d+) on (.+)")


class LockBusyError(Exception):
    """Another process holds the lock; `owner` names it in words."""

    def __init__(self, owner: str) -> None:
        super().__init__(f"held by {owner}")
        self.owner = owner


class FileLock:
    """Lock held from construction until `release` or process end; a context manager.

    Waits for at most `patience` seconds, then raises `LockBusyError`. Raises `OSError` where `path` cannot be written,
    `IrregularFileError` where it is a link, a FIFO, a folder or a device.
    """

    def __init__(self, path: Path, *, patience: float = 0.0) -> None:
        # This descriptor, not the path, receives the name: the path could be made a link meanwhile.
        descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
        # Without flock, filelock would use a soft lock, which outlives its owner.
        self._lock = filelock.UnixFileLock(
            path, timeout=patience, poll_interval=RETRY_S, thread_local=False, fallback_to_soft=False
        )
        try:
            self._lock.acquire()
            with suppress(OSError):  # on a full disk the lock works without a name
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        except filelock.Timeout as error:
            raise LockBusyError(_owner(descriptor) or "another process") from error
        finally:
            os.close(descriptor)

    def release(self) -> None:
        """Release the lock; calling it again does nothing."""
        self._lock.release()

    def __enter__(self) -> FileLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _owner(descriptor: int) -> str:
    """Return the name in a held lock's file; wait while it is empty or names a process that has ended."""
    deadline = time.monotonic() + NAMING_S
    while True:
        text = os.pread(descriptor, 1000, 0).decode(errors="replace").strip()
        if (text and not has_ended(text)) or time.monotonic() > deadline:
            return text
        time.sleep(RETRY_S)


def has_ended(owner: str) -> bool:
    """Return True if the name in a lock's file belongs to a process of this machine that has ended."""
    process = OWNER.fullmatch(owner)
    if process is None or process[2] != socket.gethostname():
        return False
    try:
        os.kill(int(process[1]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False
