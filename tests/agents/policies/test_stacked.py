"""Stacked actors act exactly like each actor alone."""

import pytest
import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.networks import build_network, shape_for
from sparring.agents.policies.stacked import StackedActors
from sparring.configs.schema import NetworkConfig


def scattered(seed, blocks=0, hidden=16, binary=1):
    net = ActorCritic(5, 2, binary, NetworkConfig(hidden=hidden, blocks=blocks), seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return net


def some_obs(slots=3, rows=7):
    return torch.randn(slots, rows, 5, generator=torch.Generator().manual_seed(9))


def stack(nets):
    stacked = StackedActors(len(nets), nets[0].shape, "cpu")
    for slot, net in enumerate(nets):
        stacked.load(slot, net.state_dict())
    return stacked


@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_deterministic_actions_equal_each_actor_alone(blocks):
    nets, obs = [scattered(seed, blocks) for seed in range(3)], some_obs()
    actions = stack(nets).act(obs, deterministic=True)
    alone = torch.stack([net.act(obs[k], deterministic=True)[0] for k, net in enumerate(nets)])
    torch.testing.assert_close(actions, alone, atol=1e-5, rtol=0)
    assert alone.std() > 0.1
    assert (alone[0] - alone[1]).abs().max() > 0.1


def test_choices_equal_each_actor_alone_and_follow_probabilities():
    """Two choices after a binary action; frequencies of 20,000 draws match the probabilities."""
    nets = [ActorCritic(5, 0, 1, NetworkConfig(hidden=8, blocks=0), categorical=[3, 4], seed=seed) for seed in (1, 2)]
    for net in nets:
        with torch.no_grad():
            net.actor[-1].weight.mul_(200.0)
    obs, stacked = some_obs(2), stack(nets)
    alone = torch.stack([net.act(obs[k], deterministic=True)[0] for k, net in enumerate(nets)])
    assert torch.equal(stacked.act(obs, deterministic=True), alone)
    assert alone[..., 1].unique().numel() > 1
    row = obs[:, :1].expand(2, 20_000, 5)
    drawn = stacked.act(row, generator=torch.Generator().manual_seed(3))
    for k, net in enumerate(nets):
        likely = net.answer(row[k, :1]).choices[1].exp()[0]
        shares = torch.bincount(drawn[k, :, 2].long(), minlength=4) / 20_000
        torch.testing.assert_close(shares, likely, atol=0.02, rtol=0)


@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_recurrent_actors_equal_each_alone(memory):
    contract = {"id": "any", "obs_dim": 5, "continuous": 2, "binary": 1}
    nets = [build_network(shape_for(contract, NetworkConfig(hidden=8, memory=memory)), seed=seed) for seed in range(3)]
    stacked, size = stack(nets), nets[0].memory_size
    states, alone = torch.zeros(3, 7, size // 2), torch.zeros(3, 7, size)
    for seed in range(3):
        obs = some_obs() + seed
        actions, states = stacked.step(obs, states, deterministic=True)
        steps = [net.step(obs[k], alone[k], deterministic=True, critic=False) for k, net in enumerate(nets)]
        expected, alone = (torch.stack([step[part] for step in steps]) for part in (0, 2))
        torch.testing.assert_close(actions, expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(states, alone[..., : size // 2], atol=1e-5, rtol=0)
    assert states.abs().max() > 0.1
    assert (states[0] - states[1]).abs().max() > 0.1


def test_each_slot_has_own_log_std():
    nets = [scattered(seed) for seed in range(2)]
    nets[0].reset_log_std(-2.0)
    nets[1].reset_log_std(0.0)
    obs = some_obs(2, 1)
    actions = stack(nets).act(obs.expand(2, 20_000, 5).contiguous(), generator=torch.Generator().manual_seed(0))
    spread = actions[..., :2].std(dim=1)
    torch.testing.assert_close(spread[0], torch.full((2,), -2.0).exp(), atol=0.01, rtol=0)
    torch.testing.assert_close(spread[1], torch.ones(2), atol=0.02, rtol=0)


def test_single_slot_samples_like_actor_alone():
    net, obs = scattered(1), some_obs(1)
    stacked = stack([net]).act(obs, generator=torch.Generator().manual_seed(4))
    alone, _ = net.act(obs[0], generator=torch.Generator().manual_seed(4))
    torch.testing.assert_close(stacked[0], alone, atol=1e-5, rtol=0)


def test_loading_slot_copies_weights_and_keeps_other_slots():
    nets, obs = [scattered(seed) for seed in range(2)], some_obs(2)
    stacked = stack(nets)
    before = stacked.act(obs, deterministic=True)
    with torch.no_grad():
        nets[0].actor[0].weight.zero_()
    assert torch.equal(stacked.act(obs, deterministic=True), before)
    stacked.load(1, scattered(7).state_dict())
    after = stacked.act(obs, deterministic=True)
    assert torch.equal(after[0], before[0])
    assert not torch.equal(after[1], before[1])


def test_observations_are_not_modified():
    obs = some_obs()
    kept = obs.clone()
    stack([scattered(seed, 1) for seed in range(3)]).act(obs, deterministic=True)
    assert torch.equal(obs, kept)


def test_unloadable_weights_are_named():
    stacked = stack([scattered(0), scattered(1)])
    with pytest.raises(ValueError, match=r"slot=2 is outside 0\.\.1"):
        stacked.load(2, scattered(0).state_dict())
    with pytest.raises(ValueError, match=r"actor\.0\.weight: expected shape \(16, 5\), found \(8, 5\)"):
        stacked.load(0, scattered(0, hidden=8).state_dict())
    with pytest.raises(ValueError, match=r"log_std: expected shape \(2,\), found nothing"):
        stacked.load(0, {k: v for k, v in scattered(0).state_dict().items() if k != "log_std"})
    other = scattered(0, binary=2).state_dict()
    kept = stacked.act(some_obs(2), deterministic=True)
    with pytest.raises(ValueError, match=r"actor\.4\.weight"):
        stacked.load(0, other)
    assert torch.equal(stacked.act(some_obs(2), deterministic=True), kept)
