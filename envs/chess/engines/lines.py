"""Lines of an engine: a move in UCI and its value in pawns from the side to move; mate in n is ±(10000 - n) / 100."""

from __future__ import annotations

from typing import Protocol

import chess

Line = tuple[str, float]
MATE_SCORE = 10000
"""Centipawns."""
VALUES_VERSION = 2
"""Version of what counts as a UCI engine's value, a part of every cache key; before 2 also bounds and `mate 0` did."""


class Searcher(Protocol):
    """One search at a time, from one process or none. Equal arguments give equal lines, in any order of calls."""

    def lines(self, fen: str, count: int) -> list[Line]:
        """Return up to `count` best moves with their values, best first; the position has a legal move."""

    def close(self) -> None:
        """End the process."""


def value_when_over(board: chess.Board) -> float | None:
    """Return the value of a position without legal moves: mated or stalemate; None if there are legal moves."""
    if any(board.generate_legal_moves()):
        return None
    return -MATE_SCORE / 100 if board.is_check() else 0.0
