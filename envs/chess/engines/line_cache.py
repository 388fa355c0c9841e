"""Lines that engines have found, in a SQLite file keyed by engine version, depth, number of lines and FEN.

Every search is stored as soon as it ends, so a run that fails later keeps it. Several runs may share a file.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from threading import Lock

from sparring.configs.core.errors import InputError
from sparring.envs.chess.engines.lines import Line

WAIT = 60.0
"""Seconds to wait for another process that writes."""
_TABLE = """CREATE TABLE IF NOT EXISTS lines (
    engine TEXT, depth INTEGER, multipv INTEGER, fen TEXT, found TEXT, PRIMARY KEY (engine, depth, multipv, fen)
) WITHOUT ROWID"""


class LineCache:
    """Cache of one engine version and depth; in memory if `path` is None. Safe for use by several threads."""

    def __init__(self, path: Path | None, engine: str, depth: int) -> None:
        self._key, self._lock = (engine, depth), Lock()
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._store = sqlite3.connect(path or ":memory:", timeout=WAIT, check_same_thread=False)
            # Readers and one writer at a time; a power cut may cost the last searches, but not the file.
            self._store.execute("PRAGMA journal_mode=WAL")
            self._store.execute("PRAGMA synchronous=NORMAL")
            self._store.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"cache {path}: cannot be used ({error}); delete it or give another path") from error

    def get(self, fen: str, count: int) -> list[Line] | None:
        """Return the stored lines, None if there are none."""
        query = "SELECT found FROM lines WHERE engine = ? AND depth = ? AND multipv = ? AND fen = ?"
        with self._lock:
            row = self._store.execute(query, (*self._key, count, fen)).fetchone()
        return [(str(move), float(value)) for move, value in json.loads(row[0])] if row else None

    def searches(self, engine: str) -> int:
        """Return the number of searches at this depth that are stored for an engine version."""
        query = "SELECT COUNT(*) FROM lines WHERE engine = ? AND depth = ?"
        with self._lock:
            return int(self._store.execute(query, (engine, self._key[1])).fetchone()[0])

    def put(self, fen: str, count: int, found: list[Line]) -> None:
        """Store lines, at once."""
        row = (*self._key, count, fen, json.dumps(found))
        with self._lock, self._store:
            self._store.execute("INSERT OR REPLACE INTO lines VALUES (?, ?, ?, ?, ?)", row)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._store.close()
