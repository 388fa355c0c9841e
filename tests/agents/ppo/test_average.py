"""Averaged weights: their mean by hand, saving, resuming; and a late decay of the entropy bonus."""

from dataclasses import replace

import pytest
import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.ppo.optimizer import Average
from sparring.agents.run.states import read_state
from sparring.agents.trainers import train
from sparring.configs.schema import NetworkConfig
from tests.agents.ppo.small_run import config, flat, long, metrics, state_of, untimed

AVERAGED = replace(long("x").ppo, average_decay=0.5)


def test_average_is_mean_first_and_decays_later():
    network = ActorCritic(2, 1, 1, NetworkConfig(hidden=4), seed=0)
    average = Average(network, 0.75)
    for value in (8.0, 4.0, 0.0, 0.0, 16.0):
        with torch.no_grad():
            network.log_std.fill_(value)
        average.follow(network)
    # Means 8, 6, 4, 3 of the first four updates; then 3 + (16 - 3) / 4.
    assert float(average.network.log_std) == 6.25


def test_run_saves_average_and_trains_raw_weights(tmp_path):
    train(config(tmp_path, ppo=AVERAGED, max_updates=2))
    content = read_state(max((tmp_path / "small" / "state").glob("update_*"))).content["learner"]
    released = load_checkpoint(tmp_path / "small" / "final.pt").network.state_dict()
    assert flat(released) == flat({name: content["average"][name] for name in released})
    assert flat(released) != flat(content["network"])


def test_interrupted_run_with_average_resumes_bit_for_bit(tmp_path):
    train(long(tmp_path / "whole", ppo=AVERAGED))
    for updates in (5, 0):
        train(long(tmp_path / "cut", ppo=AVERAGED, max_updates=updates))
    assert state_of(tmp_path / "cut") == state_of(tmp_path / "whole")
    assert untimed(metrics(tmp_path / "cut")) == untimed(metrics(tmp_path / "whole"))


def test_entropy_bonus_is_constant_then_decays(tmp_path):
    late = replace(
        long("x").ppo, entropy_coefficient=0.04, final_entropy_fraction=0.5, entropy_falls_from=0.5, warmup_updates=0
    )
    train(config(tmp_path, ppo=late, phases=[replace(config("x").phases[0], updates=5)]))
    coefficients = [row["train/entropy_coefficient"] for row in metrics(tmp_path)]
    assert coefficients == pytest.approx([0.04, 0.04, 0.04, 0.03, 0.02])
