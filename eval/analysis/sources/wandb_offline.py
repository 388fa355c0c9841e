"""W&B offline files, `run-ID.wandb` in the folders `offline-run-*`; the package wandb is imported when one is read.

All files with one id and project form one continued run. A finished run wrote its exit code; a run without one is
running if its file is open, and was killed otherwise. Config and metrics read as in the run's own folder: rows contain
numbers, and text values are events.

After a header of 7 bytes (":W&B", 0xBEE1, version) a file is a LevelDB log: blocks of 32 KiB. A chunk has a CRC-32 (4
bytes), length (2), type (1) and data. A record is one full chunk, or a first, middle and last ones. The checksum covers
type and data. After a damaged chunk, the rest of its block is lost. Format: LevelDB doc/log_format.md; the file's own
checksum is the CRC-32 of zlib.
"""

from __future__ import annotations

import importlib
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import open_regular, read_regular
from sparring.eval.analysis.record import (
    History,
    RunRecord,
    Status,
    matching_id,
    newest_first,
    unique_names,
)
from sparring.eval.analysis.sources import reading

MAGIC = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
BLOCK, HEADER = 1 << 15, struct.Struct("<IHB")
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
CUT_OFF = "the last record is truncated; skipped"


class WandBMissingError(InputError):
    """Raised if the package wandb is not installed."""


def wandb_module(name: str) -> Any:
    """Import a module of the package wandb. Raises `WandBMissingError` if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise WandBMissingError(f"{name} is required to read W&B runs: `sparring install wandb`") from error


def records(data: bytes, damage: list[str]) -> Iterator[Any]:
    """Yield the `Record` messages of a file's bytes; a line is added to `damage` for each unreadable part."""
    message = wandb_module("wandb.proto.wandb_internal_pb2").Record
    decode_error = wandb_module("google.protobuf.message").DecodeError
    for at, payload in _payloads(data, damage):
        try:
            yield message.FromString(payload)
        except decode_error:
            damage.append(f"byte {at}: not a W&B record; skipped")


def _payloads(data: bytes, damage: list[str]) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of each whole record."""
    if data[: len(MAGIC)] != MAGIC:
        damage.append(CUT_OFF if MAGIC.startswith(data) else "byte 0: not a W&B file, or another version")
        return
    at = len(MAGIC)
    parts: list[bytes] = []
    while at < len(data):
        remaining = BLOCK - at % BLOCK
        if remaining < HEADER.size:
            at += remaining  # the writer pads the rest with zeros
            continue
        if at + HEADER.size > len(data):
            damage.append(f"byte {at}: {CUT_OFF}")
            return
        checksum, length, kind = HEADER.unpack_from(data, at)
        body, start = data[at + HEADER.size : at + HEADER.size + length], at
        if length <= remaining - HEADER.size and len(body) < length:
            damage.append(f"byte {at}: {CUT_OFF}")
            return
        at += HEADER.size + length
        if length > remaining - HEADER.size or zlib.crc32(body, zlib.crc32(bytes([kind]))) != checksum:
            damage.append(f"byte {start}: wrong checksum; the rest of its block is skipped")
            at, parts = start + remaining, []
            continue
        if kind in (FULL, FIRST):
            parts = []
        elif not parts:
            continue  # the rest of a record whose beginning was damaged
        parts.append(body)
        if kind in (FULL, LAST):
            yield start, b"".join(parts)
            parts = []
    if parts:
        damage.append(f"byte {at}: {CUT_OFF}")


SUFFIX = ".wandb"
HEAD = 1 << 18
"""Bytes at the start of a file that contain the run's name and project."""
RESERVED = "_"
"""First character of W&B's own keys, such as _step and _runtime."""


@dataclass
class OfflineLog:
    """Content of the files of one run."""

    table: reading.RowTable = field(default_factory=reading.RowTable)
    events: list[dict[str, Any]] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    name: str = ""
    project: str = ""
    tags: tuple[str, ...] = ()
    group: str = ""
    started: float = 0.0
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    declared: list[tuple[str, str]] = field(default_factory=list)
    """Patterns of metrics and their step metric, of `define_metric`."""

    def history(self) -> History:
        """Return the valid rows, as columns."""
        return self.table.history(self.events, self.damage, self.declared)


class WandBOffline:
    """Runs in the W&B files anywhere under `root`, of one `project` if given.

    With `beside_folders`, files in run folders are skipped, since the folders have better logs.
    """

    name = "wandb-offline"

    def __init__(self, root: Path, project: str = "", *, beside_folders: bool = False) -> None:
        self.root, self.project, self.beside_folders = root, project.rpartition("/")[2], beside_folders

    def runs(self) -> list[RunRecord]:
        """Return the runs, newest first."""
        open_paths, files, names = reading.open_files(SUFFIX), self._files(), self._names()
        runs = (
            (names[id], str(paths[-1]), partial(self._record, id, paths, names[id], open_paths))
            for id, paths in files.items()
        )
        return newest_first(self.name, runs)

    def names(self) -> list[str]:
        """Return the names and ids of the runs."""
        names = self._own_names()
        return [*names, *names.values()]

    def record(self, id: str) -> RunRecord:
        """Return one run by name or W&B id. Raises `AmbiguousRunError` if several match."""
        key = self._key(id)
        return self._record(key, self._files()[key], self._names()[key], reading.open_files(SUFFIX))

    def history(self, id: str) -> History:
        """Return all rows of a run."""
        return _read(self._files()[self._key(id)]).history()

    def artifacts(self, id: str) -> list[dict[str, Any]]:
        """Return the files of a run and the artifacts that it logged."""
        paths = self._files()[self._key(id)]
        return reading.log_entries(paths) + _read(paths).artifacts

    def _key(self, id: str) -> str:
        return matching_id(id, self._own_names(), f"the W&B files under {self.root}")

    def _names(self) -> dict[str, str]:
        """Return each run's display name, by its id."""
        return unique_names(self._own_names())

    def _own_names(self) -> dict[str, str]:
        heads = {id: [_head(path)[1] for path in paths] for id, paths in self._files().items()}
        return {id: next(filter(None, reversed(names)), id) for id, names in heads.items()}

    def _files(self) -> dict[str, tuple[Path, ...]]:
        """Return the files of each run, oldest first, by the run's id, or PROJECT/ID if two projects share that id."""
        by_id: dict[str, dict[str, list[Path]]] = {}
        paths = self.root.rglob(f"run-*{SUFFIX}") if self.root.is_dir() else ()
        for path in sorted(paths, key=lambda path: (path.parent.name.removeprefix("offline-"), str(path))):
            if not path.is_file() or (self.beside_folders and reading.in_run_folder(path, self.root)):
                continue
            project, id = _head(path)[0], path.name.removeprefix("run-").removesuffix(SUFFIX)
            if self.project in ("", project):
                by_id.setdefault(id, {}).setdefault(project, []).append(path)
        return {
            id if len(projects) == 1 else f"{project}/{id}": tuple(files)
            for id, projects in by_id.items()
            for project, files in projects.items()
        }

    def _record(self, id: str, paths: tuple[Path, ...], name: str, open_paths: set[str]) -> RunRecord:
        log = _read(paths)
        history = log.history()
        summary = log.summary | reading.summary_of(history)
        running = any(str(path.resolve()) in open_paths for path in paths)
        return RunRecord(
            id=name,
            source=self.name,
            path=str(paths[-1]),
            status="running" if running and log.exit_code is None else _status(log),
            created=log.started or paths[0].stat().st_mtime,
            updated=paths[-1].stat().st_mtime,
            config=log.config,
            summary=summary | {"run_id": id.rpartition("/")[2], "project": log.project},
            tags=log.tags,
            damage=() if running and all(CUT_OFF in line for line in log.damage) else history.damage,
            notes=history.notes,
            group=log.group,
        )


def _head(path: Path) -> tuple[str, str]:
    """Return project and name of the run in a file, empty where unknown."""
    with suppress(OSError):
        return _read_head(path, path.stat().st_mtime_ns)
    return "", ""


@lru_cache(maxsize=4096)
def _read_head(path: Path, version: int) -> tuple[str, str]:
    with os.fdopen(open_regular(path), "rb") as file, suppress(WandBMissingError):
        for record in records(file.read(HEAD), []):
            if record.WhichOneof("record_type") == "run":
                return record.run.project, record.run.display_name
    return "", ""


def _read(paths: tuple[Path, ...]) -> OfflineLog:
    """Read the files of a run; the last answer is kept while no file changes."""
    return _read_files(paths, tuple((status.st_size, status.st_mtime_ns) for path in paths if (status := path.stat())))


@lru_cache(maxsize=2)
def _read_files(paths: tuple[Path, ...], versions: tuple[tuple[int, int], ...]) -> OfflineLog:
    log = OfflineLog()
    for path in paths:
        damage: list[str] = []
        log.exit_code = None  # a continued run ended with its last file
        log.table.begin_part()
        try:
            for record in records(read_regular(path, most=reading.MOST_LOG), damage):
                _apply(record, log)
        except OSError as error:
            damage.append(f"cannot be read ({error.strerror})")
        log.damage += [f"{path}: {line}" for line in damage]
    return log


def _apply(record: Any, log: OfflineLog) -> None:
    """Add the content of a record to `log`."""
    kind = record.WhichOneof("record_type")
    if kind == "history":
        reading.add_logged(log.table, log.events, _pairs(record.history.item), step=record.history.step.num)
    elif kind == "run":
        run = record.run
        log.name, log.project, log.tags = run.display_name, run.project, tuple(run.tags)
        log.group = run.run_group or log.group
        log.started = log.started or run.start_time.seconds + run.start_time.nanos * 1e-9
        log.config |= _values(run.config.update)
        log.summary |= _values(run.summary.update)
    elif kind == "config":
        log.config |= _values(record.config.update)
    elif kind == "metric" and record.metric.step_metric:
        log.declared.append((record.metric.glob_name or record.metric.name, record.metric.step_metric))
    elif kind == "summary":
        log.summary |= _values(record.summary.update)
    elif kind == "exit":
        log.exit_code = int(record.exit.exit_code)
    elif kind == "artifact":
        entry = {"name": record.artifact.name, "kind": record.artifact.type, "bytes": None}
        log.artifacts.append(entry | {"sha256": None, "path": ""})


def _pairs(items: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield key and value of each item, without media such as videos, whose parts are size, path and _type."""
    items = list(items)
    media = {item.nested_key[0] for item in items if list(item.nested_key[1:]) == ["_type"]}
    for item in items:
        if item.nested_key and item.nested_key[0] in media:
            continue
        text = item.value_json
        try:
            value = float(text)
        except ValueError:
            value = reading.parse_json(text)
        yield item.key or ".".join(item.nested_key), value


def _values(items: Iterable[Any]) -> dict[str, Any]:
    """Return items as plain data by key, without W&B's own; nested keys become nested objects."""
    values: dict[str, Any] = {}
    for item in items:
        *groups, last = [item.key] if item.key else list(item.nested_key) or [""]
        target = values
        for group in groups:
            inner = target.setdefault(group, {})
            target = inner if isinstance(inner, dict) else {}
        target[last] = reading.parse_json(item.value_json)
    return {key: value for key, value in values.items() if not key.startswith(RESERVED)}


def _status(log: OfflineLog) -> Status:
    if log.exit_code is not None:
        return "completed" if log.exit_code == 0 else "failed"
    return "killed" if len(log.table) else "empty"
