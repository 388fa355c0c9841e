"""Engine of the chess tasks: best moves and values of positions, from several processes and a cache.

`open_engine()` takes Stockfish from the PATH (`apt-get install stockfish`). Without it, the built-in search is used;
this is printed, and `Engine.name` appears in logs, metrics and tables. Every search is stored in the cache as soon as
it ends, so a run that fails later keeps it. Several runs may share its file.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from types import TracebackType

import chess

from sparring.configs.core.errors import InputError
from sparring.configs.core.status import say
from sparring.envs.chess.engines import searchers as uci
from sparring.envs.chess.engines.searchers import Line, Searcher
from sparring.envs.chess.positions import refuse_impossible

BUILT_IN = "builtin"
"""Path that selects the built-in search."""
MOST_DEPTH, MOST_PROCESSES = 60, 256
LOCK_TIMEOUT_S = 60.0
"""Seconds to wait for another process that writes."""
_TABLE = """CREATE TABLE IF NOT EXISTS lines (
    engine TEXT, depth INTEGER, multipv INTEGER, fen TEXT, found TEXT, PRIMARY KEY (engine, depth, multipv, fen)
) WITHOUT ROWID"""


class Engine:
    """Best moves and values of positions, in pawns from the side to move; a `Truth` of the P reward.

    A context manager. Every method raises `InputError` naming the position if it is impossible or the engine fails
    twice on it. Other positions of the same batch are still searched and stored.

    Attributes:
        name: engine, version and depth, for logs, metrics and tables.
        stand_in: True for the built-in search.

    """

    def __init__(self, searchers: Sequence[Searcher], cache: LineCache, name: str, *, stand_in: bool = False) -> None:
        self.name, self.stand_in = name, stand_in
        self._searchers, self._cache = list(searchers), cache
        self._free: SimpleQueue[Searcher] = SimpleQueue()
        for searcher in searchers:
            self._free.put(searcher)
        self._pool = ThreadPoolExecutor(len(searchers))

    def top_moves(self, board: chess.Board, count: int) -> list[Line]:
        """Return up to `count` best moves in UCI with their values, best first; empty without a legal move."""
        return self.batch_top_moves([board], count)[0]

    def value(self, board: chess.Board) -> float:
        """Return the value of a position for the side to move, -100.0 if it is mated."""
        return self.batch_values([board])[0]

    def batch_top_moves(self, boards: Sequence[chess.Board], count: int) -> list[list[Line]]:
        """Return `top_moves` of every position; the processes search in parallel."""
        if count < 1:
            raise InputError(f"count={count}: must be at least 1")
        for board in boards:
            refuse_impossible(board)
        over = [uci.value_when_over(board) is not None for board in boards]
        fens = ["" if done else board.fen() for board, done in zip(boards, over, strict=True)]
        lines = self._find([fen for fen in dict.fromkeys(fens) if fen], count)
        return [lines[fen] if fen else [] for fen in fens]

    def batch_values(self, boards: Sequence[chess.Board]) -> list[float]:
        """Return `value` of every position; the processes search in parallel."""
        best = self.batch_top_moves(boards, 1)
        return [
            lines[0][1] if lines else float(uci.value_when_over(board) or 0.0)
            for board, lines in zip(boards, best, strict=True)
        ]

    def close(self) -> None:
        """Stop the processes and close the cache."""
        self._pool.shutdown()
        for searcher in self._searchers:
            searcher.close()
        self._cache.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _find(self, fens: Sequence[str], count: int) -> dict[str, list[Line]]:
        """Return the lines of different positions. A failure is raised when all searches have ended."""
        stored = {fen: self._cache.get(fen, count) for fen in fens}
        jobs = {fen: self._pool.submit(self._search, fen, count) for fen, lines in stored.items() if lines is None}
        wait(jobs.values())
        return {fen: jobs[fen].result() if lines is None else lines for fen, lines in stored.items()}

    def _search(self, fen: str, count: int) -> list[Line]:
        searcher = self._free.get()
        try:
            lines = searcher.lines(fen, count)
        finally:
            self._free.put(searcher)
        self._cache.put(fen, count, lines)
        return lines


def open_engine(path: str = "", *, depth: int = 10, processes: int = 1, cache: Path | None = None) -> Engine:
    """Return Stockfish, or the built-in search with a message on stderr if Stockfish is not installed.

    Args:
        path: path of a UCI engine; empty: Stockfish on the PATH; "builtin": the built-in search.
        depth: half-moves of a search, 1 to 60; the built-in search always has 2.
        processes: engine processes, 1 to 256.
        cache: SQLite file; None: only in memory.

    Raises `InputError` for values outside these ranges, and for a `path` that is not a UCI engine.

    """
    for name, value, most in (("depth", depth, MOST_DEPTH), ("processes", processes, MOST_PROCESSES)):
        if not 1 <= value <= most:
            raise InputError(f"engine {name}={value}: must be in [1, {most}]")
    program = None if path == BUILT_IN else uci.find_stockfish(path)
    if program is None:
        return _built_in(cache, chosen=path == BUILT_IN)
    first = uci.UciProcess(program, depth)
    lines = LineCache(cache, f"{first.version}, values {uci.VALUES_VERSION}", depth)
    if old := lines.searches(first.version):  # earlier versions of the project stored the name alone
        say(f"cache {cache}: {old} searches of {first.version} may hold bounds as values; they are no longer used")
    rest = [uci.UciProcess(program, depth) for _ in range(processes - 1)]
    return Engine([first, *rest], lines, f"{first.version}, depth {depth}")


def _built_in(cache: Path | None, *, chosen: bool) -> Engine:
    name = f"{uci.VERSION} (material and mobility), depth {uci.DEPTH}"
    if not chosen:
        say(f"Stockfish is not installed ({uci.INSTALL}): {name}, is used instead; its values are weak")
    return Engine([uci.BuiltInSearch()], LineCache(cache, uci.VERSION, uci.DEPTH), name, stand_in=True)


class LineCache:
    """Cache of one engine version and depth; in memory if `path` is None. Safe for use by several threads."""

    def __init__(self, path: Path | None, engine: str, depth: int) -> None:
        self._key, self._lock = (engine, depth), Lock()
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._store = sqlite3.connect(path or ":memory:", timeout=LOCK_TIMEOUT_S, check_same_thread=False)
            # Readers and one writer at a time; a power cut may cost the last searches, but not the file.
            self._store.execute("PRAGMA journal_mode=WAL")
            self._store.execute("PRAGMA synchronous=NORMAL")
            self._store.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"cache {path}: cannot be used ({error}); delete it or give another path") from error

    def get(self, fen: str, count: int) -> list[Line] | None:
        """Return the stored lines, or None."""
        query = "SELECT found FROM lines WHERE engine = ? AND depth = ? AND multipv = ? AND fen = ?"
        with self._lock:
            row = self._store.execute(query, (*self._key, count, fen)).fetchone()
        return [(str(move), float(value)) for move, value in json.loads(row[0])] if row else None

    def searches(self, engine: str) -> int:
        """Return the number of searches at this depth that are stored for an engine version."""
        query = "SELECT COUNT(*) FROM lines WHERE engine = ? AND depth = ?"
        with self._lock:
            return int(self._store.execute(query, (engine, self._key[1])).fetchone()[0])

    def put(self, fen: str, count: int, lines: list[Line]) -> None:
        """Store lines, at once."""
        row = (*self._key, count, fen, json.dumps(lines))
        with self._lock, self._store:
            self._store.execute("INSERT OR REPLACE INTO lines VALUES (?, ?, ?, ?, ?)", row)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._store.close()
