"""Positions and moves as text: FEN and UCI, with one comparison of positions for rewards and evaluations alike."""

from __future__ import annotations

import re

import chess

FIELDS = 6
"""Fields of a FEN: board, turn, castling, en passant, half-move clock, full-move number."""
UCI = re.compile(r"[a-h][1-8][a-h][1-8][qrbnQRBN]?")
"""A move as text. A capital promotion letter is read, but names no legal move."""


def read_position(fen: str) -> chess.Board | None:
    """Return the position, or None if python-chess rejects the FEN; missing fields take its defaults."""
    try:
        return chess.Board(fen)
    except ValueError:
        return None


def read_legal_move(board: chess.Board, uci: str) -> chess.Move | None:
    """Return the legal move, or None. `Board.push` accepts illegal moves, so legality is tested by membership."""
    try:
        move = chess.Move.from_uci(uci)
    except ValueError:
        return None
    return move if move in board.legal_moves else None


def same_position(fen: str, expected: str) -> bool:
    """Compare the six fields of two FENs one by one; fields after the sixth are ignored, fewer never agree."""
    found, true = fen.split(), expected.split()
    return len(found) >= FIELDS and found[:FIELDS] == true[:FIELDS]


def collapse(text: str) -> str:
    """Return the text with runs of white space as one space and without white space at the ends, for scoring only."""
    return re.sub(r"\s{2,}", " ", text).strip()


def edit_similarity(text: str, expected: str) -> float:
    """Return 1 - Levenshtein distance / length of the longer text, in [0, 1]; 1 for two empty texts."""
    longest = max(len(text), len(expected))
    if not longest:
        return 1.0
    row = list(range(len(expected) + 1))
    for i, left in enumerate(text, 1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(expected, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right))
    return 1.0 - row[-1] / longest
