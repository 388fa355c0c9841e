"""Writing a file so that a crash at any moment leaves either the old file or the new one, never half of one.

The bytes go to a temporary name in the same folder, reach the disk (fsync), then take the final name in one step;
the folder is synced last, so that the name itself survives a power cut.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path


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
    """Make the folder `path` holding `files`, in one step; one that stands there already is gone just before.

    Raises `OSError` where there is no room or no permission; then `path` is as it was.
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
    """Remove `folder`, if it is there, so that a kill at any moment leaves it whole or gone under its name."""
    if not folder.exists():
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    os.replace(folder, aside)
    shutil.rmtree(aside, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left half written or half removed in `folder`."""
    for path in folder.glob(".*.tmp"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
