"""Positions and moves as text: FEN and UCI, with a shared check and comparison of positions.

Every position from outside passes `check_position`: those of options, files and prompts must be able to occur in a game
of standard chess. `chess.Board` accepts two kings and silently drops the castling rights of Chess960. In random games
every legal move is equally likely.
"""

from __future__ import annotations

import re

import chess
import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.reasoning import END_MARK, headed_answer, without_reasoning

FIELDS = 6
"""Fields of a FEN: board, turn, castling, en passant, half-move clock, full-move number."""
UCI = re.compile(r"[a-h][1-8][a-h][1-8][qrbnQRBN]?")
"""A move as text. A capital promotion letter is read, but names no legal move."""
_LABEL = re.compile(r"\b[MB]:")
SHOWN = 100
"""Characters of a FEN in messages; none is longer."""
GIVE = "give a position that can occur in standard chess, as FEN"


def read_position(fen: str) -> chess.Board | None:
    """Return the position that an answer writes, also an impossible one, or None if python-chess rejects the FEN."""
    try:
        return chess.Board(fen)
    except ValueError:
        return None


def check_position(fen: str, named: str = "position", *, playable: bool = False) -> chess.Board:
    """Return the position of a FEN; raises `InputError`, with what is `named`, if it is impossible.

    Args:
        fen: the text; missing fields take python-chess's defaults.
        named: where it comes from, for the message.
        playable: refuse also a position in which the game is over.

    """
    named = f"{named} {fen[:SHOWN]!r}"
    try:
        board = chess.Board(fen)
    except ValueError as error:
        raise InputError(f"{named}: is not a FEN ({str(error)[:SHOWN]}); {GIVE}") from error
    refuse_impossible(board, named)
    if playable and (outcome := board.outcome()):
        raise InputError(f"{named}: the game is over ({outcome.termination.name.lower()}); {GIVE}")
    return board


def refuse_impossible(board: chess.Board, named: str = "") -> None:
    """Raise `InputError` for a position, called `named`, that is impossible in standard chess."""
    status = board.status()
    if status == chess.STATUS_BAD_CASTLING_RIGHTS and not board.chess960:
        board = board.copy(stack=False)
        board.chess960 = True
        status &= board.status()  # none is left of a position of Chess960
    faults = ", ".join(flag.name.lower() for flag in chess.Status if flag and flag in status and flag.name)
    why = f"is impossible ({faults})" if faults else "is a Chess960 position" if board.chess960 else ""
    if why:
        raise InputError(f"{named or f'position {board.fen()!r}'}: {why}; {GIVE}")


def possible_position(fen: str) -> chess.Board | None:
    """Return the position of a FEN, None if `check_position` refuses it."""
    try:
        return check_position(fen)
    except InputError:
        return None


def read_legal_move(board: chess.Board, uci: str) -> chess.Move | None:
    """Return the legal move, or None. `Board.push` accepts illegal moves, so legality is tested by membership."""
    try:
        move = chess.Move.from_uci(uci)
    except ValueError:
        return None
    return move if move in board.legal_moves else None


def position_after(board: chess.Board, move: chess.Move) -> chess.Board:
    """Return the position after a legal move, without the moves before it."""
    after = board.copy(stack=False)
    after.push(move)
    return after


def same_position(fen: str, expected: str) -> bool:
    """Compare the six fields of two FENs one by one; fields after the sixth are ignored, fewer never agree."""
    fields, true = fen.split(), expected.split()
    return len(fields) >= FIELDS and fields[:FIELDS] == true[:FIELDS]


def collapse(text: str) -> str:
    """Return a model's answer without its reasoning, runs of white space as one space, for scoring only."""
    answer = headed_answer(without_reasoning(text, _holds_answer)[0], _holds_answer)
    after_marks = [answer[mark.end() :] for mark in END_MARK.finditer(answer)]  # special tokens outside the table
    answer = next((rest for rest in reversed(after_marks) if _holds_answer(rest)), answer)
    return re.sub(r"\s{2,}", " ", answer).strip()


def _holds_answer(text: str) -> bool:
    """Return whether a text has a label of the P task, or the three separators of the A task."""
    return bool(_LABEL.search(text)) or text.count("+") >= 3


def edit_similarity(text: str, expected: str) -> float:
    """Return 1 - Levenshtein distance / length of the longer text, in [0, 1]; 1 for two empty texts."""
    longest = max(len(text), len(expected))
    if not longest:
        return 1.0
    row = list(range(len(expected) + 1))
    for i, letter in enumerate(text, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(expected, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (letter != other))
    return 1.0 - row[-1] / longest


def random_move(board: chess.Board, draw: np.random.Generator) -> chess.Move | None:
    """Return a random legal move, or None. The result depends on the position and the draw only."""
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
