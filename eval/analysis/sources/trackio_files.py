"""Project files of trackio, `PROJECT.db`, read and written with the sqlite3 of Python; the package is not needed.

A file holds the runs of one project. `metrics` has a row per `trackio.log` (run_id, ISO time, run_name, step, JSON),
`configs` one per run, `alerts` titles and texts. The file does not record how a run ended: the last event logged by
Sparring's trainers decides, and a run without one reads as completed. Layout: trackio 0.43, version 2.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sparring.agents.run.logger import run_tags
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import check_file
from sparring.eval.analysis.record import (
    History,
    RunRecord,
    history_rows,
    matching_id,
    newest_first,
    unique_names,
)
from sparring.eval.analysis.sources import reading
from sparring.eval.analysis.sources.run_folders import how_ended

SUFFIX = ".db"
DIRECTORY = "TRACKIO_DIR"
"""Environment variable of trackio: where it keeps its files."""
NEWEST_VERSION = 2
"""Newest supported layout, `PRAGMA user_version`; 0 before layouts were numbered."""
LONGEST_CELL = 1 << 24
"""Most bytes of a row or a cell."""
LEAST_WORK, WORK_UNIT = 20_000_000, 100_000
"""Instructions of SQLite for a connection, beside one for each byte of the file, and those between two checks.

A whole project takes about twenty for a row, which has at least fifty bytes. An endless statement ends within seconds.
"""
MOST_RUNS = 2000
"""Most runs listed of a file."""
RESERVED = "_"
"""First character of trackio's own keys in a configuration: _Username, _Created, _Group."""
LAYOUT = """
CREATE TABLE IF NOT EXISTS metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL,
    timestamp TEXT NOT NULL, run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS configs (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL,
    run_name TEXT NOT NULL, config TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE(run_id));
"""


class TrackioFiles:
    """Runs in the project files in `root`, in `root`/trackio and in TRACKIO_DIR, of one `project` if given.

    With `beside_folders` a run is skipped if `root` has a run folder of that name, which has better logs.
    """

    name = "trackio"

    def __init__(self, root: Path, project: str = "", *, beside_folders: bool = False) -> None:
        self.root, self.project, self.beside_folders = root, project.rpartition("/")[2], beside_folders
        self._damage: list[RunRecord] = []

    def runs(self) -> list[RunRecord]:
        """Return the runs, newest first; a file that cannot be read is one empty run with the damage."""
        runs = self._runs()
        names = unique_names({id: name for id, (name, _) in runs.items()})
        listed = ((names[id], str(path), partial(self._record, id, path, names[id])) for id, (_, path) in runs.items())
        return [*newest_first(self.name, listed), *self._damage]

    def names(self) -> list[str]:
        """Return names and ids of the runs."""
        runs = self._runs()
        return [*runs, *(name for name, _ in runs.values())]

    def record(self, id: str) -> RunRecord:
        """Return one run, by its name, id or NAME:ID."""
        run, name, path = self._find(id)
        return self._record(run, path, name)

    def history(self, id: str) -> History:
        """Return a run's rows."""
        run, _, path = self._find(id)
        return _history(path, run)

    def artifacts(self, id: str) -> list[dict[str, Any]]:
        """Return the project file."""
        return reading.log_entries([self._find(id)[2]])

    def _find(self, text: str) -> tuple[str, str, Path]:
        runs = self._runs()
        names = {id: name for id, (name, _) in runs.items()}
        id = matching_id(text, names, f"the trackio files in {self.root}")
        return id, unique_names(names)[id], runs[id][1]

    def _runs(self) -> dict[str, tuple[str, Path]]:
        """Return name and file of each run by its id."""
        runs: dict[str, tuple[str, Path]] = {}
        self._damage = []
        for path in self._files():
            try:
                with closing(_open(path)) as file:
                    key = _run_key(file)
                    query = f"SELECT DISTINCT {key}, run_name FROM metrics LIMIT {MOST_RUNS + 1}"
                    rows = file.execute(query).fetchall()
                if len(rows) > MOST_RUNS:
                    raise InputError(f"more than {MOST_RUNS} runs")
            except (sqlite3.Error, OSError, InputError) as error:
                damage = (f"{path}: cannot be read ({error})",)
                self._damage.append(RunRecord(path.stem, self.name, str(path), "empty", 0.0, 0.0, damage=damage))
                continue
            for id, name in rows:
                if not (self.beside_folders and reading.is_run_folder(self.root / str(name))):
                    runs[str(id)] = str(name), path
        return runs

    def _files(self) -> list[Path]:
        directory = os.environ.get(DIRECTORY)
        places = dict.fromkeys([self.root, self.root / "trackio", *([Path(directory)] if directory else [])])
        files = sorted(path for folder in places if folder.is_dir() for path in folder.glob(f"*{SUFFIX}"))
        return [path for path in files if _is_project(path) and self.project in ("", path.stem)]

    def _record(self, id: str, path: Path, name: str) -> RunRecord:
        history = _history(path, id)
        config, created = _config(path, id)
        group = config.pop("_Group", None)
        times = history.timestamp[history.timestamp > 0]
        return RunRecord(
            id=name,
            source=self.name,
            path=str(path),
            status=how_ended(history.events) or ("completed" if len(history.step) else "empty"),
            created=created or (float(times[0]) if len(times) else path.stat().st_mtime),
            updated=float(times[-1]) if len(times) else path.stat().st_mtime,
            config={key: value for key, value in config.items() if key[:1] != RESERVED},
            summary={**reading.summary_of(history), "run_id": id, "project": path.stem},
            tags=run_tags(config),
            damage=history.damage,
            notes=history.notes,
            group=str(group or ""),
        )


def append_run(path: Path, record: RunRecord, history: History) -> None:
    """Add a run to the project file `path`, which is created; trackio's dashboard shows it like its own.

    Raises `InputError` if the file has a run of this name, or is not a file of trackio.
    """
    times = history.timestamp
    rows = []
    for i, row in enumerate(history_rows(history)):
        cells = {key: value for key, value in row.items() if key[:1] != RESERVED}
        rows.append((_iso(times[i] if times[i] == times[i] else record.created), row["_step"], json.dumps(cells)))
    first = float(times[0]) if len(times) and times[0] == times[0] else record.created
    for event in history.events:
        steps = {reading.STEPS: event[reading.STEPS]} if event.get(reading.STEPS, -1) >= 0 else {}
        cells = steps | {str(event.get("kind", "info")): event["event"]}
        rows.append((_iso(first), 0, json.dumps(cells)))
    created = _iso(record.created)
    config = {**record.config, "_Username": "", "_Created": created, "_Group": record.group or None}
    id = secrets.token_hex(16)
    _check_files(path)
    try:
        with closing(sqlite3.connect(path)) as file, file:
            new = _check_version(file) == 0
            file.executescript(LAYOUT)
            if file.execute("SELECT 1 FROM metrics WHERE run_name = ?", (record.id,)).fetchone():
                raise InputError(f"--output {path}: already contains a run {record.id!r}; choose another file")
            if new:
                file.execute(f"PRAGMA user_version = {NEWEST_VERSION}")
            file.executemany(
                "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?, ?)",
                [(id, time, record.id, step, cells) for time, step, cells in rows],
            )
            file.execute(
                "INSERT INTO configs (run_id, run_name, config, created_at) VALUES (?, ?, ?, ?)",
                (id, record.id, json.dumps(config, default=str), created),
            )
    except sqlite3.Error as error:
        raise InputError(f"--output {path}: cannot be written ({error}); choose another file") from error


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _is_project(path: Path) -> bool:
    """Return True for a file of SQLite with a table of metrics, and for one that cannot be read as such."""
    try:
        with closing(_open(path)) as file:
            return _has_table(file, "metrics")
    except (sqlite3.Error, OSError, InputError):
        return True


def _check_files(path: Path) -> None:
    """Raise `IrregularFileError` if the file or one of SQLite's side files is a link or not a regular file."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        check_file(path.with_name(path.name + suffix))


def _has_table(file: sqlite3.Connection, name: str) -> bool:
    """Return whether the file has a table of its own of that name: a view or a virtual table computes its rows."""
    query = "SELECT 1 FROM sqlite_master WHERE name = ? AND type = 'table' AND rootpage > 0"
    return file.execute(query, (name,)).fetchone() is not None


def _open(path: Path) -> sqlite3.Connection:
    """Open a project file for reading, with bounds on the work and the memory of each connection.

    Raises `InputError` for a newer layout or a file that is too large, and `IrregularFileError` for a link.
    """
    _check_files(path)
    size = path.stat().st_size
    if size > reading.MOST_LOG:
        raise InputError(f"larger than {reading.MOST_LOG} bytes")
    # Without a write-ahead log no process is writing; immutable=1 keeps SQLite from creating side files.
    written = path.with_name(f"{path.name}-wal").exists()
    file = sqlite3.connect(f"file:{quote(str(path.resolve()))}?{'mode=ro' if written else 'immutable=1'}", uri=True)
    budget = iter(range((LEAST_WORK + size) // WORK_UNIT))
    file.set_progress_handler(lambda: next(budget, None) is None, WORK_UNIT)
    file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_CELL)
    file.execute("PRAGMA query_only = ON")
    file.execute("PRAGMA trusted_schema = OFF")
    _check_version(file)
    return file


def _check_version(file: sqlite3.Connection) -> int:
    """Return the number of the file's layout. Raises `InputError` for a newer one."""
    version = int(file.execute("PRAGMA user_version").fetchone()[0])
    if version > NEWEST_VERSION:
        raise InputError(f"trackio layout {version}: supported are 0 to {NEWEST_VERSION}; update Sparring")
    return version


def _run_key(file: sqlite3.Connection) -> str:
    """Return the column that names a run; files before trackio 0.24 may have no ids."""
    columns = {row[1] for row in file.execute("PRAGMA table_info(metrics)")}
    return "run_id" if "run_id" in columns else "run_name"


def _history(path: Path, id: str) -> History:
    """Read a run's rows; the last answer is kept while the file does not change."""
    log = path.with_name(f"{path.name}-wal")
    versions = tuple((part.stat().st_size, part.stat().st_mtime_ns) for part in (path, log) if part.exists())
    return _read_history(path, id, versions)


@lru_cache(maxsize=2)
def _read_history(path: Path, id: str, versions: tuple[tuple[int, int], ...]) -> History:
    table, events, damage, wrong = reading.RowTable(), list[dict[str, Any]](), list[str](), list[Any]()
    try:
        with closing(_open(path)) as file:
            key = _run_key(file)
            query = f"SELECT id, timestamp, step, metrics FROM metrics WHERE {key} = ? ORDER BY id"
            for number, time, step, text in file.execute(query, (id,)):
                if (row := _object(text)) is None:
                    wrong.append(number)
                    continue
                stamp = [("_timestamp", seconds)] if (seconds := _seconds(time)) else []
                reading.add_logged(table, events, [*stamp, *row.items()], step=step if isinstance(step, int) else 0)
            events += _alerts(file, id)
    except (sqlite3.Error, OSError, InputError) as error:
        damage.append(f"{path}: cannot be read ({error})")
    if wrong:
        rest = f", nor are {len(wrong) - 1} more" if len(wrong) > 1 else ""
        damage.append(f"{path}: row {wrong[0]} is not a JSON object{rest}; skipped")
    return table.history(events, damage)


def _alerts(file: sqlite3.Connection, id: str) -> Iterator[dict[str, Any]]:
    """Yield `trackio.alert`s as events; older files do not have alerts."""
    with suppress(sqlite3.OperationalError):
        if not _has_table(file, "alerts"):
            return
        for title, text in file.execute("SELECT title, text FROM alerts WHERE run_id = ? ORDER BY id", (id,)):
            yield {reading.STEPS: -1, "kind": "alert", "event": ": ".join(str(part) for part in (title, text) if part)}


def _config(path: Path, id: str) -> tuple[dict[str, Any], float]:
    """Return a run's configuration and when it began, empty and 0 where unknown."""
    with suppress(sqlite3.Error, OSError, InputError), closing(_open(path)) as file:
        if not _has_table(file, "configs"):
            return {}, 0.0
        query = f"SELECT config, created_at FROM configs WHERE {_run_key(file)} = ?"
        for text, created in file.execute(query, (id,)):
            return _object(text) or {}, _seconds(created)
    return {}, 0.0


def _object(text: Any) -> dict[str, Any] | None:
    value = reading.parse_json(text)
    return value if isinstance(value, dict) else None


def _seconds(text: Any) -> float:
    """Return unix seconds of an ISO time, 0 for other values."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, TypeError, OverflowError, OSError):
        return 0.0
