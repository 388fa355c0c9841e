"""`sparring/ChessArbiter-v0`: Gymnasium's checker, seeds, rewards, custom positions, and bad input."""

import warnings

import chess
import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from sparring.configs.core.errors import InputError
from sparring.envs.chess import ARBITER_ID
from sparring.envs.chess.arbiter import read_arbiter_prompt, score_transition

ANSWER = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1+0.001+0+0"
QUESTION = {"fen": chess.STARTING_FEN, "move": "e2e4"}


@pytest.fixture
def env():
    return gym.make(f"sparring:{ARBITER_ID}")


def test_gymnasium_checker_passes():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        check_env(gym.make(ARBITER_ID, render_mode="ansi").unwrapped)


def test_recorded_example_gets_its_reward(env):
    prompt, _ = env.reset(options=QUESTION)
    assert prompt == f"A: {chess.STARTING_FEN}+e2e4+e2e4+"
    shown, reward, terminated, truncated, info = env.step(ANSWER)
    assert (shown, terminated, truncated) == (prompt, True, False)
    assert reward == pytest.approx(0.54)
    assert info["expected"] == ANSWER
    assert info["exact"]
    assert (info["position"], info["form"], info["validity"]) == pytest.approx((0.5, 0.03, 0.01))


def test_true_answer_is_best_and_any_text_is_scored(env):
    seen = set()
    for seed in range(60):
        prompt, _ = env.reset(seed=seed)
        question = read_arbiter_prompt(prompt)
        board = chess.Board(question.fen)
        assert chess.Move.from_uci(question.move) in board.legal_moves
        assert question.history[-1] == question.move
        assert len(question.history) == min(10, 2 * (board.fullmove_number - 1) + (not board.turn) + 1)
        expected = env.step("")[4]["expected"]
        for answer in (expected, "ß++++" * 3, "x" * 5000, "\n", f"{expected} {expected}"):
            env.reset(seed=seed)
            _, reward, *_, info = env.step(answer)
            assert reward == score_transition(prompt, answer).total
            assert info["exact"] == (reward >= 0.5) == (answer == expected)
        seen.add(prompt)
    assert len(seen) == 60


def test_seed_repeats_and_unseeded_reset_continues(env):
    first, second = env.reset(seed=5)[0], env.reset()[0]
    assert first != second
    assert (env.reset(seed=5)[0], env.reset()[0]) == (first, second)


def test_illegal_moves_can_be_asked_about(env):
    env.reset(options={"fen": chess.STARTING_FEN, "move": "e2e5", "history": "g1f3 e2e5"})
    *_, info = env.step("")
    assert info["expected"] == f"{chess.STARTING_FEN}+-1.0+0+1"


@pytest.mark.parametrize(
    "options",
    [
        {"fen": "bad", "move": "e2e4"},
        {"fen": "9/8/8/8/8/8/8/8 w - - 0 1", "move": "e2e4"},
        {"fen": chess.STARTING_FEN, "move": "e4"},
        {"fen": chess.STARTING_FEN, "move": "e2e4", "history": "♘" * 5},
        {"fen": chess.STARTING_FEN},
        {"move": "e2e4"},
        {**QUESTION, "fem": 1},
    ],
)
def test_invalid_question_options_are_rejected(env, options):
    with pytest.raises(InputError, match=r"give a position that can|options move=.*: give a move|of reset 'fem'"):
        env.reset(options=options)


def test_other_bad_input_is_rejected(env):
    for plies in (-1, 1001):
        with pytest.raises(InputError, match=rf"plies={plies}: must be in \[0, 1000\]"):
            gym.make(ARBITER_ID, plies=plies)
    env.reset(seed=1)
    with pytest.raises(InputError, match="action of type int"):
        env.unwrapped.step(3)
    env.step("")
    with pytest.raises(gym.error.ResetNeeded):
        env.unwrapped.step("")
