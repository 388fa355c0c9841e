"""The PettingZoo chess environment: API, endings, illegal moves, and bad input."""

import warnings

import chess
import pytest
from gymnasium.error import ResetNeeded
from pettingzoo.test import api_test, seed_test

from sparring.configs.core.errors import InputError
from sparring.envs.chess.engines.engine import BUILT_IN, open_engine
from sparring.envs.chess.interfaces.aec_env import env as chess_env

# Advice of PettingZoo's for games without text and agents without names.
NOT_FOLLOWED = (
    "Observation is not a NumPy array",
    ".* space for each agent probably should be",
    "We recommend agents to be named",
)
FOOLS_MATE = ["f2f3", "e7e5", "g2g4", "d8h4"]
STALEMATE = ("7k/8/6K1/8/8/8/8/5Q2 w - - 0 1", ["f1f7"])
BARE_KINGS = ("7k/8/8/8/8/8/r7/K7 w - - 0 1", ["a1a2"])
SEVENTY_FIVE = ("7k/8/8/8/8/8/8/KR6 w - - 149 200", ["b1b2"])


def played(moves, fen=None, **options):
    """Return the environment after `moves`, and the rewards of all steps."""
    env, rewards = chess_env(**options), {"white": 0.0, "black": 0.0}
    env.reset(seed=1, options={"fen": fen} if fen else None)
    for move in moves:
        env.step(move)
        for agent, reward in env.rewards.items():
            rewards[agent] += reward
    return env, rewards


@pytest.mark.parametrize("options", [{}, {"illegal": "random", "max_plies": 30}])
def test_pettingzoo_api_test_passes(options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for advice in NOT_FOLLOWED:
            warnings.filterwarnings("ignore", advice)
        api_test(chess_env(**options), num_cycles=100)
        seed_test(lambda: chess_env(**options), num_cycles=50)


def test_observation_is_position_and_legal_moves():
    env, _ = played(["e2e4"])
    seen, reward, terminated, truncated, info = env.last()
    moves = seen["legal_moves"]
    assert seen["fen"] == "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"
    assert len(moves.split()) == 20
    assert moves.split() == info["legal_moves"] == sorted(info["legal_moves"])
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert env.infos["white"] == {"legal_moves": [], "illegal_moves": 0}
    assert env.observation_space("black").contains(seen)
    most = chess.Board("R6R/3Q4/1Q4Q1/4Q3/2Q4Q/Q4Q2/pp1Q4/kBNN1KB1 w - - 0 1")
    assert most.legal_moves.count() == 218
    env.reset(options={"fen": most.fen()})
    assert env.observation_space("white").contains(env.observe("white"))


@pytest.mark.parametrize(
    ("start", "moves", "result", "white"),
    [
        (None, FOOLS_MATE, "0-1", -1.0),
        (*STALEMATE, "1/2-1/2", 0.0),
        (*BARE_KINGS, "1/2-1/2", 0.0),
        (*SEVENTY_FIVE, "1/2-1/2", 0.0),
        (None, ["g1f3", "g8f6", "f3g1", "f6g8"] * 4, "1/2-1/2", 0.0),
    ],
    ids=["mate", "stalemate", "material", "75 moves", "fivefold"],
)
def test_every_ending_has_result_and_rewards(start, moves, result, white):
    env, rewards = played(moves, start)
    assert env.infos["white"]["result"] == result
    assert rewards == {"white": white, "black": -white}
    assert env.terminations == {"white": True, "black": True}
    assert env.truncations == {"white": False, "black": False}
    assert env.infos["black"]["legal_moves"] == []
    env.step(None)
    env.step(None)
    assert env.agents == []


def test_long_game_is_truncated():
    env, rewards = played(["e2e4", "e7e5"], max_plies=2)
    assert env.truncations == {"white": True, "black": True}
    assert env.terminations == {"white": False, "black": False}
    assert rewards == {"white": 0.0, "black": 0.0}
    assert env.infos["white"]["result"] == "*"


@pytest.mark.parametrize("text", ["e2e5", "", "O-O", "e7e8q", "0000", "♟" * 1000, "Nf3", "e2e4 e2e4"])
def test_illegal_move_loses(text):
    env, rewards = played([text])
    assert rewards == {"white": -1.0, "black": 1.0}
    assert env.infos["white"]["illegal_moves"] == 1
    assert env.infos["white"]["result"] == "0-1"


def test_illegal_move_is_replaced_if_configured():
    env, rewards = played(["nonsense", " e7e5 "], illegal="random")
    assert len(env.board.move_stack) == 2
    assert rewards == {"white": 0.0, "black": 0.0}
    assert {agent: info["illegal_moves"] for agent, info in env.infos.items()} == {"white": 1, "black": 0}
    other, _ = played(["nonsense", "e7e5"], illegal="random")
    assert other.board.fen() == env.board.fen()


def test_engine_beats_alphabetical_player():
    env = chess_env()
    env.reset()
    with open_engine(BUILT_IN) as engine:
        for agent in env.agent_iter():
            *_, terminated, truncated, info = env.last()
            over = terminated or truncated
            best = None if over or agent == "black" else engine.top_moves(env.board, 1)[0][0]
            env.step(None if over else best or info["legal_moves"][0])
    assert info["result"] == "1-0"


@pytest.mark.parametrize("fen", ["", "bad", "8/8/8/8/8/8/8/8 w - - 0 1", "R5k1/5ppp/8/8/8/8/8/6K1 b - - 0 1", 3])
def test_unplayable_positions_are_rejected(fen):
    with pytest.raises(InputError, match=r"options fen .*; give a position that can occur"):
        chess_env().reset(options={"fen": fen})


def test_other_bad_input_is_rejected():
    with pytest.raises(InputError, match=r"unknown illegal 'loose'.*did you mean 'lose'"):
        chess_env(illegal="loose")
    with pytest.raises(InputError, match=r"max_plies=0: must be in \[1, 10000\]"):
        chess_env(max_plies=0)
    with pytest.raises(ResetNeeded):
        chess_env().step("e2e4")
    with pytest.raises(InputError, match="action of type int"):
        played([3])
