"""Searchers of the engine: Stockfish over UCI in its own process, and the built-in search as a fallback.

Lines are moves in UCI with values in pawns from the side to move; mate in n is ±(10000 - n) / 100.

Stockfish searches to a fixed depth with one thread, and begins a new game before every search. This clears hash and
histories, so a search depends only on its position. Only exact values of the engine's deepest iteration count. A
process that ends or sends invalid output is restarted once; the second failure in the same search is an error that
names the position.

The built-in search looks two half-moves deep, without randomness. A position's value is its material (1, 3, 3, 5, 9
pawns) plus 0.05 pawns per square that a piece attacks and its own side does not hold. The opponent's value is
subtracted. It is weak: a run can continue with it, but do not use it for labels.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import shutil
from contextlib import suppress
from pathlib import Path

import chess
import chess.engine

from sparring.configs.core.device import in_daemon_thread
from sparring.configs.core.errors import InputError

HASH = 32
"""MB of the hash table."""
INSTALL = "apt-get install stockfish"
SEARCH_TIMEOUT_S = 600.0
"""Seconds for one search; an engine that takes longer has failed, as its answer would depend on the machine."""
PLACES = ("stockfish", "/usr/games/stockfish")
"""Names and paths to look at; Debian's folder of games is not on every PATH."""
FAILURES = (chess.engine.EngineError, concurrent.futures.CancelledError, TimeoutError, OSError)
logging.getLogger("chess.engine").addHandler(logging.NullHandler())  # an unreadable line prints no traceback
Line = tuple[str, float]
MATE_SCORE = 10000
"""Centipawns."""
VALUES_VERSION = 2
"""Version of what counts as a UCI engine's value, a part of every cache key; before 2 also bounds and `mate 0` did."""
DEPTH = 2
"""Half-moves."""
VERSION = "built-in search 1"
"""Increased with any change that alters a value."""
MATERIAL = {chess.PAWN: 100, chess.KNIGHT: 300, chess.BISHOP: 300, chess.ROOK: 500, chess.QUEEN: 900}
"""Centipawns, as all values inside the search: whole numbers, so equal values are equal."""
PER_SQUARE = 5
MATE_IN_ONE = MATE_SCORE - 1
BOUND = 2 * MATE_SCORE


def find_stockfish(path: str = "") -> str | None:
    """Return the path of Stockfish, None if it is not installed; raises `InputError` if `path` is not a program."""
    if path:
        program = shutil.which(path)
        if program is None:
            raise InputError(f"engine {path!r}: is not an executable program; give Stockfish's path ({INSTALL})")
        return program
    return next((program for name in PLACES if (program := shutil.which(name))), None)


class UciProcess:
    """A UCI engine that searches to a fixed depth. Raises `InputError` if the program does not speak UCI."""

    def __init__(self, path: str, depth: int) -> None:
        self._path, self._depth = path, depth
        try:
            self._engine: chess.engine.SimpleEngine | None = self._start()
        except FAILURES as error:
            raise InputError(f"engine {path!r}: does not answer as a UCI engine; give Stockfish ({INSTALL})") from error
        self.version = str(self._engine.id.get("name", Path(path).name))

    def lines(self, fen: str, count: int) -> list[Line]:
        """Return up to `count` best moves with their values, best first."""
        try:
            return self._search(fen, count)
        except FAILURES:
            self.close()
        try:
            return self._search(fen, count)
        except FAILURES as error:
            self.close()
            raise InputError(
                f"engine {self._path!r}: failed twice at the position {fen!r} ({type(error).__name__}: {error}); "
                "earlier results are kept; leave the position out or give another engine"
            ) from error

    def close(self) -> None:
        """End the process; a later search starts another."""
        engine, self._engine = self._engine, None
        if engine is not None:
            with suppress(*FAILURES):
                engine.close()

    def _search(self, fen: str, count: int) -> list[Line]:
        if self._engine is None:
            self._engine = self._start()
        self._engine.ping()  # raises for a process that has ended since
        protocol, board = self._engine.protocol, chess.Board(fen)
        reports = SearchReports(min(count, board.legal_moves.count()), self._depth)

        async def search() -> None:
            limit = chess.engine.Limit(depth=self._depth)
            with await protocol.analysis(board, limit, multipv=count, game=object()) as analysis:
                async for info in analysis:
                    reports.add(info)
                reports.best = (await analysis.wait()).move

        # Not by the engine's clock: a hanging engine ignores it.
        running = asyncio.run_coroutine_threadsafe(search(), protocol.loop)
        try:
            running.result(SEARCH_TIMEOUT_S)
        except TimeoutError as error:
            raise TimeoutError(f"depth {self._depth} was not reached in {SEARCH_TIMEOUT_S:g} s") from error
        return reports.lines()

    def _start(self) -> chess.engine.SimpleEngine:
        # python-chess serves an engine in a thread of its own, a daemon if its creator is one. Any other would keep the
        # interpreter waiting at its end, before `atexit` closes the engine.
        engine = in_daemon_thread(lambda: chess.engine.SimpleEngine.popen_uci(self._path))
        if "MultiPV" not in engine.options:
            engine.close()
            raise chess.engine.EngineError("does not offer the option MultiPV")
        options = {"Threads": 1, "Hash": HASH}
        engine.configure({name: value for name, value in options.items() if name in engine.options})
        return engine


class SearchReports:
    """The `info` lines of one search for `count` moves to a depth; `best` is the move that ended it."""

    def __init__(self, count: int, depth: int) -> None:
        self._count, self._depth, self._deepest = count, depth, 0
        self.best: chess.Move | None = None
        self._exact: dict[int, dict[int, tuple[chess.Move | None, float]]] = {}

    def add(self, info: chess.engine.InfoDict) -> None:
        """Take a line with a score: by depth and number, the last exact one counts.

        Bounds do not count, and neither does `mate 0`: it says that the side to move is mated, but it has a move.
        """
        if "score" not in info:
            return
        depth, number, score = info.get("depth", 0), info.get("multipv", 1), info["score"].relative
        self._deepest = max(self._deepest, depth)
        if info.get("lowerbound") or info.get("upperbound") or score.mate() == 0:
            return
        exact = self._exact.setdefault(depth, {})
        if number == 1:
            exact.clear()  # the engine reports its moves again, in another order perhaps
        exact[number] = (next(iter(info.get("pv", ())), None), (score.score(mate_score=MATE_SCORE) or 0) / 100)

    def lines(self) -> list[Line]:
        """Return the lines of the requested depth, or of the depth at which the engine stopped.

        Raises `EngineError` if one of them is missing, not exact, or without a move.
        """
        depth = self._depth if self._deepest >= self._depth else self._deepest
        exact = self._exact.get(depth, {})
        if 1 in exact:
            exact[1] = (exact[1][0] or self.best, exact[1][1])
        reported = [exact[number] for number in range(1, self._count + 1) if number in exact]
        lines = [(move.uci(), value) for move, value in reported if move]
        different = len({move for move, _ in lines})
        if different < self._count:
            raise chess.engine.EngineError(
                f"sent exact values of {different} of the {self._count} best moves at depth {depth}"
            )
        return lines


def value_when_over(board: chess.Board) -> float | None:
    """Return the value of a position without legal moves: mated or stalemate; None if there are legal moves."""
    if any(board.generate_legal_moves()):
        return None
    return -MATE_SCORE / 100 if board.is_check() else 0.0


class BuiltInSearch:
    """Searcher without a process."""

    def lines(self, fen: str, count: int) -> list[Line]:
        """Return up to `count` best moves with their values, best first; equal values by the text of the moves."""
        board, best = chess.Board(fen), list[tuple[int, str]]()
        for move in _ordered(board):
            ceiling = best[count - 1][0] if len(best) >= count else BOUND
            board.push(move)
            best = sorted([*best, (_best_reply(board, ceiling), move.uci())])[:count]
            board.pop()
        return [(move, -value / 100) for value, move in best]

    def close(self) -> None:
        """Do nothing."""


def _best_reply(board: chess.Board, ceiling: int) -> int:
    """Return the value of a position for the side to move; any value above `ceiling` if it is above that."""
    if board.is_game_over():
        return -MATE_IN_ONE if board.is_checkmate() else 0
    best = -BOUND
    for reply in _ordered(board):
        board.push(reply)
        best = max(best, -_static_value(board))
        board.pop()
        if best > ceiling:
            break
    return best


def _static_value(board: chess.Board) -> int:
    if not any(board.generate_legal_moves()):
        return -MATE_IN_ONE if board.is_check() else 0
    if board.is_insufficient_material():
        return 0
    return _worth(board, board.turn) - _worth(board, not board.turn)


def _worth(board: chess.Board, side: chess.Color) -> int:
    """Return material and mobility of a side."""
    occupied = board.occupied_co[side]
    squares = sum((board.attacks_mask(square) & ~occupied).bit_count() for square in chess.scan_forward(occupied))
    return sum(worth * len(board.pieces(kind, side)) for kind, worth in MATERIAL.items()) + PER_SQUARE * squares


def _ordered(board: chess.Board) -> list[chess.Move]:
    """Return the legal moves, captures first, which lets the search cut more; the order does not change its result."""
    return sorted(board.legal_moves, key=lambda move: (not board.is_capture(move), move.uci()))


Searcher = UciProcess | BuiltInSearch
"""One search at a time, from one process or none. Equal arguments give equal lines, in any order of calls."""
