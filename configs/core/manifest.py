"""Content of a run's folder: its manifest, and a check of all files before any is opened.

`manifest.json` lists size and SHA-256 of every policy written through here. Neither torch nor a disk detects a flipped
bit in a weight, so a listed file must match its entry when it is read. A file without an entry is read unverified,
since copies often lack the manifest, and entries of old versions have no size.

A copied or downloaded folder may contain links to files elsewhere, FIFOs or devices. They are rejected at the start of
a run; each file is checked again when it is opened (`configs.core.files`). Links are never followed, so the check stays
inside the folder. W&B's own folder is skipped: it contains links, and the run does not read it.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import check_file, check_folder, read_json, read_regular, write_atomically
from sparring.configs.core.typed import Count, Digest, read

MANIFEST, DAMAGED = "manifest.json", ".damaged"
STATE, STATE_FORMAT = "state.pt", "sparring-training-state"
"""A training state's file, and the format in the manifest beside it."""
POLICIES = ("final.pt", "best.pt")
"""Policies of a run that are named first."""
WANDB = "wandb"
FOLDERS = ("pool", "state", "final", "adapters", WANDB)
"""Names that are folders directly in a run's folder."""
STATES = "update_"
SUFFIXES = (".pt", ".json", ".jsonl", ".yaml", ".safetensors")
OLD_LOCK = "league.lock"
"""The lock of the league in folders of earlier versions."""
NAMES = ("lock", OLD_LOCK, "wandb_id")
"""A path with one of these suffixes or names is a file."""


class ListedFile(TypedDict):
    """Entry of a manifest; those of old versions have no size."""

    sha256: Digest
    bytes: NotRequired[Count]


class ManifestError(InputError):
    """A file that differs from its entry, or a damaged manifest; the message is one line with the file."""


class UnreadableManifestError(ManifestError):
    """A manifest that cannot be read from disk; it may be intact."""


class TrainingStateError(InputError):
    """A training state in place of a policy; the message is one line with the run's policies."""


def check_contents(folder: Path) -> None:
    """Raise `IrregularFileError` for a link, FIFO, socket or device in `folder`, or a folder in place of a file."""
    for name in FOLDERS:
        check_folder(folder / name)
    for parent, folders, files in os.walk(folder):
        at_top = Path(parent) == folder
        if at_top and WANDB in folders:
            folders.remove(WANDB)
        for name in folders:
            path = Path(parent) / name
            if path.suffix in SUFFIXES or name in NAMES:
                check_file(path)
            check_folder(path)  # os.walk lists a link to a folder here, but does not enter it
        for name in files:
            path = Path(parent) / name
            if name.startswith(STATES) and path.parent == folder / "state":
                check_folder(path)
            check_file(path)


def refuse_training_state(path: Path, label: str) -> None:
    """Raise `TrainingStateError` if the file or folder `path` is a training state; `label` is its name in messages."""
    folder = path.parent if path.name == STATE else path
    try:
        content = read_json(folder / MANIFEST, follow=True)
    except (OSError, ValueError, RecursionError):
        return
    if not isinstance(content, dict) or content.get("format") != STATE_FORMAT:
        return
    run = folder.resolve().parent.parent
    names = [name for name in POLICIES if (run / name).is_file()] or sorted(path.name for path in run.glob("*.pt"))[-2:]
    instead = f"give {' or '.join(str(run / name) for name in names)}" if names else "its run has saved no policy yet"
    raise TrainingStateError(f"{label}: is a training state, not a policy; {instead}")


def write_listed(path: Path, data: bytes) -> None:
    """Write `data` to `path`, and its entry to the folder's manifest.

    A crash leaves the old file or the new one. Raises `OSError` if it cannot be written, `ManifestError` for a damaged
    manifest.
    """
    # Remove the old entry first: after a crash between the writes the file is unlisted, not listed with a wrong hash.
    _edit(path, None)
    write_atomically(path, data)
    _edit(path, _entry(data))


def read_listed(path: Path, *, follow: bool = False) -> bytes:
    """Return the content of `path`, verified if the manifest lists it; `follow` as in `open_regular`.

    Raises `OSError` if the file cannot be read, `ManifestError` if it differs and for a damaged manifest,
    `TrainingStateError` for a training state.
    """
    data = read_regular(path, follow=follow)
    refuse_training_state(path, str(path))
    entry = _read(path.parent / MANIFEST, follow=follow).get(path.name)
    if entry is None:
        return data
    if entry["sha256"] != _sha256(data) or entry.get("bytes", len(data)) != len(data):
        raise ManifestError(f"{path}: is damaged or was replaced: its size or SHA-256 is not the one in {MANIFEST}")
    return data


def damage(folder: Path) -> list[str]:
    """Return a line for every file in `folder` that differs from its readable manifest."""
    lines = []
    for name in listed(folder, unless={}):
        try:
            if Path(name).name == name and (folder / name).is_file():
                read_listed(folder / name)
        except ManifestError as error:
            lines.append(f"{error}; restore it from a copy, or remove it")
    return lines


def listed(folder: Path, *, unless: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA-256 of every file in the folder's manifest, by name; `unless` if it cannot be read."""
    try:
        return {name: entry["sha256"] for name, entry in _read(folder / MANIFEST).items()}
    except (ManifestError, OSError):
        return dict(unless)


def repair_manifest(folder: Path, hashes: Mapping[str, str]) -> str:
    """Rebuild a damaged manifest from the files' `hashes`, by name; return a description, or "".

    The damaged one is kept beside it. Files with other hashes are not listed, so only their own checksums are
    verified when they are read. Entries that differ from `hashes` are corrected where the file is as known. Raises
    `OSError` if the manifest cannot be replaced, `UnreadableManifestError` if the disk does not give it.
    """
    manifest = folder / MANIFEST
    try:
        return _correct(manifest, _read(manifest), hashes)
    except UnreadableManifestError:
        raise
    except ManifestError:
        aside = manifest.with_name(MANIFEST + DAMAGED)
    present = {name: read_regular(folder / name) for name in hashes if (folder / name).is_file()}
    same = {name: _entry(data) for name, data in present.items() if _sha256(data) == hashes[name]}
    manifest.replace(aside)
    _write(manifest, same)
    return f"{manifest}: is damaged; it is kept as {aside.name} and rebuilt with {len(same)} of {len(hashes)} policies"


def _correct(manifest: Path, entries: dict[str, dict[str, Any]], hashes: Mapping[str, str]) -> str:
    """Correct entries that differ from the `hashes` of unchanged files; return what was done, or ""."""
    corrected = {}
    for name in hashes.keys() & entries.keys():
        path, entry = manifest.parent / name, entries[name]
        size = path.stat().st_size if path.is_file() else -1
        if size < 0 or (entry["sha256"], entry.get("bytes", size)) == (hashes[name], size):
            continue
        data = read_regular(path)
        if _sha256(data) == hashes[name]:
            corrected[name] = _entry(data)
    if not corrected:
        return ""
    _write(manifest, entries | corrected)
    return (
        f"{manifest}: was changed; corrected for {', '.join(sorted(corrected))}, as the training state knows the files"
    )


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _entry(data: bytes) -> dict[str, Any]:
    return {"sha256": _sha256(data), "bytes": len(data)}


def _read(path: Path, *, follow: bool = False) -> dict[str, dict[str, Any]]:
    try:
        entries = read_json(path, follow=follow)
        return {name: dict(entry) for name, entry in read(dict[str, ListedFile], entries).items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UnreadableManifestError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"{path}: is not a manifest ({error}); remove it to load files unverified") from error


def _edit(path: Path, entry: dict[str, Any] | None) -> None:
    """List `path` with `entry`, or remove it if that is None."""
    manifest = path.parent / MANIFEST
    entries = _read(manifest)
    if entry is None and path.name not in entries:
        return
    entries.pop(path.name, None)
    if entry is not None:
        entries[path.name] = entry
    _write(manifest, entries)


def _write(manifest: Path, entries: Mapping[str, dict[str, Any]]) -> None:
    write_atomically(manifest, json.dumps(dict(sorted(entries.items())), indent=1) + "\n")
