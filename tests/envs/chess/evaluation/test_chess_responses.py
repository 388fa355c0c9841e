"""Best responses in chess: moves chosen from the player's own answers, and returns of both colours."""

from dataclasses import dataclass
from types import SimpleNamespace

import chess
import numpy as np
import pytest

from sparring.envs.chess.evaluation import responses
from sparring.envs.chess.evaluation.games import MoveRequest

MATERIAL = {chess.PAWN: 1, chess.KNIGHT: 3, chess.BISHOP: 3, chess.ROOK: 5, chess.QUEEN: 9}


class ToyEngine:
    """List all moves sorted as text, and value positions by material only."""

    name = "toy"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def batch_top_moves(self, boards, _count):
        return [[(move, 0.0) for move in sorted(move.uci() for move in board.legal_moves)] for board in boards]

    def batch_values(self, boards):
        def worth(board, side):
            return sum(value * len(board.pieces(kind, side)) for kind, value in MATERIAL.items())

        return [float(worth(board, board.turn) - worth(board, not board.turn)) for board in boards]


@dataclass
class Answers:
    """Answer by position; by default the first legal move as text."""

    by_position: dict
    name: str = "toy player"

    def answer(self, requests):
        legal = [sorted(move.uci() for move in request.board.legal_moves) for request in requests]
        boards = [request.board.board_fen() for request in requests]
        return [self.by_position.get(board, moves[0]) for board, moves in zip(boards, legal, strict=True)]


FREE_ROOK = chess.Board("6k1/8/8/8/3r4/8/3R4/6K1 w - - 0 1")
"""White can take a rook, or move its own, which Black may then leave or take."""


def chosen(members, board=FREE_ROOK):
    return responses.SearchedMoves(members, ToyEngine()).answer([MoveRequest(board, 0)])[0]


def test_search_takes_undefended_piece():
    """By hand: only d2d4 wins a rook; every other move leaves White a rook behind if Black then takes on d2."""
    assert chosen([Answers({})]) == "d2d4"


def test_player_blunder_outweighs_engine_order():
    """Where Black answers Kf2 with an illegal move, which loses, Kf2 is worth more than a rook."""
    after = responses._after(FREE_ROOK, "g1f2").board_fen()
    assert chosen([Answers({after: "a1a1"})]) == "g1f2"


def test_mixture_counts_by_mean_of_members():
    """A win, worth 100 pawns, against one of two members beats a rook against both."""
    after = responses._after(FREE_ROOK, "g1f2").board_fen()
    assert chosen([Answers({after: "a1a1"}), Answers({})]) == "g1f2"
    assert chosen([Answers({}), Answers({})]) == "d2d4"


def test_mate_ends_lookahead():
    board = chess.Board("6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1")
    assert chosen([Answers({})], board) == "a1a8"


@pytest.mark.parametrize(
    ("response", "returns"), [("search", [[1, -1], [-1, 1]] * 2), (None, [[-1, 1]] * 4)], ids=["search", "itself"]
)
def test_returns_cover_white_and_black(monkeypatch, response, returns):
    """A player with only illegal answers loses at its first move, to the response in both colours."""
    resigns = SimpleNamespace(name="resigns", answer=lambda requests: ["none"] * len(requests))
    monkeypatch.setattr(responses, "open_player", lambda *_, **__: resigns)
    monkeypatch.setattr(responses, "open_engine", lambda **_: ToyEngine())
    options = SimpleNamespace(device="cpu", threads=1, games=4)
    targets = [SimpleNamespace(against="resigns")]
    assert np.array_equal(responses.play(options, targets, False, response, seed=1), returns)
