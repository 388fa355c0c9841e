"""Locations of runs and released models, and paths that users give.

In a repository both are in its `checkpoints/`. If only the package is installed, runs go to `checkpoints/` in the
working directory, and the released models are in the package.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from sparring.configs.core.errors import ConfigError

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


def user_path(key: str, path: str | os.PathLike[str]) -> Path:
    """Return a path that a user gave as `key`. Raises `ConfigError`, with key and value, if no file can have it."""
    text = os.fspath(path)
    wrong = unusable_text(text)
    longest = 0 if wrong else max((len(name.encode()) for name in Path(text).parts), default=0)
    if longest > LONGEST_NAME or (not wrong and len(text.encode()) > LONGEST_PATH):
        wrong = f"is too long for a path: at most {LONGEST_NAME} bytes a name and {LONGEST_PATH} in all; shorten it"
    if wrong:
        raise ConfigError(f"{key}={text!r}: {wrong}")
    return Path(text)


def unusable_text(text: str) -> str:
    """Return why no file can have this name, and no file of text hold it; empty if both can be."""
    if "\0" in text:
        return "holds the character NUL, which no path can; remove it"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "is no text in UTF-8; rename the file, or give another name"
    return ""


def holds(check: Callable[[], bool]) -> bool:
    """Return the result of a path's `is_file` or `is_dir`, and False for an invalid path."""
    try:
        return check()
    except (OSError, ValueError):  # The path is too long or has a zero byte.
        return False
