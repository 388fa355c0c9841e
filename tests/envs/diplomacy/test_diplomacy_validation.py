"""Invalid arguments of Diplomacy's interfaces give one-line errors instead of Python's own."""

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch, opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.drawing.render import draw_position
from sparring.envs.diplomacy.interfaces.parallel_env import parallel_env


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_games": 0}, r"num_games=0: must be a whole number in \[1, 10000000\]"),
        ({"num_games": "4"}, r"num_games='4': must be a whole number"),
        ({"num_games": True}, "num_games=True: must be a whole number"),
        ({"last_year": "1910"}, r"last_year='1910': must be a whole number in \[1901, 30000\]"),
        ({"last_year": 1910.5}, r"last_year=1910\.5: must be a whole number"),
        ({"threads": -1}, r"threads=-1: must be a whole number in \[0, 4096\]"),
    ],
)
def test_invalid_batch_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        DiplomacyBatch(**({"num_games": 1} | arguments))


def test_arguments_accept_integers_of_any_type():
    batch = DiplomacyBatch(np.int64(2), last_year=torch.tensor(1905), threads=1)
    assert (batch.num_games, batch.last_year, len(batch.units)) == (2, 1905, 2)
    batch.set_position(np.int32(1), opening())
    for game in (-1, 2, 0.5, "first"):
        with pytest.raises(InputError, match=rf"game={game!r}: must be a whole number in \[0, 1\]"):
            batch.set_position(game, opening())
    batch.close()


@pytest.mark.parametrize("seed", [-1, 2**32, 2**32 + 5, 1.5, "5", None, True])
def test_out_of_range_seed_is_rejected_and_writes_no_orders(seed):
    batch = DiplomacyBatch(2, threads=1)
    with pytest.raises(InputError, match=rf"seed={seed!r}: must be a whole number in \[0, 4294967295\]"):
        batch.draw_orders(seed)
    assert not batch.orders.any()
    batch.close()


def test_distinct_seeds_differ():
    """This includes seeds beyond 31 bits, and every integer type."""
    batch, drawn = DiplomacyBatch(4, threads=1), []
    for seed in (0, 5, 2**31 - 1, 2**31, 2**31 + 5, 2**32 - 1):
        batch.draw_orders(np.int64(seed))
        drawn.append(batch.orders.clone())
        batch.draw_orders(seed)
        assert torch.equal(batch.orders, drawn[-1])
    batch.close()
    assert len({tuple(orders.flatten().tolist()) for orders in drawn}) == len(drawn)


def test_undecided_phase_is_found_by_check_only():
    """`process` does not wait for the device, so it cannot raise."""
    batch = DiplomacyBatch(1, threads=1)
    batch.undecided[0] = 1
    batch.process()
    assert "Raises" not in DiplomacyBatch.process.__doc__
    with pytest.raises(RuntimeError, match="1 movement phases could not be decided"):
        batch.check()
    batch.close()


@pytest.mark.parametrize("bot", [17, 10, -2])
def test_unknown_bot_is_found_by_check(bot):
    """The device cannot report it in time: the power gets no orders."""
    batch = DiplomacyBatch(3, threads=1)
    batch.players[:] = torch.tensor([codes.ACTIONS, 0, 1, 2, 3, 4, 5])
    batch.check()
    batch.players[2, 4] = bot
    with pytest.raises(InputError, match=rf"players\[2, 4\]={bot}: choose from -1 none, 0 random, .*5 dumbbot"):
        batch.check()
    batch.close()


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        ({}, r"reward=\{\}: give a term or weights of several; terms are sum_of_squares, "),
        ("", "reward='': give a term"),
        (3, "reward=3: give a term"),
        (None, "reward=None: give a term"),
        ({"dense": "x"}, r"reward\['dense'\]='x': give a finite number"),
        ({"dense": None}, r"reward\['dense'\]=None: give a finite number"),
        ({"dense": float("nan")}, r"reward\['dense'\]=nan: give a finite number"),
    ],
)
def test_invalid_environment_rewards(reward, message):
    with pytest.raises(InputError, match=message):
        parallel_env(reward=reward)


@pytest.fixture(scope="module")
def env():
    game = parallel_env()
    game.reset()
    yield game
    game.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pos": 3}, "unknown reset option 'pos': choose from position; did you mean 'position'"),
        ({"position": 3}, "position=3: give a snapshot of one game, tensors by name"),
    ],
)
def test_invalid_reset_options(env, options, message):
    with pytest.raises(InputError, match=message):
        env.reset(options=options)


def test_unknown_reset_options_are_ignored(env):
    env.reset(options={"options": 1, "p": 2, "": 3})
    assert len(env.agents) == 7


def test_spaces_of_unknown_power(env):
    for space in (env.action_space, env.observation_space):
        with pytest.raises(InputError, match=r"unknown agent 'FRANC': choose from AUSTRIA, .*did you mean 'FRANCE'"):
            space("FRANC")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("A PAR - BUR\nF BRE - MAO", "lines='A PAR - BUR.*: give a list of orders, one a line"),
        (None, "lines=None: give a list of orders"),
        (3, "lines=3: give a list of orders"),
        (["A PAR - BUR", None], r"lines\[1\]=None: is not text; write an order such as 'A PAR - BUR'"),
    ],
)
def test_invalid_order_lists_are_rejected(env, lines, message):
    with pytest.raises(InputError, match=message):
        env.submit("FRANCE", lines)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"units": [1, 2]}, r"units: shape \(2,\) is not \(75,\)"),
        ({"owner": [3]}, r"owner: shape \(1,\) is not \(34,\)"),
        ({"owner": [7] * 34}, r"owner\[0\]=7: must be a whole number in \[-1, 6\]"),
        ({"units": [0] * 74 + [29]}, r"units\[74\]=29: must be a whole number in \[0, 28\]"),
        ({"dislodged": [0]}, r"dislodged: shape \(1,\) is not \(75,\)"),
    ],
)
def test_invalid_position_rows_are_not_drawn(rows, message):
    drawn = {"units": [0] * 75, "owner": [-1] * 34} | rows
    with pytest.raises(InputError, match=message):
        draw_position(drawn.pop("units"), drawn.pop("owner"), **drawn)
