"""Physics repeated from the last match of a row that a policy did not win against a bot (`repeat_unwon`).

A step here plays a whole match, which time ends; with equal hp it is a draw, otherwise who has more wins.
"""

import numpy as np
import pytest
import torch

from sparring.configs.core.errors import ConfigError
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from tests.envs.dogfight.worlds import physics_rows

POLICY, BOT = rules.ACTIONS, rules.bot_id("do_nothing")


def short_matches(n, share, seats=(POLICY, BOT), **options):
    batch = DogfightBatch(n, repeat_unwon=share, max_ticks=10, threads=1, **options)
    batch.set_ranges(rules.ranges("full"))
    batch.assign(np.tile(np.array(seats, dtype=np.int32), (n, 1)))
    batch.reset(seed=3)
    return batch


def play(batch, winner=None):
    """Play a match in every row, drawn or won by seat `winner`; return its physics [N, 13]."""
    state = batch.snapshot()
    if winner is not None:
        state["fighters"]["hp"][:, 1 - winner] -= 1
        batch.load({"fighters": state["fighters"]})
    batch.step(torch.zeros(batch.num_envs, 2, 3))
    assert (batch.outcome == (0 if winner is None else 1 + winner)).all()
    return physics_rows(state)


def repeated(first, second):
    return float((first == second).all(axis=1).mean())


@pytest.mark.parametrize("seats", [(POLICY, BOT), (BOT, POLICY)])
@pytest.mark.parametrize("result", ["draw", "loss"])
def test_what_was_not_won_is_played_again_from_another_start(seats, result):
    batch = short_matches(50, 1.0, seats)
    before = batch.snapshot()["fighters"]
    first = play(batch, None if result == "draw" else seats.index(BOT))
    assert repeated(first, physics_rows(batch.snapshot())) == 1.0
    assert (before["x"] != batch.snapshot()["fighters"]["x"]).all()


@pytest.mark.parametrize("seats", [(POLICY, BOT), (BOT, POLICY)])
def test_the_last_match_not_won_is_repeated_and_wins_are_not(seats):
    batch = short_matches(50, 1.0, seats)
    won = play(batch, seats.index(POLICY))
    drawn = play(batch)
    assert repeated(won, drawn) == 0.0
    for _ in range(2):  # also after the repeated physics were won
        assert repeated(drawn, play(batch, seats.index(POLICY))) == 1.0
    assert repeated(drawn, physics_rows(batch.snapshot())) == 1.0


@pytest.mark.parametrize("seats", [(POLICY, POLICY), (BOT, BOT)])
def test_matches_without_a_policy_against_a_bot_repeat_nothing(seats):
    batch = short_matches(50, 1.0, seats)
    assert repeated(play(batch), play(batch)) == 0.0


def test_the_share_of_repeated_matches_is_the_option_and_the_rest_is_drawn_as_without_it():
    batch, plain = short_matches(5000, 0.3), short_matches(5000, 0.0)
    first, second = play(batch), physics_rows(batch.snapshot())
    play(plain)
    new = physics_rows(plain.snapshot())
    assert repeated(first, second) == pytest.approx(0.3, abs=0.03)  # 5 standard deviations
    same = (first == second).all(axis=1)
    np.testing.assert_array_equal(second[~same], new[~same])
    np.testing.assert_array_equal(batch.snapshot()["fighters"]["x"], plain.snapshot()["fighters"]["x"])


def test_a_state_goes_on_with_the_same_physics_and_one_without_repeats_is_refused():
    batch, other = short_matches(20, 0.5), short_matches(20, 0.5)
    for _ in range(3):
        play(batch)
    other.load_state_dict(batch.state_dict())
    for _ in range(3):
        np.testing.assert_array_equal(play(batch), play(other))
    plain = short_matches(20, 0.0)
    assert "repeats" not in plain.state_dict()["arrays"]
    with pytest.raises(ValueError, match="repeats"):
        other.load_state_dict(plain.state_dict())


def test_a_seed_begins_without_anything_to_repeat():
    batch = short_matches(20, 1.0)
    first = play(batch)
    batch.reset(seed=4)
    assert repeated(first, physics_rows(batch.snapshot())) == 0.0
    batch.reset(seed=3)
    np.testing.assert_array_equal(physics_rows(batch.snapshot()), first)


def test_a_share_outside_its_range_is_refused():
    with pytest.raises(ConfigError, match=r"repeat_unwon=1\.5: must be in \[0, 1\]"):
        DogfightBatch(2, repeat_unwon=1.5)
