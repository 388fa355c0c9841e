"""Random games: every legal move is equally likely."""

from __future__ import annotations

import chess
import numpy as np


def random_move(board: chess.Board, draw: np.random.Generator) -> chess.Move | None:
    """Return a random legal move, None if there is none. The result depends on the position and the draw only."""
    legal = sorted(board.legal_moves, key=chess.Move.uci)
    return legal[int(draw.integers(len(legal)))] if legal else None


def random_position(draw: np.random.Generator, plies: int) -> chess.Board:
    """Return the board, with its moves, after `plies` random half-moves; fewer if the next one would end the game."""
    board = chess.Board()
    for _ in range(plies):
        move = random_move(board, draw)
        assert move is not None
        board.push(move)
        if board.is_game_over():
            board.pop()
            break
    return board
