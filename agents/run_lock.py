"""One trainer per run folder, on one machine: a lock that dies with its process.

The operating system holds the lock (flock) and releases it when the process ends, however it ends, so a lock left
behind by a killed trainer never keeps the next one out. The file says who holds it, for the message.
"""

from __future__ import annotations

import fcntl
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import IO

from configs.names import InputError

LOCK = "lock"


class RunLockedError(InputError):
    """The folder is another trainer's, or cannot be written; the message is one line saying which."""


class RunLock:
    """Held from its making until `release` or the end of the process. Raises `RunLockedError` if another has it."""

    def __init__(self, folder: Path) -> None:
        try:
            self._file: IO[str] = (folder / LOCK).open("a+", encoding="utf-8")
        except OSError as error:
            raise RunLockedError(f"{folder}: cannot be written ({error.strerror}); choose another name=") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.seek(0)
            owner = self._file.read().strip() or "another process"
            self._file.close()
            raise RunLockedError(
                f"{folder}: {owner} is training there; stop it first or choose another name="
            ) from error
        with suppress(OSError):  # a full disk: the lock holds without saying whose it is
            self._file.truncate(0)
            self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            self._file.flush()

    def release(self) -> None:
        """Let the next trainer in."""
        self._file.close()
