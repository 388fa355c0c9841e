"""Training states on disk: everything needed to continue a run, published atomically and verified when read.

    <run>/state/update_000350/state.pt        tensors and plain data (`configs.core.tensor_file`)
                              manifest.json   format, SHA-256 of state.pt, a summary: readable without torch

A state is a folder created by one rename; the last few are kept. A damaged one is renamed to `.damaged`, and the one
before it is used. If none is left, the run ends with a message, because a fresh start would hide the loss.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparring.configs.core.archive import TensorFileError
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import (
    MOST_TEXT,
    IrregularFileError,
    discard,
    make_folder,
    publish_folder,
    read_regular,
    remove_leftovers,
)
from sparring.configs.core.manifest import MANIFEST, STATE, STATE_FORMAT
from sparring.configs.core.tensor_file import pack, sha256, unpack
from sparring.configs.core.typed import ContentError

FORMAT_VERSION = 2
"""Incremented when a state's content changes. 1, from before the dogfight had a league, is no longer supported."""
PREFIX, DAMAGED, RENEWED = "update_", ".damaged", ".again"


class StateError(InputError):
    """Raised for unusable training states; the message is one line naming them and what to do."""


@dataclass(frozen=True)
class TrainingState:
    """A state that was read and verified."""

    content: dict[str, Any]
    summary: dict[str, Any]
    path: Path


class StateFolder:
    """The states in `folder`; the last `keep` are kept, and `alert` is called for damaged ones."""

    def __init__(self, folder: Path, keep: int, alert: Callable[[str], None]) -> None:
        self.folder, self.keep, self.alert = folder, keep, alert

    def publish(self, update: int, content: Mapping[str, Any], summary: Mapping[str, Any]) -> Path:
        """Write the state after `update` updates with a `summary` of plain data, and drop the oldest beyond `keep`.

        Raises `OSError` if it cannot be written; the earlier states are then unchanged.
        """
        make_folder(self.folder)
        data = pack(content)
        stamp = {"format": STATE_FORMAT, "format_version": FORMAT_VERSION, "sha256": sha256(data), "bytes": len(data)}
        plain = json.loads(json.dumps(dict(summary)))
        text = json.dumps(stamp | {"summary": plain, "summary_sha256": _fingerprint(plain)}, indent=1) + "\n"
        path = self.folder / f"{PREFIX}{update:06d}"
        # A state of the same update stays until the new one is published, since it may be the only one.
        publish_folder(path.with_suffix(RENEWED) if path.exists() else path, {STATE: data, MANIFEST: text.encode()})
        self._replace()
        for old in self.paths()[: -self.keep]:
            discard(old)
        return path

    def paths(self) -> list[Path]:
        """Return the states' folders, oldest first, including damaged ones."""
        paths = [path for path in self.folder.glob(f"{PREFIX}*") if path.is_dir() and path.suffix != DAMAGED]
        return sorted(paths, key=lambda path: (len(path.stem), path.name))  # numbers of over six digits come later

    def has(self, update: int) -> bool:
        """Return True if there is a state of that update, even a damaged one."""
        return (self.folder / f"{PREFIX}{update:06d}").exists()

    def summaries(self) -> list[dict[str, Any]]:
        """Return the summaries in the states' manifests, oldest first, without those of damaged states.

        Raises `StateError` for one that the disk does not give: it may be whole, and need files named there.
        """
        summaries = []
        for path in self.paths():
            try:
                summaries.append(_read_manifest(path)["summary"])
            except DamagedStateError:
                continue
        return summaries

    def latest(self) -> TrainingState | None:
        """Return the newest good state, or None if none was ever written; rename damaged ones with an alert.

        Raises `StateError` if all states are damaged, if one has another format, or if the disk cannot read it. An
        unreadable state may still be intact.
        """
        paths = self.paths()
        for path in reversed(paths):
            try:
                return read_state(path)
            except DamagedStateError as error:
                aside = path.with_name(path.name + DAMAGED)
                discard(aside)
                path.rename(aside)
                self.alert(f"{error}; it is kept as {aside.name}, and the state before it is used")
        if paths or list(self.folder.glob(f"{PREFIX}*{DAMAGED}")):
            raise StateError(f"{self.folder}: all its states are damaged; start a new run with another name=")
        return None

    def clean(self) -> None:
        """Finish or remove incomplete operations of a killed process."""
        remove_leftovers(self.folder)
        self._replace()

    def _replace(self) -> None:
        """Replace earlier states with those published again."""
        for path in self.folder.glob(f"{PREFIX}*{RENEWED}"):
            discard(path.with_suffix(""))
            path.rename(path.with_suffix(""))


class DamagedStateError(StateError):
    """A state whose bytes differ from those written."""


@contextmanager
def reading(state: TrainingState | None) -> Iterator[None]:
    """Raise every error of content inside as a `StateError` of the state `state`, if there is one.

    The hash guarantees that this project wrote the state, so types and ranges are not checked. A state written by other
    means fails here.
    """
    try:
        yield
    except (ContentError, LookupError, TypeError, ValueError, AttributeError) as error:
        if state is None or (isinstance(error, InputError) and not isinstance(error, ContentError)):
            raise
        wrong = error if isinstance(error, ContentError) else f"does not fit this run ({type(error).__name__}: {error})"
        fix = f"restore the file, or remove {state.path} to continue from the state before it"
        raise StateError(f"{state.path / STATE}: {wrong}; {fix}") from error


def read_state(path: Path) -> TrainingState:
    """Read and verify the state in the folder `path`.

    Raises `DamagedStateError` if files are missing or altered, `StateError` for another format, and for files that the
    disk does not give.
    """
    manifest = _read_manifest(path)
    data = _read_file(path / STATE)
    try:
        if sha256(data) != manifest.get("sha256"):
            raise DamagedStateError(f"{path}: is damaged, its SHA-256 is not the one in {MANIFEST}")
        return TrainingState(unpack(data), manifest["summary"], path)
    except TensorFileError as error:
        raise DamagedStateError(f"{path / STATE}: {error}") from error


def _read_file(path: Path, most: int | None = None) -> bytes:
    """Return the content of a state's file.

    One that is missing is damage. Any other error of the disk may pass, and the state be whole.
    """
    try:
        return read_regular(path, most=most)
    except (FileNotFoundError, IrregularFileError) as error:
        raise DamagedStateError(f"{path}: cannot be read ({error.strerror})") from error
    except OSError as error:
        raise StateError(
            f"{path}: cannot be read ({error.strerror}); make it readable, or remove {path.parent} to continue from "
            "the state before it"
        ) from error


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    data = _read_file(file, MOST_TEXT)
    try:
        manifest = json.loads(data.decode())
        _check_version(path, manifest)
        if manifest["summary_sha256"] != _fingerprint(manifest["summary"]):
            raise DamagedStateError(f"{file}: is damaged: its summary does not match its SHA-256")
    except StateError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DamagedStateError(f"{file}: is damaged") from error
    return dict(manifest)


def _check_version(path: Path, manifest: dict[str, Any]) -> None:
    """Check the format first, since the manifest of another format may have other keys."""
    version = manifest["format_version"]
    if manifest["format"] != STATE_FORMAT or type(version) is not int or version < 1:
        raise DamagedStateError(f"{path / MANIFEST}: is not the manifest of a training state")
    if version > FORMAT_VERSION:
        raise StateError(f"{path}: has format {version}, this Sparring reads {FORMAT_VERSION}; update it")
    if version < FORMAT_VERSION:
        raise StateError(
            f"{path}: has format {version}, but only {FORMAT_VERSION} is supported; start a new run with "
            "another name=; the policies of this run can still play"
        )


def _fingerprint(plain: Any) -> str:
    return sha256(json.dumps(plain, sort_keys=True).encode())
