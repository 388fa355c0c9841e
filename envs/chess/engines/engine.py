"""Engine of the chess tasks: best moves and values of positions, from several processes and a cache.

`open_engine()` takes Stockfish from the PATH (`apt-get install stockfish`). Where it is missing, the built-in search
stands in; this is printed, and `Engine.name` goes into logs, metrics and tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType

import chess

from sparring.configs.core.errors import InputError
from sparring.configs.core.status import say
from sparring.envs.chess.engines.builtin_search import DEPTH, VERSION, BuiltInSearch
from sparring.envs.chess.engines.line_cache import LineCache
from sparring.envs.chess.engines.lines import VALUES_VERSION, Line, Searcher, value_when_over
from sparring.envs.chess.engines.uci_process import INSTALL, UciProcess, find_stockfish
from sparring.envs.chess.positions import refuse_impossible

BUILT_IN = "builtin"
"""Path that selects the built-in search."""
MOST_DEPTH, MOST_PROCESSES = 60, 256


class Engine:
    """Best moves and values of positions, in pawns from the side to move; a `Truth` of the P reward.

    A context manager. Every method raises `InputError` naming the position if it is impossible or if the engine fails
    at it twice; other positions of the same batch are searched and stored all the same.

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
        """Return up to `count` best moves in UCI with their values, best first; none if there is no legal move."""
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
        over = [value_when_over(board) is not None for board in boards]
        fens = ["" if done else board.fen() for board, done in zip(boards, over, strict=True)]
        found = self._find([fen for fen in dict.fromkeys(fens) if fen], count)
        return [found[fen] if fen else [] for fen in fens]

    def batch_values(self, boards: Sequence[chess.Board]) -> list[float]:
        """Return `value` of every position; the processes search in parallel."""
        found = self.batch_top_moves(boards, 1)
        return [
            lines[0][1] if lines else float(value_when_over(board) or 0.0)
            for board, lines in zip(boards, found, strict=True)
        ]

    def close(self) -> None:
        """End the processes and close the cache."""
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
            found = searcher.lines(fen, count)
        finally:
            self._free.put(searcher)
        self._cache.put(fen, count, found)
        return found


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
    found = None if path == BUILT_IN else find_stockfish(path)
    if found is None:
        return _built_in(cache, asked=path == BUILT_IN)
    first = UciProcess(found, depth)
    lines = LineCache(cache, f"{first.version}, values {VALUES_VERSION}", depth)
    if old := lines.searches(first.version):  # earlier versions of the project stored the name alone
        say(f"cache {cache}: {old} searches of {first.version} may hold bounds as values; they are not used any more")
    others = [UciProcess(found, depth) for _ in range(processes - 1)]
    return Engine([first, *others], lines, f"{first.version}, depth {depth}")


def _built_in(cache: Path | None, *, asked: bool) -> Engine:
    name = f"{VERSION} (material and mobility), depth {DEPTH}"
    if not asked:
        say(f"Stockfish is not installed ({INSTALL}): {name}, stands in; its values are weak")
    return Engine([BuiltInSearch()], LineCache(cache, VERSION, DEPTH), name, stand_in=True)
