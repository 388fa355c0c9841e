"""Interception of the file operations below one folder: each is counted, and one of them can fail or kill.

All of Python's own ways to a file are replaced: the functions of `os`, and `open` with the files it returns. Operations
of other threads and on TensorBoard's files, whose names hold the time, are neither counted nor harmed, so that equal
runs have equal numbers.
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

BY_PATH = ("open", "mkdir", "rmdir", "unlink", "remove", "chmod", "stat", "lstat", "scandir", "listdir", "utime")
BY_TARGET = ("rename", "replace")
BY_DESCRIPTOR = ("fsync", "ftruncate", "fchmod", "fstat", "read", "pread", "write", "pwrite")
CREATE = "create"
"""`open` that may make a file."""
WRITING = ("write", "pwrite")
CHANGING = (CREATE, *WRITING, "mkdir", "rename", "replace", "rmdir", "unlink", "remove", "ftruncate")
"""Operations that change what a process finds after a kill."""
GROWING = (CREATE, *WRITING, "mkdir", "rename", "replace", "fsync")
"""Operations that need space."""
FAULTS = {
    "ENOSPC": GROWING,
    "EIO": (CREATE, *BY_PATH, *BY_TARGET, *BY_DESCRIPTOR),
    "EACCES": (CREATE, *BY_PATH, *BY_TARGET),
    "short": WRITING,
    "full": GROWING,
    "kill": CHANGING,
    "torn": WRITING,
}
"""Faults, and the operations that they can hit. `short`: half of the data is written and nothing raised. `full`: no
space from there on. `kill`: the process is killed before the operation. `torn`: it is killed with half written."""
REAL: dict[str, Callable[..., Any]] = {name: getattr(os, name) for name in (*BY_PATH, *BY_TARGET, *BY_DESCRIPTOR)}
REAL_OPEN = io.open


class Operation(NamedTuple):
    """One operation: the relative path of its file, and the project functions that led to it."""

    name: str
    file: str
    callers: str


class FaultyFiles:
    """The operations below `root`, of which number `at` meets `fault`, one of `FAULTS`; the rest are only listed."""

    def __init__(self, root: Path, fault: str = "", at: int = -1) -> None:
        self.root, self.fault, self.at = str(root), fault, at
        self.operations: list[Operation] = []

    def install(self) -> None:
        """Replace the functions of this process permanently."""
        for name in BY_PATH:
            setattr(os, name, self._by_path(name))
        for name in BY_TARGET:
            setattr(os, name, self._by_target(name))
        for name in BY_DESCRIPTOR:
            setattr(os, name, self._by_descriptor(name))
        builtins.open = io.open = self._opened  # type: ignore[assignment]

    def place(self, file: Any, folder: int | None = None) -> str | None:
        """Return the path below `root` of a path or descriptor, None if it is elsewhere or not to be counted."""
        if threading.current_thread() is not threading.main_thread():
            return None
        if isinstance(file, int):
            path = _path_of(file)
        else:
            path = os.path.abspath(os.path.join(_path_of(folder) if folder is not None else "", os.fsdecode(file)))
        inside = path == self.root or path.startswith(self.root + os.sep)
        return os.path.relpath(path, self.root) if inside and "tfevents" not in path else None

    def meet(self, name: str, place: str) -> bool:
        """Count an operation, and fail or exit if it is the chosen one; return True if only half is to be written."""
        self.operations.append(Operation(name, place, _callers()))
        number = len(self.operations) - 1
        if number != self.at and not (self.fault == "full" and number > self.at >= 0 and name in GROWING):
            return False
        if self.fault == "kill":
            die()
        if self.fault in ("short", "torn"):
            return True
        code = errno.ENOSPC if self.fault == "full" else getattr(errno, self.fault)
        raise OSError(code, os.strerror(code), os.path.join(self.root, place))

    def _by_path(self, name: str) -> Callable[..., Any]:
        def operation(path: Any = ".", *arguments: Any, dir_fd: int | None = None, **options: Any) -> Any:
            place = self.place(path, dir_fd)
            if place is not None:
                creates = name == "open" and arguments and arguments[0] & os.O_CREAT
                self.meet(CREATE if creates else name, place)
            at = {} if dir_fd is None else {"dir_fd": dir_fd}
            return REAL[name](path, *arguments, **at, **options)

        return operation

    def _by_target(self, name: str) -> Callable[..., Any]:
        def operation(source: Any, target: Any, **options: Any) -> Any:
            place = self.place(target)
            if place is not None:
                self.meet(name, place)
            return REAL[name](source, target, **options)

        return operation

    def _by_descriptor(self, name: str) -> Callable[..., Any]:
        def operation(descriptor: int, *arguments: Any) -> Any:
            place = self.place(descriptor)
            if place is not None and self.meet(name, place):
                return self.halve(lambda data: REAL[name](descriptor, data, *arguments[1:]), arguments[0])
            return REAL[name](descriptor, *arguments)

        return operation

    def halve(self, write: Callable[[bytes], int], data: Any) -> int:
        """Write half of the data; then die if it is to be torn."""
        whole = bytes(data)
        written = write(whole[: len(whole) // 2])
        if self.fault == "torn":
            die()
        return written

    def _opened(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        """Replace `open`: files below `root` are built on a `FaultyFile`."""
        if self.place(file) is None or opener is not None:
            return REAL_OPEN(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = FaultyFile(self, file, mode.replace("b", "").replace("t", ""), closefd)
        if buffering == 0:
            return raw
        kind = io.BufferedRandom if "+" in mode else io.BufferedReader if "r" in mode else io.BufferedWriter
        buffered = kind(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)


class FaultyFile(io.FileIO):
    """Unbuffered file whose operations are counted."""

    def __init__(self, files: FaultyFiles, file: Any, mode: str, closefd: bool) -> None:
        place = files.place(file)
        if not isinstance(file, int) and place is not None:
            files.meet("open" if mode == "r" else CREATE, place)
        super().__init__(file, mode, closefd)
        self._files = files

    def write(self, data: Any) -> int:
        """Write to the file."""
        if (place := self._files.place(self.fileno())) is not None and self._files.meet("write", place):
            return self._files.halve(super().write, data)
        return super().write(data)

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer."""
        self._count("read")
        return super().readinto(buffer)

    def readall(self) -> bytes:
        """Read to the end."""
        self._count("read")
        return super().readall()

    def truncate(self, size: int | None = None) -> int:
        """Cut the file."""
        self._count("ftruncate")
        return super().truncate(size)

    def _count(self, name: str) -> None:
        if (place := self._files.place(self.fileno())) is not None:
            self._files.meet(name, place)


def die() -> NoReturn:
    """End this process like a power cut."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def _callers(number: int = 4) -> str:
    """Return the innermost functions of the project on the stack, innermost last."""
    frame, found = sys._getframe(3), []
    while frame is not None and len(found) < number:
        if frame.f_globals.get("__name__", "").startswith("sparring."):
            found.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
        frame = frame.f_back
    return " > ".join(reversed(found))


def _path_of(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""
