"""Regular files and real folders only: no links, FIFOs, sockets or devices, nor a folder in place of a file.

A run folder may come from a stranger. A link in it can name a file or folder elsewhere, which the run would overwrite
or clean; opening a FIFO blocks, and a device never ends. `O_NOFOLLOW` refuses a link, `O_NONBLOCK` keeps a FIFO from
blocking, and the kind is read from the open descriptor, so that it cannot change between check and use.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from sparring.configs.core.errors import InputError, one_line

WRITING = os.O_WRONLY | os.O_RDWR
MOST_TEXT = 1 << 28
"""Bytes of a configuration, a manifest or a saved game; a sparse file of a stranger can have any size."""
KINDS = (
    (stat.S_ISLNK, errno.ELOOP, "a link"),
    (stat.S_ISDIR, errno.EISDIR, "a folder"),
    (stat.S_ISFIFO, errno.ENXIO, "a FIFO"),
    (stat.S_ISSOCK, errno.ENXIO, "a socket"),
    (stat.S_ISREG, errno.ENOTDIR, "a file"),
)


class IrregularFileError(OSError, InputError):
    """A path of the wrong kind; `strerror` says which kind it is, and the message is one line with the path."""

    def __str__(self) -> str:
        return one_line(f"{self.filename}: {self.strerror}")


def open_regular(path: Path, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Return a descriptor of the regular file `path`, opened with `flags`; `O_CREAT` makes one with mode 644.

    A link is refused unless `follow`, which is meant for files that a user names to be read. A file with a second name
    (hard link) is not opened for writing. Raises `IrregularFileError`, and `OSError` as `os.open` does.
    """
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), 0o644)
    except OSError:
        check_file(path, follow=follow)
        raise
    try:
        found = os.fstat(descriptor)
        _check(path, found, stat.S_ISREG, "a regular file")
        if flags & WRITING and found.st_nlink > 1:
            raise IrregularFileError(errno.EMLINK, "has a second name (hard link); replace it by a copy", str(path))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: Path, *, follow: bool = False, most: int | None = None) -> bytes:
    """Return the content of a regular file of at most `most` bytes.

    Raises as `open_regular` does, and `OSError` (ENOMEM) for a file that does not fit into memory.
    """
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise IrregularFileError(errno.EFBIG, f"has {size} bytes, and at most {most} are read", str(path))
        try:
            return file.read()
        except MemoryError as error:
            raise OSError(errno.ENOMEM, f"has {size} bytes, which do not fit into memory", str(path)) from error


def read_regular_text(path: Path, *, follow: bool = False, most: int | None = MOST_TEXT) -> str:
    """Return the content of a regular file as UTF-8; raises as `read_regular` does, and `UnicodeDecodeError`.

    Logs, which grow without limit, are read with `most=None`.
    """
    return read_regular(path, follow=follow, most=most).decode()


def check_file(path: Path, *, follow: bool = False) -> None:
    """Raise `IrregularFileError` if `path` exists and is no regular file."""
    _check_existing(path, stat.S_ISREG, "a regular file", follow=follow)


def check_folder(path: Path) -> None:
    """Raise `IrregularFileError` if `path` exists and is no folder, or a link to one."""
    _check_existing(path, stat.S_ISDIR, "a folder", follow=False)


def make_folder(path: Path) -> None:
    """Make the folder `path` if it does not exist; raises `IrregularFileError` for a link or file in its place."""
    check_folder(path)
    path.mkdir(exist_ok=True)


def _check_existing(path: Path, is_wanted: Callable[[int], bool], name: str, *, follow: bool) -> None:
    try:
        found = os.stat(path, follow_symlinks=follow)
    except OSError:  # missing, or in a folder that cannot be read
        return
    _check(path, found, is_wanted, name)


def _check(path: Path, found: os.stat_result, is_wanted: Callable[[int], bool], name: str) -> None:
    if is_wanted(found.st_mode):
        return
    kinds = ((number, kind) for is_kind, number, kind in KINDS if is_kind(found.st_mode))
    number, kind = next(kinds, (errno.ENODEV, "a device"))
    raise IrregularFileError(number, f"is {kind}, and must be {name}; remove it, or replace it by a copy", str(path))
