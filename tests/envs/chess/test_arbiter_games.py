"""The A task against python-chess over random games (400; 2,000 in `make slow`), counted by move and ending.

The expected answer comes from the game itself: its board, played on with all its moves, not from the FEN alone.
"""

import random
from collections import Counter

import chess
import numpy as np
import pytest

from sparring.envs.chess.arbiter import (
    arbiter_prompt,
    question_of,
    read_arbiter_prompt,
    score_transition,
    true_transition,
    write_transition,
)
from sparring.envs.chess.positions import random_move, same_position

CHECKED = 0.02
"""The share of ordinary moves that is checked; special ones all are."""
PLIES = 50
STARTS = (
    chess.STARTING_FEN,
    "8/PPPPPPPP/8/k7/7K/8/pppppppp/8 w - - 0 1",
    "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1",
    "4k3/1p1p1p1p/8/P1P1P1P1/1p1p1p1p/8/P1P1P1P1/4K3 w - - 0 1",
    "7k/8/8/8/8/8/5q2/K7 b - - 140 300",
    "8/8/8/4k3/8/8/1Q6/K7 b - - 0 1",
)


def kinds(board, move):
    """Return the special features of a legal move, by python-chess; empty for an ordinary one."""
    found = []
    if board.is_castling(move):
        found.append("kingside" if board.is_kingside_castling(move) else "queenside")
    if board.is_en_passant(move):
        found.append("en passant")
    if move.promotion:
        found.append(f"promotion to {chess.piece_name(move.promotion)}")
    corners = chess.BB_CORNERS | chess.BB_E1 | chess.BB_E8
    if board.castling_rights and not found and (chess.BB_SQUARES[move.from_square] & corners):
        found.append("castling right lost")
    return found


def ending(board, legal):
    """Return how a game ended without claims; empty if it continues. A FEN shows no repetition."""
    if not legal:
        return "mate" if board.is_check() else "stalemate"
    if board.is_insufficient_material():
        return "insufficient material"
    return "75 moves" if board.halfmove_clock >= 150 else ""


def check(before, move, after, moves, end):
    """Compare the answer for one move with the game."""
    prompt = arbiter_prompt(question_of(before, move.uci(), moves))
    question = read_arbiter_prompt(prompt)
    assert question.history == tuple([*moves, move.uci()][-10:])
    reward = "1.0" if end == "mate" else "0.5" if end else "0.001"
    truth = true_transition(question.fen, question.move)
    assert (truth.fen, truth.reward, truth.terminated, truth.truncated) == (
        after.fen(),
        reward,
        str(int(bool(end))),
        "0",
    )
    assert score_transition(prompt, write_transition(truth)).total == pytest.approx(0.54)
    assert not same_position(before.fen(), truth.fen)


@pytest.mark.parametrize("games", [400, pytest.param(2000, marks=pytest.mark.slow)])
def test_random_game_answers_match_python_chess(games):
    seen = Counter()
    for number in range(games):
        draw = random.Random(number)
        board, moves = chess.Board(STARTS[number % len(STARTS)]), []
        legal, end = list(board.legal_moves), ""
        while not end and len(moves) < PLIES:
            move = draw.choice(legal)
            special, before = kinds(board, move), board.copy(stack=False)
            board.push(move)
            legal = list(board.legal_moves)
            end = ending(board, legal)
            if special or end or draw.random() < CHECKED:
                check(before, move, board, moves, end)
                seen.update([*special, end or "goes on"])
            moves.append(move.uci())
    # Of 2,000 games at least so many.
    rare = {"queenside": 20, "kingside": 20, "en passant": 50, "stalemate": 20, "75 moves": 50, "mate": 50}
    rare |= {f"promotion to {piece}": 100 for piece in ("queen", "rook", "bishop", "knight")}
    rare |= {"insufficient material": 100, "castling right lost": 100, "goes on": 1000}
    assert {kind: seen[kind] for kind, least in rare.items() if seen[kind] < least * games // 2000} == {}


def test_illegal_moves_leave_position_unchanged():
    draw, board = np.random.default_rng(1), chess.Board()
    for _ in range(60):
        legal = {move.uci() for move in board.legal_moves}
        for _ in range(20):
            start, target = (chess.square_name(int(square)) for square in draw.integers(64, size=2))
            if start != target and start + target not in legal:
                truth = true_transition(board.fen(), start + target)
                assert truth.fen == board.fen()
                assert (truth.reward, truth.terminated, truth.truncated) == ("-1.0", "0", "1")
        board.push(random_move(board, draw))
