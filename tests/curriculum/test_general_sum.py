"""The note on general-sum rewards: weights of every run file, and hand cases."""

from dataclasses import replace

import pytest

from sparring.configs.load import load
from sparring.curriculum.general_sum import general_sum_note
from sparring.envs.air_combat.config import AirCombatRunConfig, CombatReward
from sparring.envs.dogfight.config import DogfightRunConfig, RewardConfig

ZERO = RewardConfig(damage_dealt=1.0, damage_taken=1.0, draw=0.0, approach=0.0, proximity=0.0, facing=0.0, shaping=0.3)


def dogfight(reward, own=""):
    config = DogfightRunConfig(reward=own)
    config.env.reward = reward
    return config


def test_constant_sum_reward_is_zero_sum():
    """Potential-based shaping changes no best response. Constant sums count: 3 - 1 for a win equals 1 + 1."""
    assert general_sum_note(dogfight(ZERO)) == ""
    assert general_sum_note(dogfight(replace(ZERO, win=3.0, lose=1.0, draw=1.0))) == ""


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"draw": -5.0}, "both seats together get -10 for a draw and 0 for a decided match"),
        ({"win": 6.0}, "both seats together get 0 for a draw and 1 for a decided match"),
        ({"damage_taken": 0.5}, "damage_dealt=1 is not damage_taken=0.5"),
        ({"proximity": 0.001, "alive": 0.1}, "what a seat gains by alive, proximity the other does not lose"),
    ],
)
def test_reward_both_seats_can_gain_is_general_sum(changes, why):
    assert f"general-sum: {why}. Results" in general_sum_note(dogfight(replace(ZERO, **changes)))


def test_air_combat_and_custom_reward_functions():
    config = AirCombatRunConfig()
    assert "get -3 for a draw and 0" in general_sum_note(config)
    config.env.reward = CombatReward(damage_dealt=1.0, damage_taken=1.0, draw=0.0)
    assert general_sum_note(config) == ""
    config.env.reward = replace(config.env.reward, ammunition=0.1)
    assert "gains by ammunition the other" in general_sum_note(config)
    assert "is not known to be zero-sum" in general_sum_note(dogfight(ZERO, own="my_rewards:mine"))


@pytest.mark.parametrize("run", ["quickstart", "self_play", "unified_dr_cpu", "best_response", "air_combat_quickstart"])
def test_run_files_paying_draw_like_loss_report_general_sum(run):
    assert "for a draw and 0 for a decided match" in general_sum_note(load([f"+run={run}"]))


def test_games_without_these_weights_report_nothing():
    assert general_sum_note(load(["+run=diplomacy_ppo"])) == ""
    assert general_sum_note(load(["env=pettingzoo", "env.id=pettingzoo.classic:tictactoe_v3"])) == ""
