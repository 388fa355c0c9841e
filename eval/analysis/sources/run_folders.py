"""Run folders, the first source: config.yaml, metrics.jsonl, events.jsonl, eval.json, manifest.json.

metrics.jsonl has no times; they are read from the TensorBoard events in the same folder. The lock and events.jsonl
determine a run's status: the trainer records there how it ended; a killed process writes nothing.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from sparring.agents.run.folder import LOCK
from sparring.agents.run.log_files import EVENTS, METRICS
from sparring.agents.run.logger import run_tags
from sparring.configs.core.files import leads_outside, open_regular, read_json, read_regular, read_regular_text
from sparring.configs.core.locks import OWNER, has_ended
from sparring.configs.serialization import read_yaml
from sparring.eval.analysis.record import History, RunRecord, Status, newest_first, not_found, unusable_data
from sparring.eval.analysis.sources.reading import CONFIG, MOST_LOG, STEPS, RowTable, is_run_folder, summary_of
from sparring.eval.analysis.sources.tensorboard_files import times_by_step

TAIL = 1 << 20
"""Bytes of metrics.jsonl read for the last values in a list of runs; `history` reads all of it."""
ENDINGS: tuple[tuple[re.Pattern[str], Status], ...] = (
    (re.compile(r"done after \d+|nothing left to do"), "completed"),
    (re.compile(r"the run ends after "), "failed"),
    (re.compile(r"interrupted after \d+|resumed after "), "killed"),
)
"""Events that record how a run ended; the last one counts. A resumed run without a later one was killed."""
KINDS = {".pt": "checkpoint", ".jsonl": "log", ".html": "replay", ".gif": "replay", ".onnx": "policy", ".md": "report"}


class RunFolders:
    """Runs in the folders directly in `root`; with `links` also in folders that a link there points to."""

    name = "folder"

    def __init__(self, root: Path, *, links: bool = True) -> None:
        self.root, self.links = root, links

    def runs(self) -> list[RunRecord]:
        """Return the runs, newest first; last values come from the end of metrics.jsonl."""
        paths = self._folders()
        return newest_first(self.name, ((path.name, str(path), partial(self._listed, path)) for path in paths))

    def names(self) -> list[str]:
        """Return the names of the folders."""
        return [path.name for path in self._folders()]

    def record(self, id: str) -> RunRecord:
        """Return one run, with the last values and damage of all its files."""
        path = self._folder(id)
        return self._record(path, self._rows(path))

    def history(self, id: str) -> History:
        """Return all rows of a run."""
        return self._rows(self._folder(id), times=True)

    def artifacts(self, id: str) -> list[dict[str, Any]]:
        """Return the files of a run, apart from its logs in W&B."""
        folder = self._folder(id)
        hashes = listed_hashes(folder)
        entries = []
        for directory, folders, files in os.walk(folder):
            folders[:] = sorted(name for name in folders if name != "wandb")
            for path in (Path(directory) / name for name in sorted(files)):
                if path.is_symlink() or path.suffix == ".tmp" or path.suffix == ".lock" or path.name == "lock":
                    continue
                name = str(path.relative_to(folder))
                size = path.stat().st_size
                entries.append(
                    {"name": name, "kind": _kind(name), "bytes": size, "sha256": hashes.get(name), "path": str(path)}
                )
        return entries

    def _folders(self) -> list[Path]:
        if not self.root.is_dir():
            return []
        folders = (path for path in self.root.iterdir() if is_run_folder(path))
        return sorted(path for path in folders if self.links or not leads_outside(path, self.root))

    def _folder(self, id: str) -> Path:
        folders = {folder.name: folder for folder in self._folders()}
        if id in folders:
            return folders[id]
        raise not_found(id, folders, str(self.root))

    def _listed(self, folder: Path) -> RunRecord:
        return self._record(folder, self._rows(folder, tail=TAIL))

    def _record(self, folder: Path, history: History) -> RunRecord:
        config, damage = _read_config(folder)
        times = [path.stat().st_mtime for path in (folder / CONFIG, folder / METRICS) if path.is_file()]
        summary = summary_of(history)
        state = newest_state(folder)
        if leads_outside(folder / "state", folder):
            damage.append(f"{folder / 'state'}: is a link to outside the run; skipped")
        summary |= {key: state[key] for key in ("device", "torch", "processes", "phase") if key in state}
        summary |= {"updates": state["update"]} if "update" in state else {}
        evaluation = _read_json(folder / "eval.json", damage)
        summary |= {"evaluation": evaluation} if evaluation is not None else {}
        return RunRecord(
            id=folder.name,
            source=self.name,
            path=str(folder),
            status=status_of(folder, history),
            created=min(times, default=0.0),
            updated=max(times, default=0.0),
            config=config,
            summary=summary,
            tags=run_tags(config),
            damage=(*damage, *history.damage),
            notes=history.notes,
        )

    def _rows(self, folder: Path, *, tail: int | None = None, times: bool = False) -> History:
        running = is_locked(folder)
        damage: list[str] = []
        wall = times_by_step(folder) if times else {}
        table = RowTable()
        events = [
            event
            for row in read_lines(folder / EVENTS, damage, running=running)
            if (event := _event(row)) and isinstance(row.get(STEPS), int)
        ]
        wrong = number = 0
        for row in read_lines(folder / METRICS, damage, running=running, tail=tail):
            if "event" in row:  # runs of the first version have events among the metrics
                events += [event] if (event := _event(row)) else []
                continue
            steps = row.get(STEPS)
            if type(steps) is not int or not 0 <= steps < 2**63:
                wrong += 1
                continue
            number += 1
            values = [(key, value) for key, value in row.items() if type(value) in (float, int) and key != STEPS]
            table.add(values, env_steps=steps, step=number, timestamp=wall.get(steps, math.nan))
        if wrong:
            damage.append(f"{folder / METRICS}: {wrong} rows lack a whole number {STEPS}; skipped")
        return table.history(events, damage)


def is_locked(folder: Path) -> bool:
    """Return True while a trainer holds the folder.

    The lock is only tried if its owner may be alive. Holding it, even briefly, could make a starting trainer fail.
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
    """Return the summary of the newest training state whose manifest can be read, else an empty object."""
    paths = () if leads_outside(folder / "state", folder) else (folder / "state").glob("update_*/manifest.json")
    for path in sorted((path for path in paths if not leads_outside(path, folder)), reverse=True):
        summary = _object(path).get("summary")
        if isinstance(summary, dict):
            return summary
    return {}


def listed_hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of the files listed in manifest.json, by name; empty if it cannot be read."""
    listed = _object(folder / "manifest.json")
    files = listed.get("files", listed)
    entries = files.items() if isinstance(files, dict) else []
    hashes = {name: entry.get("sha256") if isinstance(entry, dict) else entry for name, entry in entries}
    return {name: digest for name, digest in hashes.items() if isinstance(digest, str) and len(digest) == 64}


def status_of(folder: Path, history: History) -> Status:
    """Return a run's status."""
    if is_locked(folder):
        return "running"
    if (folder / "guard_report.json").is_file():
        return "failed"
    return how_ended(history.events) or ("killed" if len(history.step) else "empty")


def how_ended(events: Sequence[Mapping[str, Any]]) -> Status | None:
    """Return the status in the trainer's last end event, None without one."""
    outcomes = (
        (pattern.match(str(event["event"])), status) for event in reversed(events) for pattern, status in ENDINGS
    )
    return next((status for match, status in outcomes if match), None)


def _event(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the event of a line, None if it has no text."""
    fields = {key: row[key] for key in (STEPS, "kind", "event") if isinstance(row.get(key), int | str)}
    return fields if isinstance(fields.get("event"), str) else None


def read_lines(path: Path, damage: list[str], *, running: bool, tail: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file; other lines, and repeated keys, are counted in `damage`.

    A cut-off last line is damage unless the run is `running`. With `tail`, only about that many bytes at the end.
    """
    try:
        data = read_regular(path, most=MOST_LOG) if tail is None else _read_tail(path, tail)
    except FileNotFoundError:
        return
    except OSError as error:
        damage.append(f"{path}: cannot be read ({error.strerror})")
        return
    *lines, rest = data.split(b"\n")
    wrong: list[int] = []
    repeated: list[int] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(items)
        repeated.extend([number] if len(content) < len(items) else [])
        return content

    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line, object_pairs_hook=pairs)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            yield row
        else:
            wrong.append(number)
    if repeated:
        first = repeated[0]
        damage.append(f"{path}: {len(repeated)} objects repeat a key, first in line {first}; the last value counts")
    if wrong:
        damage.append(f"{path}: {len(wrong)} lines are not JSON objects, first line {wrong[0]}; skipped")
    if rest and not running:
        damage.append(f"{path}: the last line is truncated after {len(rest)} bytes; skipped")


def _read_tail(path: Path, size: int) -> bytes:
    """Return the complete lines within the last `size` bytes, and the rest after them."""
    with os.fdopen(open_regular(path), "rb") as file:
        start = max(os.fstat(file.fileno()).st_size - size, 0)
        file.seek(start)
        data = file.read()
    return data.partition(b"\n")[2] if start else data


def _read_config(folder: Path) -> tuple[dict[str, Any], list[str]]:
    path = folder / CONFIG
    try:
        plain = read_yaml(read_regular_text(path).removeprefix("\ufeff"))
    except FileNotFoundError:
        return {}, [f"{path}: is missing"]
    except (OSError, ValueError) as error:
        return {}, [f"{path}: cannot be read ({error})"]
    if wrong := unusable_data(plain):
        return {}, [f"{path}: {wrong}; it is not read"]
    return (plain, []) if isinstance(plain, dict) else ({}, [f"{path}: is not a configuration"])


def _read_json(path: Path, damage: list[str]) -> Any:
    try:
        content = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        damage.append(f"{path}: cannot be read ({error})")
        return None
    if wrong := unusable_data(content):
        damage.append(f"{path}: {wrong}; it is not read")
        return None
    return content


def _object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file, empty if it cannot be read."""
    content = _read_json(path, [])
    return content if isinstance(content, dict) else {}


def _kind(name: str) -> str:
    top = name.split("/")[0]
    if top in ("state", "pool", "adapters") or (top == "final" and "/" in name):
        return {"state": "training state", "pool": "snapshot", "adapters": "adapter", "final": "model"}[top]
    if name.startswith("events.out.tfevents."):
        return "log"
    stem = Path(name).name.split(".")[0]
    if stem in ("eval", "sprt", "payoff"):
        return "evaluation"
    return KINDS.get(Path(name).suffix, "file")
