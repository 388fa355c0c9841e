"""Truth of the P reward from labels alone, to score reference answers without an engine."""

from __future__ import annotations

from collections.abc import Mapping

import chess

from sparring.envs.chess.analysis_text import Analysis


class LabelTruth:
    """The labels' moves and values; `analyses` by FEN. A value after a move is that of its line.

    An engine that searches the position after the move may find another value, so rewards are approximate.
    """

    def __init__(self, analyses: Mapping[str, Analysis]) -> None:
        self._analyses = dict(analyses)
        self._after = {
            fen_after(fen, move): -value
            for fen, analysis in analyses.items()
            for move, value in zip(analysis.moves, analysis.evaluations, strict=True)
        }

    def top_moves(self, board: chess.Board, count: int) -> list[tuple[str, float]]:
        """Return the label's moves, best first."""
        analysis = self._analyses[board.fen()]
        lines = zip(analysis.moves, analysis.evaluations, strict=True)
        return sorted(lines, key=lambda line: (line[0] != analysis.best, -line[1]))[:count]

    def value(self, board: chess.Board) -> float:
        """Return the value of a position after one of the label's moves; 0 for any other."""
        return self._after.get(board.fen(), 0.0)


def fen_after(fen: str, move: str) -> str:
    """Return the position after a legal move."""
    board = chess.Board(fen)
    board.push_uci(move)
    return board.fen()
