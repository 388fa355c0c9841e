"""One trainer per run folder, on one machine."""

from __future__ import annotations

from pathlib import Path

from sparring.configs.core.errors import InputError
from sparring.configs.core.locks import FileLock, LockBusyError

LOCK = "lock"


class RunLockedError(InputError):
    """The folder is another trainer's, or cannot be written; the message is one line saying which."""


class RunLock:
    """Held from its making until `release` or the end of the process. Raises `RunLockedError` if another has it."""

    def __init__(self, folder: Path) -> None:
        try:
            self._lock = FileLock(folder / LOCK)
        except OSError as error:
            raise RunLockedError(f"{folder}: cannot be written ({error.strerror}); choose another name=") from error
        except LockBusyError as error:
            raise RunLockedError(
                f"{folder}: {error.owner} is training there; stop it first or choose another name="
            ) from error

    def release(self) -> None:
        """Let the next trainer in."""
        self._lock.release()
