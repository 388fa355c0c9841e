"""A learner with a gradient scaler goes on from states with and without one: fp16 is done on some devices only."""

import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.learner import Autocast, PPOLearner
from sparring.configs.schema import NetworkConfig, PPOConfig


def learner(*, scaled):
    autocast = Autocast("fp32", "cpu")
    autocast.scaler = torch.amp.GradScaler("cpu", enabled=scaled, init_scale=512.0)
    return PPOLearner(ActorCritic(2, 1, 1, NetworkConfig(hidden=8)), PPOConfig(), autocast, seed=0)


def test_a_scaler_goes_on_with_the_scale_that_was_saved():
    saved, other = learner(scaled=True), learner(scaled=True)
    saved.autocast.scaler.load_state_dict(saved.autocast.scaler.state_dict() | {"scale": 8.0})
    other.load_state_dict(saved.state_dict())
    assert other.autocast.scaler.get_scale() == 8.0


def test_a_scaler_begins_where_the_state_has_none():
    saved, other = learner(scaled=False), learner(scaled=True)
    other.load_state_dict(saved.state_dict())
    assert other.autocast.scaler.get_scale() == 512.0


def test_a_learner_without_a_scaler_does_not_mind_one_in_the_state():
    saved, other = learner(scaled=True), learner(scaled=False)
    other.load_state_dict(saved.state_dict())
    assert not other.autocast.scaler.is_enabled()
