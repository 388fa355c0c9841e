"""Hostile FENs: both rewards and the environments answer every one of them, and no engine is asked about most."""

import string

import chess
import numpy as np
import pytest

from sparring.envs.chess.analysis_reward import BAD_PROMPT, score_analysis
from sparring.envs.chess.analysis_text import analysis_prompt
from sparring.envs.chess.arbiter_reward import score_transition
from sparring.envs.chess.arbiter_text import true_transition
from sparring.envs.chess.engines.engine import BUILT_IN, open_engine
from sparring.envs.chess.engines.uci_process import find_stockfish

REST = "w KQkq - 0 1"
UNREADABLE = [
    "",
    " ",
    "w",
    "\x00",
    "♔7/8/8/8/8/8/8/k7 w - - 0 1",
    f"rnbqkbnr/pppppppp/9/8/8/8/PPPPPPPP/RNBQKBNR {REST}",
    f"rnbqkbnr/pppppppp/44/8/8/8/PPPPPPPP/RNBQKBNR {REST}",
    f"rnbqkbnr/pppppppp/8/8/8/PPPPPPPP/RNBQKBNR {REST}",
    "8/8/8/8/8/8/8/8 x - - 0 1",
    f"{chess.STARTING_BOARD_FEN} w KQkqX - 0 1",
    f"{chess.STARTING_BOARD_FEN} w - e9 0 1",
    f"{chess.STARTING_BOARD_FEN} w - - -1 1",
    f"{chess.STARTING_BOARD_FEN} w - - 0 x",
    f"{chess.STARTING_BOARD_FEN} w - - 0 {'9' * 5000}",
]
IMPOSSIBLE = [
    "8/8/8/8/8/8/8/8 w - - 0 1",
    "kk6/8/8/8/8/8/8/K7 w - - 0 1",
    "4k3/4Q3/8/8/8/8/8/4K3 w - - 0 1",
    "k7/8/8/8/8/8/8/KP6 w - - 0 1",
    f"QQQQQQQQ/QQQQQQQQ/QQQQQQQQ/QQQQQQQQ/QQQQQQQQ/QQQQQQQQ/QQQQQQQQ/QQQQKQQk {REST}",
    "4k3/8/8/8/8/8/8/4K3 w KQkq - 0 1",
    "4k3/8/8/8/8/8/8/4K3 w - e6 0 1",
]
OVER = ["R5k1/5ppp/8/8/8/8/8/6K1 b - - 0 1", "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"]
ODD = ["k7/8/8/8/8/8/8/K7 w - - 0 1", "k7/8/8/8/8/8/8/KR6 w - - 150 1", f"{chess.STARTING_BOARD_FEN} w KQkq - 99999 0"]
ANSWER = "M: e2e4 a1b1 E: 0.3 0.1 B: e2e4"


class Refusing:
    """An engine that must not be asked."""

    def top_moves(self, board, count):
        raise AssertionError(board.fen())

    value = top_moves


@pytest.mark.parametrize("fen", [*UNREADABLE, *IMPOSSIBLE])
def test_the_p_reward_asks_no_engine_about_them(fen):
    for padded in (True, False):
        assert score_analysis(analysis_prompt(fen, padded=padded), ANSWER, Refusing()).total == BAD_PROMPT


@pytest.mark.parametrize("fen", [*UNREADABLE, *IMPOSSIBLE, *OVER, *ODD])
@pytest.mark.parametrize("move", ["e2e4", "a1b1", "0000", "a1a1", "e7e8K", "+", ""])
def test_the_a_reward_is_defined_for_them(fen, move):
    reward = score_transition(f"A: {fen}+{move}+{move}+", "x").total
    assert -0.9 <= reward <= -0.5


@pytest.mark.parametrize("fen", UNREADABLE)
def test_what_is_no_position_has_no_transition(fen):
    with pytest.raises(ValueError, match="is no position in Forsyth-Edwards notation"):
        true_transition(fen, "e2e4")


@pytest.mark.parametrize(
    "path", [BUILT_IN, pytest.param("", marks=pytest.mark.skipif(not find_stockfish(), reason="no Stockfish"))]
)
def test_engines_answer_for_finished_and_odd_games(path):
    with open_engine(path, depth=3) as engine:
        for fen in (*OVER, *ODD):
            assert -1 <= score_analysis(analysis_prompt(fen), "B: a1b1", engine).total <= 1
            assert abs(engine.value(chess.Board(fen))) <= 100.0


def test_changed_fens_never_raise():
    draw, letters = np.random.default_rng(5), string.printable + "é♔٣"
    with open_engine(BUILT_IN) as engine:
        for _ in range(600):
            text = list(chess.STARTING_FEN)
            for _ in range(int(draw.integers(1, 4))):
                text[int(draw.integers(len(text)))] = letters[int(draw.integers(len(letters)))]
            fen = "".join(text)
            assert -1 <= score_analysis(f"P: {fen}", "B: e2e4", engine).total <= 1
            assert -0.9 <= score_transition(f"A: {fen}+e2e4+e2e4+", fen).total <= 0.54
