"""What files say without torch: of a run folder its lock, newest state and checkpoints; which files are open."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from sparring.agents.run.folder import LOCK
from sparring.agents.run.log_files import METRICS
from sparring.configs.core.files import holds, open_regular, read_regular_text
from sparring.configs.core.locks import OWNER, has_ended

CONFIG = "config.yaml"
MOST_LOG, MOST_JSON = 1 << 30, 1 << 26
"""Bytes of one log, of any source, and of a JSON file that are read at most."""


def is_run_folder(path: Path) -> bool:
    """Return True for a folder with a configuration or metrics."""
    return holds(path.is_dir) and ((path / CONFIG).is_file() or (path / METRICS).is_file())


def in_run_folder(path: Path, root: Path) -> bool:
    """Return True for a path that lies in a run folder under `root`."""
    parents = path.relative_to(root).parents
    return any(is_run_folder(root / parent) for parent in parents if parent != Path())


def is_locked(folder: Path) -> bool:
    """Return True while a trainer holds the folder.

    The lock is only tried where its owner may live, so that a process starting here is not refused because of it.
    """
    try:
        descriptor = open_regular(folder / LOCK)
    except OSError:
        return False
    try:
        owner = os.pread(descriptor, 1000, 0).decode(errors="replace").strip()
        if not OWNER.fullmatch(owner) or has_ended(owner):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def newest_state(folder: Path) -> dict[str, Any]:
    """Return the summary of the newest training state whose manifest can be read, empty if there is none."""
    for path in sorted((folder / "state").glob("update_*/manifest.json"), reverse=True):
        summary = _read_object(path).get("summary")
        if isinstance(summary, dict):
            return summary
    return {}


def listed_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the files listed in manifest.json, by name; empty if it cannot be read."""
    listed = _read_object(folder / "manifest.json")
    files = listed.get("files", listed)
    entries = files.items() if isinstance(files, dict) else []
    hashes = {name: entry.get("sha256") if isinstance(entry, dict) else entry for name, entry in entries}
    return {name: digest for name, digest in hashes.items() if isinstance(digest, str) and len(digest) == 64}


def _read_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_regular_text(path, most=MOST_JSON))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def log_entries(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return log files as entries of a list of artifacts."""
    return [
        {"name": path.name, "kind": "log", "bytes": path.stat().st_size, "sha256": None, "path": str(path)}
        for path in paths
    ]


def open_files(suffix_or_part: str) -> set[str]:
    """Return paths of files that other processes have open and whose path holds `suffix_or_part`.

    Empty where the system has no /proc; only processes of the same user are seen.
    """
    paths = set()
    for descriptors in Path("/proc").glob("[0-9]*/fd"):
        if descriptors.parent.name == str(os.getpid()):
            continue
        with suppress(OSError):
            for entry in os.scandir(descriptors):
                with suppress(OSError):
                    target = os.readlink(entry.path)
                    if suffix_or_part in target:
                        paths.add(target)
    return paths
