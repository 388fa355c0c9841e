"""Built-in search, which stands in for Stockfish: material and mobility, two half-moves deep, without randomness.

After two half-moves a position is worth its material (1, 3, 3, 5, 9 pawns) plus 0.05 pawns per square that a piece
attacks and its own side does not hold, each less the same of the opponent. It is weak: it keeps a run going, and is no
source of labels.
"""

from __future__ import annotations

import chess

from sparring.envs.chess.engines.lines import MATE_SCORE, Line

DEPTH = 2
"""Half-moves."""
VERSION = "built-in search 1"
"""Increased with any change that alters a value."""
MATERIAL = {chess.PAWN: 100, chess.KNIGHT: 300, chess.BISHOP: 300, chess.ROOK: 500, chess.QUEEN: 900}
"""Centipawns, as all values inside the search: whole numbers, so equal values are equal."""
PER_SQUARE = 5
MATE_IN_ONE = MATE_SCORE - 1
BOUND = 2 * MATE_SCORE


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
        """Do nothing; there is no process."""


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
    own = board.occupied_co[side]
    squares = sum((board.attacks_mask(square) & ~own).bit_count() for square in chess.scan_forward(own))
    return sum(worth * len(board.pieces(kind, side)) for kind, worth in MATERIAL.items()) + PER_SQUARE * squares


def _ordered(board: chess.Board) -> list[chess.Move]:
    """Return the legal moves, captures first, which lets the search cut more; the order does not change its result."""
    return sorted(board.legal_moves, key=lambda move: (not board.is_capture(move), move.uci()))
