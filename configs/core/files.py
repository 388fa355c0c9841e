"""Atomic file writes: a crash at any moment leaves either the old file or the new one, never a part.

The bytes go to a temporary file in the same folder, which is synced (fsync) and renamed in one step. The folder is
synced last, so that the name itself survives a power cut.
"""

from __future__ import annotations

import glob
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sparring.configs.core.errors import InputError
from sparring.configs.core.regular_file import check_folder


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
    """Make the folder `path` holding `files`, in one step; an existing one is removed just before.

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
