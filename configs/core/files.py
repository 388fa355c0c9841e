"""Files: the folders of runs, paths that users give, reading of regular files only, and atomic writes.

In a repository, runs and released models are in its `checkpoints/`. If only the package is installed, runs go to
`checkpoints/` in the working directory, and the released models are in the package.

A run folder may be untrusted. A link in it can point to a file or folder elsewhere, which the run would overwrite or
clean. Opening a FIFO blocks, and reading a device never ends. `O_NOFOLLOW` rejects a link, and `O_NONBLOCK` keeps a
FIFO from blocking. The type is read from the open descriptor, so it cannot change between check and use.

A crash leaves either the old file or the new one, never a partial one. The bytes go to a temporary file in the same
folder, which is synced (fsync) and renamed in one step. The folder is synced last, so the name survives a crash.
"""

from __future__ import annotations

import errno
import glob
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from sparring.configs.core.errors import ConfigError, InputError, one_line

PACKAGE = Path(__file__).resolve().parents[2]
"""Folder of the package `sparring`: the repository itself if that is installed."""
ROOT = PACKAGE if (PACKAGE / "pyproject.toml").is_file() else Path.cwd()
"""Base of relative run folders."""
CHECKPOINTS = ROOT / "checkpoints"
"""All runs."""
SHIPPED = PACKAGE / "checkpoints"
"""Folder whose `released/` holds the models of the package."""
LONGEST_NAME = 255
"""Bytes of one name in a path, on all common file systems."""
LONGEST_PATH = 4095
WRITING = os.O_WRONLY | os.O_RDWR
MOST_TEXT, MOST_YAML = 1 << 24, 1 << 20
"""Largest size in bytes of JSON and other text that is read whole, and of YAML, which takes ten seconds per
megabyte."""
MOST_ONNX = 1 << 28
"""Bytes of a model in ONNX, which is parsed whole."""
DEEPEST = 100
"""Levels of lists and mappings in JSON and YAML, which parsers read by recursion."""
NESTING = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]+|[\]}]+', re.DOTALL)
"""Texts of JSON, whose brackets do not count, and runs of brackets."""
KINDS = (
    (stat.S_ISLNK, errno.ELOOP, "a link"),
    (stat.S_ISDIR, errno.EISDIR, "a folder"),
    (stat.S_ISFIFO, errno.ENXIO, "a FIFO"),
    (stat.S_ISSOCK, errno.ENXIO, "a socket"),
    (stat.S_ISREG, errno.ENOTDIR, "a file"),
)


def user_path(key: str, path: str | os.PathLike[str]) -> Path:
    """Return the path that the user set as `key`. Raises `ConfigError`, with key and value, for an invalid path."""
    text = os.fspath(path)
    wrong = unusable_text(text)
    longest = 0 if wrong else max((len(name.encode()) for name in Path(text).parts), default=0)
    if longest > LONGEST_NAME or (not wrong and len(text.encode()) > LONGEST_PATH):
        wrong = f"is too long for a path: at most {LONGEST_NAME} bytes a name and {LONGEST_PATH} in all; shorten it"
    if wrong:
        raise ConfigError(f"{key}={text!r}: {wrong}")
    return Path(text)


def unusable_text(text: str) -> str:
    """Return why this text cannot be a file name or be stored in a text file; empty if it can."""
    if "\0" in text:
        return "contains the character NUL, which is invalid in a path; remove it"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "is not UTF-8 text; rename the file or choose another name"
    return ""


def holds(check: Callable[[], bool]) -> bool:
    """Return the result of a path's `is_file` or `is_dir`, and False for an invalid path."""
    try:
        return check()
    except (OSError, ValueError):  # The path is too long or has a zero byte.
        return False


class IrregularFileError(OSError, InputError):
    """A path of the wrong file type; `strerror` contains the type, and the message is one line with the path."""

    def __str__(self) -> str:
        return one_line(f"{self.filename}: {self.strerror}")


def open_regular(path: Path, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """Return a descriptor of the regular file `path`, opened with `flags`; `O_CREAT` makes one with mode 644.

    A link is rejected unless `follow`, which is meant for input files named by the user. A file with a second name
    (hard link) is not opened for writing. Raises `IrregularFileError`, and `OSError` as `os.open` does.
    """
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), 0o644)
    except OSError:
        check_file(path, follow=follow)
        raise
    try:
        status = os.fstat(descriptor)
        _check(path, status, stat.S_ISREG, "a regular file")
        if flags & WRITING and status.st_nlink > 1:
            raise IrregularFileError(errno.EMLINK, "has a second name (hard link); replace it by a copy", str(path))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def append_to(path: Path) -> TextIO:
    """Open a text file in UTF-8 to append to, line by line; raises as `open_regular` does, also for a link."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    return os.fdopen(open_regular(path, flags), "a", encoding="utf-8", buffering=1)


def read_regular(path: Path, *, follow: bool = False, most: int | None = None) -> bytes:
    """Return the content of a regular file of at most `most` bytes.

    Raises as `open_regular` does, and `OSError` (ENOMEM) for a file that does not fit into memory.
    """
    with os.fdopen(open_regular(path, follow=follow), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise IrregularFileError(errno.EFBIG, f"has {size} bytes; the limit is {most}", str(path))
        try:
            return file.read()
        except MemoryError as error:
            raise OSError(errno.ENOMEM, f"has {size} bytes, which do not fit into memory", str(path)) from error


def read_regular_text(path: Path, *, follow: bool = False, most: int | None = MOST_TEXT) -> str:
    """Return the content of a regular file as UTF-8; raises as `read_regular` does, and `UnicodeDecodeError`.

    Logs, which grow without limit, are read with `most=None`.
    """
    return read_regular(path, follow=follow, most=most).decode()


def read_json(path: Path, *, follow: bool = False) -> Any:
    """Return the value in a file of JSON; raises as `read_regular_text` does, and `ValueError` for anything else."""
    text, depth = read_regular_text(path, follow=follow), 0
    if text.count("[") + text.count("{") > DEEPEST:
        for token in NESTING.finditer(text):
            depth += {"[": 1, "{": 1, '"': 0}.get(token[0][0], -1) * len(token[0])
            if depth > DEEPEST:
                raise ValueError(f"is nested deeper than {DEEPEST} levels")
    return json.loads(text)


def check_file(path: Path, *, follow: bool = False) -> None:
    """Raise `IrregularFileError` if `path` exists and is not a regular file."""
    _check_existing(path, stat.S_ISREG, "a regular file", follow=follow)


def check_folder(path: Path) -> None:
    """Raise `IrregularFileError` if `path` exists and is not a folder, or a link to one."""
    _check_existing(path, stat.S_ISDIR, "a folder", follow=False)


def leads_outside(path: Path, folder: Path) -> bool:
    """Return whether a link in `path`, inside `folder`, points outside that folder or to nothing."""
    try:
        return not path.resolve(strict=True).is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a loop of links
        return os.path.lexists(path)


def make_folder(path: Path) -> None:
    """Create the folder `path` if it does not exist; raises `IrregularFileError` for a link or file in its place."""
    check_folder(path)
    path.mkdir(exist_ok=True)


def _check_existing(path: Path, fits: Callable[[int], bool], name: str, *, follow: bool) -> None:
    try:
        status = os.stat(path, follow_symlinks=follow)
    except OSError:  # missing, or in a folder that cannot be read
        return
    _check(path, status, fits, name)


def _check(path: Path, status: os.stat_result, fits: Callable[[int], bool], name: str) -> None:
    if fits(status.st_mode):
        return
    kinds = ((number, kind) for is_kind, number, kind in KINDS if is_kind(status.st_mode))
    number, kind = next(kinds, (errno.ENODEV, "a device"))
    raise IrregularFileError(number, f"is {kind}, and must be {name}; remove it, or replace it by a copy", str(path))


def write_atomically(path: Path, data: bytes | str) -> None:
    """Replace `path` by `data` (text as UTF-8) in one step. The folder must exist; raises `OSError` as `open` does."""
    content = data.encode() if isinstance(data, str) else data
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """Create the folder `path` with `files`, in one step; an existing one is removed just before.

    Raises `OSError` without space or permission; `path` is then unchanged.
    """
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    try:
        for name, data in files.items():
            write_atomically(temporary / name, data)
        temporary.chmod(0o755)
        discard(path)
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _sync_folder(path.parent)


def discard(folder: Path) -> None:
    """Remove `folder`, if it exists; a kill at any moment leaves it complete or absent under its name.

    Raises `IrregularFileError` for a link or a file in its place.
    """
    check_folder(folder)
    if not folder.exists():
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    os.replace(folder, aside)
    shutil.rmtree(aside, ignore_errors=True)


def remove_leftovers(folder: Path, of: str = "") -> None:
    """Remove partly written or partly removed files of killed processes in `folder`; links in it are removed as such.

    With `of` only those of the file or folder of that name. Raises `IrregularFileError` if `folder` itself is a link.
    """
    check_folder(folder)
    for path in folder.glob(f".{glob.escape(of)}.*.tmp" if of else ".*.tmp"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def naming_files(folder: Path, *, only_inside: bool = False) -> Iterator[None]:
    """Raise an `OSError` in this context as an `InputError` of one line that names the file, or `folder`.

    With `only_inside` errors of other files, and those that name none, pass unchanged.
    """
    try:
        yield
    except OSError as error:
        elsewhere = only_inside and not Path(str(error.filename or "/")).is_relative_to(folder)
        if elsewhere or isinstance(error, InputError):
            raise
        raise InputError(
            f"{error.filename or folder}: {error.strerror or error}; make it readable and writable or free some space, "
            "then start again"
        ) from error
