"""The actor-critic: layers, densities against torch.distributions, and seeds."""

import json

import pytest
import torch
from torch.distributions import Bernoulli, Normal

from sparring.agents.policies.actor_critic import ActorCritic, Density, Residual, log_probability
from sparring.configs.schema import NetworkConfig


def network(continuous=2, binary=1, seed=0, **options):
    return ActorCritic(5, continuous, binary, NetworkConfig(**{"hidden": 16} | options), seed=seed)


def scattered(seed=0, **options):
    """Return a network with clearly different outputs per observation."""
    net = network(seed=seed, **options)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in net.actor.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return net


def some_obs(rows=64, seed=3):
    return torch.randn(rows, 5, generator=torch.Generator().manual_seed(seed))


def test_two_hidden_layers_without_blocks():
    shapes = [tuple(weight.shape) for name, weight in network().actor.named_parameters() if name.endswith("weight")]
    assert shapes == [(16, 5), (16, 16), (3, 16)]


def test_blocks_are_residual_and_pre_norm():
    block = network(blocks=2).actor[2]
    assert isinstance(block, Residual)
    kinds = (torch.nn.LayerNorm, torch.nn.Linear, torch.nn.ReLU, torch.nn.Linear)
    assert [isinstance(layer, kind) for layer, kind in zip(block.branch, kinds, strict=True)] == [True] * 4
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(0)) * 100 + 7
    # Pre-norm: scaling and shifting the input leaves the branch as it was.
    torch.testing.assert_close(block(x) - x, block(2 * x + 1) - (2 * x + 1), rtol=0, atol=1e-3)
    torch.nn.init.zeros_(block.branch[3].weight)
    assert torch.equal(block(x), x)


def test_weights_are_orthogonal_with_stated_gains():
    net = network()
    square = net.actor[2].weight
    torch.testing.assert_close(square @ square.T, 2 * torch.eye(16), atol=1e-5, rtol=0)
    head = net.actor[-1].weight
    torch.testing.assert_close(head @ head.T, 1e-4 * torch.eye(3), atol=1e-9, rtol=0)
    torch.testing.assert_close(net.critic[-1].weight.norm(), torch.tensor(1.0))
    assert all((bias == 0).all() for name, bias in net.named_parameters() if name.endswith("bias"))


def test_seed_determines_weights_without_global_state():
    before = torch.get_rng_state()
    first, same, other = network(seed=1), network(seed=1), network(seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), same.parameters(), strict=True))
    assert not torch.equal(first.actor[0].weight, other.actor[0].weight)


def test_actor_and_critic_share_nothing():
    net, obs = network(), some_obs()
    net.value(obs).sum().backward()
    assert all(parameter.grad is None for parameter in net.actor.parameters())


def test_log_prob_by_hand():
    # N(a=1; mean 0, std 1): -1/2 - log(2 pi)/2; fire with p = 1/2: log(1/2).
    output, actions = torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 1.0]])
    assert log_probability(output, torch.zeros(1), actions).item() == pytest.approx(-0.5 - 0.9189385 - 0.6931472)


def test_densities_and_entropy_match_torch_distributions():
    net, obs = scattered(log_std_init=-0.7), some_obs()
    actions, _ = net.act(obs, generator=torch.Generator().manual_seed(1))
    (log_prob, ent), value = net.evaluate(obs, actions), net.value(obs)
    output = net.actor(obs)
    normal = Normal(output[:, :2], net.log_std.exp())
    coin = Bernoulli(logits=output[:, 2])
    assert output[:, 2].abs().max() > 0.5
    torch.testing.assert_close(log_prob, normal.log_prob(actions[:, :2]).sum(-1) + coin.log_prob(actions[:, 2]))
    torch.testing.assert_close(ent, normal.entropy().sum(-1) + coin.entropy())
    assert value.shape == (64,)


@pytest.mark.parametrize(
    ("continuous", "binary", "dependent"), [(2, 1, False), (3, 0, True), (0, 2, False), (2, 2, True)]
)
def test_density_gradients_match_finite_differences(continuous, binary, dependent):
    generator = torch.Generator().manual_seed(2)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    log_std = draw(5, continuous) if dependent else draw(continuous)
    coins = (draw(5, binary) > 0).double()
    actions = torch.cat([draw(5, continuous), coins], dim=1)
    inputs = (draw(5, continuous + binary).requires_grad_(), log_std.requires_grad_(), actions)
    assert torch.autograd.gradcheck(Density.apply, inputs)


def test_act_log_prob_equals_evaluate():
    net, obs = scattered(), some_obs()
    actions, log_prob = net.act(obs, generator=torch.Generator().manual_seed(5))
    torch.testing.assert_close(log_prob, net.evaluate(obs, actions)[0])
    assert not log_prob.requires_grad


def test_actions_follow_claimed_distribution():
    net = network(log_std_init=-1.0)
    with torch.no_grad():
        net.actor[-1].weight.zero_()
        net.actor[-1].bias.copy_(torch.tensor([0.5, -2.0, 1.0]))
    actions, _ = net.act(torch.zeros(40_000, 5), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(actions[:, :2].mean(0), torch.tensor([0.5, -2.0]), atol=0.01, rtol=0)
    torch.testing.assert_close(actions[:, :2].std(0), torch.full((2,), -1.0).exp(), atol=0.01, rtol=0)
    assert set(actions[:, 2].unique().tolist()) == {0.0, 1.0}
    assert actions[:, 2].mean().item() == pytest.approx(0.7311, abs=0.01)  # sigmoid(1)


def test_deterministic_actions_are_mean_and_likelier_side():
    net, obs = scattered(), some_obs()
    with torch.no_grad():
        net.actor[-1].bias[2] -= net.actor(obs)[:, 2].median()
    actions, _ = net.act(obs, deterministic=True)
    output = net.actor(obs)
    assert torch.equal(actions[:, :2], output[:, :2])
    assert torch.equal(actions[:, 2], (output[:, 2].sigmoid() > 0.5).float())
    assert set(actions[:, 2].tolist()) == {0.0, 1.0}


def test_same_generator_state_gives_same_actions():
    net, obs = scattered(), some_obs()
    draws = [net.act(obs, generator=torch.Generator().manual_seed(seed))[0] for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize(("continuous", "binary"), [(2, 0), (0, 2), (1, 3)])
def test_continuous_or_binary_only_actions_are_sampled_and_scored(continuous, binary):
    net = network(continuous, binary)
    actions, log_prob = net.act(some_obs(), generator=torch.Generator().manual_seed(0))
    assert actions.shape == (64, continuous + binary)
    torch.testing.assert_close(log_prob, net.evaluate(some_obs(), actions)[0])


def test_entropy_falls_with_certainty():
    output = torch.tensor([[0.0, 0.0], [0.0, 30.0], [0.0, 200.0]])
    _, spread = Density.apply(output, torch.zeros(1), torch.zeros(3, 2))
    assert spread[0] > spread[1]
    assert spread.isfinite().all()


def test_log_std_stays_within_bounds():
    net = network(log_std_init=-1.0, log_std_min=-2.0, log_std_max=0.0)
    assert net.log_std.tolist() == [-1.0, -1.0]
    net.log_std.data.copy_(torch.tensor([-5.0, 3.0]))
    net.clamp_log_std()
    assert net.log_std.tolist() == [-2.0, 0.0]
    net.reset_log_std(-0.5)
    assert net.log_std.tolist() == [-0.5, -0.5]
    net.reset_log_std(9.0)
    assert net.log_std.tolist() == [0.0, 0.0]
    assert network(log_std_init=4.0).log_std.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("blocks", [0, 2])
def test_shape_is_plain_data_and_rebuilds_network(blocks):
    net = scattered(blocks=blocks)
    twin = ActorCritic.from_shape(json.loads(json.dumps(net.shape)))
    twin.load_state_dict(net.state_dict())
    assert twin.shape == net.shape
    assert torch.equal(twin.value(some_obs()), net.value(some_obs()))
    assert torch.equal(twin.act(some_obs(), deterministic=True)[0], net.act(some_obs(), deterministic=True)[0])


def test_choice_is_categorical_distribution():
    net = ActorCritic(4, 1, 1, NetworkConfig(hidden=8), categorical=3, seed=2)
    with torch.no_grad():
        net.actor[-1].weight.mul_(100.0)
    obs = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    output = net.actor(obs)
    choice = torch.distributions.Categorical(logits=output[:, 2:])
    rest = (
        torch.distributions.Normal(output[:, 0], net.log_std.exp()),
        torch.distributions.Bernoulli(logits=output[:, 1]),
    )
    actions, log_prob = net.act(obs, generator=torch.Generator().manual_seed(3))
    assert actions.shape == (6, net.action_size) == (6, 3)
    expected = rest[0].log_prob(actions[:, 0]) + rest[1].log_prob(actions[:, 1]) + choice.log_prob(actions[:, 2])
    again, entropy = net.evaluate(obs, actions)
    torch.testing.assert_close(log_prob, expected)
    torch.testing.assert_close(again, expected)
    torch.testing.assert_close(entropy, rest[0].entropy() + rest[1].entropy() + choice.entropy())
    assert torch.equal(net.act(obs, deterministic=True)[0][:, 2], output[:, 2:].argmax(1).float())
    many = net.act(obs[:1].expand(20_000, 4), generator=torch.Generator().manual_seed(4))[0][:, 2]
    shares = torch.bincount(many.long(), minlength=3) / 20_000
    torch.testing.assert_close(shares, choice.probs[0], rtol=0, atol=0.015)
    assert ActorCritic.from_shape(net.shape).shape == net.shape
