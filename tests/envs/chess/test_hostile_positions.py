"""Hostile FENs: rewards and environments handle all of them, mostly without asking an engine."""

import string

import chess
import numpy as np
import pytest

from sparring.configs.core.errors import InputError
from sparring.envs.chess.analysis import BAD_PROMPT, Analysis, analysis_prompt, score_analysis
from sparring.envs.chess.arbiter import score_transition, true_transition
from sparring.envs.chess.data.samples import check_analysis
from sparring.envs.chess.engines.engine import BUILT_IN, open_engine
from sparring.envs.chess.engines.searchers import find_stockfish
from sparring.envs.chess.interfaces.aec_env import ChessAECEnv
from sparring.envs.chess.interfaces.arbiter_env import ChessArbiterEnv

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
    "4k3/8/8/8/8/8/4R3/4K3 w - - 0 1",  # White to move could take the king
    f"{chess.STARTING_BOARD_FEN[:-1]}Q {REST}",  # the right to castle with a queen
    f"{chess.STARTING_BOARD_FEN.replace('/8/8/', '/8/P7/', 1)} {REST}",  # nine pawns
    "bqnrnkrb/pppppppp/8/8/8/8/PPPPPPPP/BQNRNKRB w KQkq - 0 1",  # Chess960
]
REFUSING = {
    "the A task": lambda fen: true_transition(fen, "e2e4"),
    "the arbiter environment": lambda fen: ChessArbiterEnv().reset(options={"fen": fen, "move": "a2a3"}),
    "the game": lambda fen: ChessAECEnv().reset(options={"fen": fen}),
    "labels": lambda fen: check_analysis(fen, Analysis(("e2e4",), (0.1,), "e2e4")),
}
OVER = ["R5k1/5ppp/8/8/8/8/8/6K1 b - - 0 1", "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"]
ODD = ["k7/8/8/8/8/8/8/K7 w - - 0 1", "k7/8/8/8/8/8/8/KR6 w - - 150 1", f"{chess.STARTING_BOARD_FEN} w KQkq - 99999 0"]
ANSWER = "M: e2e4 a1b1 E: 0.3 0.1 B: e2e4"


class Refusing:
    """An engine that must not be called."""

    def top_moves(self, board, count):
        raise AssertionError(board.fen())

    value = top_moves


@pytest.mark.parametrize("fen", [*UNREADABLE, *IMPOSSIBLE])
def test_analysis_reward_skips_engine_for_hostile_positions(fen):
    assert score_analysis(analysis_prompt(fen), ANSWER, Refusing()).total == BAD_PROMPT


@pytest.mark.parametrize("fen", [*UNREADABLE, *IMPOSSIBLE, *OVER, *ODD])
def test_arbiter_reward_is_defined_for_hostile_positions(fen):
    for move in ("e2e4", "a1b1", "0000", "a1a1", "e7e8K", "+", ""):
        assert -0.9 <= score_transition(f"A: {fen}+{move}+{move}+", "x").total <= -0.5, move


@pytest.mark.parametrize("entrance", REFUSING)
def test_hostile_positions_are_rejected_identically_everywhere(entrance):
    """The tests of the command line, folders and PGN cover those entrances."""
    for fen in (*UNREADABLE, *IMPOSSIBLE):
        with pytest.raises(InputError, match=r": is (not a FEN|impossible|a Chess960).*; give a position that can"):
            REFUSING[entrance](fen)


def test_arbiter_reward_has_no_right_answer_for_chess960():
    """Standard chess drops these castling rights: neither answer is rewarded."""
    prompt = f"A: {IMPOSSIBLE[-1]}+b2b3+b2b3+"
    for rights in ("KQkq", "-"):
        answer = f"bqnrnkrb/pppppppp/8/8/8/1P6/P1PPPPPP/BQNRNKRB b {rights} - 0 1+0.001+0+0"
        assert score_transition(prompt, answer).total == BAD_PROMPT


@pytest.mark.parametrize(
    "path", [BUILT_IN, pytest.param("", marks=pytest.mark.skipif(not find_stockfish(), reason="no Stockfish"))]
)
def test_engines_answer_finished_and_odd_games(path):
    with open_engine(path, depth=3) as engine:
        for fen in (*OVER, *ODD):
            assert -1 <= score_analysis(analysis_prompt(fen), "B: a1b1", engine).total <= 1
            assert abs(engine.value(chess.Board(fen))) <= 100.0


def test_mutated_fens_never_raise():
    draw, letters = np.random.default_rng(5), string.printable + "é♔٣"
    with open_engine(BUILT_IN) as engine:
        for _ in range(600):
            text = list(chess.STARTING_FEN)
            for _ in range(int(draw.integers(1, 4))):
                text[int(draw.integers(len(text)))] = letters[int(draw.integers(len(letters)))]
            fen = "".join(text)
            assert -1 <= score_analysis(f"P: {fen}", "B: e2e4", engine).total <= 1
            assert -0.9 <= score_transition(f"A: {fen}+e2e4+e2e4+", fen).total <= 0.54
