"""Manifest of a folder's policies: `manifest.json` lists size and SHA-256 of every file written through here.

Neither torch nor a disk notices a flipped bit in a weight, so a listed file must match its entry when it is read. A
file without an entry is read unverified: manifests are lost in copies, and entries of old versions have no size.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from sparring.configs.core import run_contents
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.core.regular_file import read_regular, read_regular_text
from sparring.configs.core.tensor_file import sha256
from sparring.configs.core.typed import Count, Digest, read

MANIFEST, DAMAGED = run_contents.MANIFEST, ".damaged"


class ListedFile(TypedDict):
    """Entry of a manifest; those of old versions have no size."""

    sha256: Digest
    bytes: NotRequired[Count]


class ManifestError(InputError):
    """A file that is not the listed one, or a damaged manifest; the message is one line with the file."""


class UnreadableManifestError(ManifestError):
    """A manifest that the disk does not give; it may be whole."""


def write_listed(path: Path, data: bytes) -> None:
    """Write `data` to `path`, and its entry to the folder's manifest.

    A crash leaves the old file or the new one. Raises `OSError` if it cannot be written, `ManifestError` for a damaged
    manifest.
    """
    # The old entry is removed first, so a crash between the writes leaves a file unlisted, not with a wrong hash.
    _edit(path, None)
    write_atomically(path, data)
    _edit(path, _entry(data))


def read_listed(path: Path, *, follow: bool = False) -> bytes:
    """Return the content of `path`, verified if the manifest lists it; `follow` as in `open_regular`.

    Raises `OSError` if the file cannot be read, `ManifestError` if it differs and for a damaged manifest,
    `TrainingStateError` for a training state.
    """
    data = read_regular(path, follow=follow)
    run_contents.refuse_training_state(path, str(path))
    entry = _read(path.parent / MANIFEST, follow=follow).get(path.name)
    if entry is None:
        return data
    if entry["sha256"] != sha256(data) or entry.get("bytes", len(data)) != len(data):
        raise ManifestError(f"{path}: is damaged or was replaced: its size or SHA-256 is not the one in {MANIFEST}")
    return data


def listed(folder: Path, *, unless: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA-256 of every file in the folder's manifest, by name; `unless` if it cannot be read."""
    try:
        return {name: entry["sha256"] for name, entry in _read(folder / MANIFEST).items()}
    except (ManifestError, OSError):
        return dict(unless)


def repair_manifest(folder: Path, known: Mapping[str, str]) -> str:
    """Rebuild a manifest that cannot be read from the hashes `known`, by file name; return what was done, or "".

    The damaged one is kept beside it. Files that are not as `known` are not listed, so only their own checksums are
    verified when they are read. Entries that differ from `known` are corrected where the file is as known. Raises
    `OSError` if the manifest cannot be replaced, `UnreadableManifestError` if the disk does not give it.
    """
    manifest = folder / MANIFEST
    try:
        return _correct(manifest, _read(manifest), known)
    except UnreadableManifestError:
        raise
    except ManifestError:
        aside = manifest.with_name(MANIFEST + DAMAGED)
    found = {name: read_regular(folder / name) for name in known if (folder / name).is_file()}
    kept = {name: _entry(data) for name, data in found.items() if sha256(data) == known[name]}
    manifest.replace(aside)
    _write(manifest, kept)
    return f"{manifest}: is damaged; it is kept as {aside.name} and rebuilt with {len(kept)} of {len(known)} policies"


def _correct(manifest: Path, entries: dict[str, dict[str, Any]], known: Mapping[str, str]) -> str:
    """Correct entries that differ from the hashes `known` of unchanged files; return what was done, or ""."""
    corrected = {}
    for name in known.keys() & entries.keys():
        path, entry = manifest.parent / name, entries[name]
        size = path.stat().st_size if path.is_file() else -1
        if size < 0 or (entry["sha256"], entry.get("bytes", size)) == (known[name], size):
            continue
        data = read_regular(path)
        if sha256(data) == known[name]:
            corrected[name] = _entry(data)
    if not corrected:
        return ""
    _write(manifest, entries | corrected)
    return (
        f"{manifest}: was changed; corrected for {', '.join(sorted(corrected))}, as the training state knows the files"
    )


def _entry(data: bytes) -> dict[str, Any]:
    return {"sha256": sha256(data), "bytes": len(data)}


def _read(path: Path, *, follow: bool = False) -> dict[str, dict[str, Any]]:
    try:
        entries = json.loads(read_regular_text(path, follow=follow))
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
