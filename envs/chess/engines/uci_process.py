"""Stockfish in a process of its own, over UCI: fixed depth, one thread, and a new game before every search.

A new game clears hash and histories, so a search depends on nothing but its position. A process that ends or stops
making sense is started again once; the second failure in the same search is an error that names the position.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import chess
import chess.engine

from sparring.configs.core.errors import InputError
from sparring.envs.chess.engines.lines import MATE_SCORE, Line

HASH = 32
"""MB of the hash table."""
INSTALL = "apt-get install stockfish"
PATIENCE = 600.0
"""Seconds for one search; an engine that takes longer has failed, as its answer would depend on the machine."""
PLACES = ("stockfish", "/usr/games/stockfish")
"""Names and paths to look at; Debian's folder of games is not on every PATH."""
FAILURES = (chess.engine.EngineError, TimeoutError, OSError, KeyError)


def find_stockfish(path: str = "") -> str | None:
    """Return the path of Stockfish, None if it is not installed; raises `InputError` if `path` is no program."""
    if path:
        found = shutil.which(path)
        if found is None:
            raise InputError(f"engine {path!r}: is no program that can be run; give Stockfish's path ({INSTALL})")
        return found
    return next((found for place in PLACES if (found := shutil.which(place))), None)


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
                "what it had found is kept; leave the position out or give another engine"
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
        started = time.monotonic()
        limit = chess.engine.Limit(depth=self._depth, time=PATIENCE)
        found = self._engine.analyse(chess.Board(fen), limit, multipv=count, game=object())
        if time.monotonic() - started >= PATIENCE:
            raise TimeoutError(f"depth {self._depth} was not reached in {PATIENCE:.0f} s")
        return [(info["pv"][0].uci(), _pawns(info["score"])) for info in found]

    def _start(self) -> chess.engine.SimpleEngine:
        engine = _in_daemon(lambda: chess.engine.SimpleEngine.popen_uci(self._path))
        if "MultiPV" not in engine.options:
            engine.close()
            raise chess.engine.EngineError("has no option MultiPV")
        options = {"Threads": 1, "Hash": HASH}
        engine.configure({name: value for name, value in options.items() if name in engine.options})
        return engine


def _in_daemon(start: Callable[[], chess.engine.SimpleEngine]) -> chess.engine.SimpleEngine:
    """Return `start()`, called in a daemon thread.

    python-chess serves an engine in a thread of its own, which is a daemon if its creator is. Any other would keep the
    interpreter waiting at its end, before `atexit` closes the engine.
    """
    results: list[chess.engine.SimpleEngine] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            results.append(start())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _pawns(score: chess.engine.PovScore) -> float:
    return score.relative.score(mate_score=MATE_SCORE) / 100
