"""Magnetic mirror descent: its two terms and their gradient by hand, the magnet that moves, and exact resume."""

import math
from copy import deepcopy

import pytest
import torch

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.networks import build_network, shape_for
from sparring.agents.ppo.learner import Autocast, PPOLearner, open_magnet
from sparring.agents.ppo.losses import Magnet, Samples
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.typed import ContentError
from sparring.configs.load import load
from sparring.configs.schema import NetworkConfig, PPOConfig

FEATURES = 2


def network(*, categorical=3, continuous=0, memory="none", seed=0):
    sizes = {"continuous": continuous, "binary": 0, "categorical": categorical, "masked": bool(categorical)}
    columns = FEATURES + (categorical if isinstance(categorical, int) else sum(categorical))
    contract = {"id": "openspiel:game", "obs_dim": columns, "roles": [0, 0], "picture": [], **sizes}
    return build_network(shape_for(contract, NetworkConfig(hidden=8, memory=memory)), seed=seed)


def with_logits(net, logits):
    """Let the actor's output be these logits in every state."""
    with torch.no_grad():
        net.actor[0].head.weight.zero_()
        net.actor[0].head.bias.copy_(torch.tensor(logits))
    return net


def rows(*masks):
    obs = torch.zeros(len(masks), FEATURES + len(masks[0]))
    obs[:, FEATURES:] = torch.tensor(masks)
    return obs


def samples(net, obs, seed=0):
    generator = torch.Generator().manual_seed(seed)
    actions, log_prob = net.act(obs, generator=generator)
    advantage, returns = torch.randn(2, len(obs), generator=generator)
    return Samples(obs, actions, log_prob, net.value(obs).detach(), advantage, returns)


def learner_of(net, **options):
    config = PPOConfig(**{"minibatch_size": 8, "epochs": 2, "target_kl": 0.0, "max_grad_norm": 1000.0} | options)
    return PPOLearner(net, config, Autocast("fp32", "cpu"), seed=0)


def update(learner, given, number=0):
    return learner.update(given, number=number, learning_rate=1e-2, entropy_coefficient=0.0)


def test_divergence_from_uniform_play_and_its_gradient_by_hand():
    # Legal are the first two, p = (1/3, 2/3): KL = 1/3 log(2/3) + 2/3 log(4/3), and
    # d KL / d l_k = p_k (log p_k - log 1/2 - KL), which is -2/9 log 2 and +2/9 log 2.
    net = with_logits(network(), [0.0, math.log(2.0), 5.0])
    obs = rows([1.0, 1.0, 0.0])
    learner = learner_of(net, magnet_coefficient=0.5, epochs=1)
    given = samples(net, obs)._replace(advantage=torch.zeros(1))
    metrics = update(learner, given)
    kl = math.log(2 / 3) / 3 + 2 * math.log(4 / 3) / 3
    assert metrics["train/magnet_loss"] == pytest.approx(0.5 * kl, abs=1e-6)
    slope = 0.5 * 2 / 9 * math.log(2.0)
    assert net.actor[0].head.bias.grad.tolist() == pytest.approx([-slope, slope, 0.0], abs=1e-6)


@pytest.mark.parametrize("categorical", [3, [2, 3]])
def test_both_terms_are_the_plain_divergences(categorical):
    net, other = network(categorical=categorical), network(categorical=categorical, seed=1)
    for weight in (net.actor[0].head.weight, other.actor[0].head.weight):
        weight.data.mul_(100.0)
    magnet = Magnet(net, PPOConfig(magnet_coefficient=0.3, magnet_rate=0.1, proximal_coefficient=2.0))
    magnet.begin()
    magnet._copy.load_state_dict(other.state_dict())
    old = {name: weight.clone() for name, weight in net.state_dict().items()}
    with torch.no_grad():
        net.actor[0].head.bias.add_(
            torch.randn(net.actor[0].head.bias.shape, generator=torch.Generator().manual_seed(3))
        )
    obs = torch.rand(20, net.obs_dim, generator=torch.Generator().manual_seed(2))
    obs[:, FEATURES:] = 1.0
    obs[5:, FEATURES] = 0.0  # illegal in most rows
    penalty = magnet.evaluate(obs, net.act(obs)[0])[2]
    before = network(categorical=categorical)
    before.load_state_dict(old)

    def divergence(target):
        total = 0.0
        for own, log_q in zip(net.log_probabilities(obs), target.log_probabilities(obs), strict=True):
            total = total + torch.where(own != 0.0, own.exp() * (own - log_q), 0.0).sum(-1)
        return total

    expected = 0.3 * divergence(other) + 2.0 * divergence(before)
    torch.testing.assert_close(penalty, expected)
    weights = [net.actor[0].head.weight, net.actor[0].head.bias]
    own = torch.autograd.grad(magnet.evaluate(obs, net.act(obs)[0])[2].sum(), weights)
    torch.testing.assert_close(own, torch.autograd.grad(expected.sum(), weights))


@pytest.mark.parametrize("gsde", [False, True])
def test_numbers_and_switches_have_the_divergences_of_torch(gsde):
    nets = [
        ActorCritic(FEATURES, 2, 1, NetworkConfig(hidden=8, gsde=gsde), categorical=3, seed=seed) for seed in (0, 1)
    ]
    for net, spread in zip(nets, (-0.7, 0.2), strict=True):
        net.actor[-1].weight.data.mul_(100.0)
        net.log_std.data.add_(spread * torch.rand(net.log_std.shape, generator=torch.Generator().manual_seed(4)))
    net, other = nets
    magnet = Magnet(net, PPOConfig(magnet_coefficient=0.3, magnet_rate=0.1, proximal_coefficient=2.0))
    magnet.begin()
    magnet._copy.load_state_dict(other.state_dict())
    before = deepcopy(net)
    net.actor[-1].bias.data.add_(torch.rand(6, generator=torch.Generator().manual_seed(3)))
    net.log_std.data.sub_(0.1)
    obs = torch.randn(20, FEATURES, generator=torch.Generator().manual_seed(2))
    actions = net.act(obs)[0]

    def distributions(network):
        output, log_std, (choice,), _ = network.answer(obs)
        gaussian = torch.distributions.Normal(output[:, :2], log_std.exp().expand(20, 2))
        switch, choice = (
            torch.distributions.Bernoulli(logits=output[:, 2:]),
            torch.distributions.Categorical(logits=choice),
        )
        return [torch.distributions.Independent(one, 1) for one in (gaussian, switch)] + [choice]

    def divergence(target):
        pairs = zip(distributions(net), distributions(target), strict=True)
        return sum(torch.distributions.kl_divergence(own, theirs) for own, theirs in pairs)

    log_prob, entropy, penalty = magnet.evaluate(obs, actions)
    expected = 0.3 * divergence(other) + 2.0 * divergence(before)
    torch.testing.assert_close(penalty, expected)
    torch.testing.assert_close((log_prob, entropy), net.evaluate(obs, actions))
    weights = [net.log_std, net.actor[-1].weight]
    own = torch.autograd.grad(magnet.evaluate(obs, actions)[2].sum(), weights)
    torch.testing.assert_close(own, torch.autograd.grad(expected.sum(), weights))


def test_proximal_term_holds_the_policy():
    moved = {}
    for hold in (0.0, 10.0):
        net = network()
        obs = rows(*[[1.0, 1.0, 1.0]] * 32)
        old = net.log_probabilities(obs)[0].detach()
        update(learner_of(net, proximal_coefficient=hold, epochs=20, clip=1.0), samples(net, obs))
        moved[hold] = (net.log_probabilities(obs)[0] - old).abs().mean().item()
    assert moved[10.0] < 0.5 * moved[0.0]


def test_a_magnet_follows_the_policy_by_its_rate():
    net = network()
    start = {name: weight.clone() for name, weight in net.state_dict().items()}
    learner = learner_of(net, magnet_coefficient=0.1, magnet_rate=0.25)
    update(learner, samples(net, rows(*[[1.0, 1.0, 1.0]] * 16)))
    for name, weight in learner.magnet.state_dict().items():
        torch.testing.assert_close(weight, torch.lerp(start[name], net.state_dict()[name], 0.25))


def test_a_resumed_learner_goes_on_bit_for_bit():
    options = {"magnet_coefficient": 0.1, "magnet_rate": 0.25, "proximal_coefficient": 0.5}
    net = network()
    first = learner_of(net, **options)
    given = samples(net, rows(*[[1.0, 1.0, 0.0]] * 16))
    update(first, given)
    state = deepcopy(first.check(first.state_dict()))
    second = learner_of(network(seed=5), **options)
    second.load_state_dict(state)
    results = [update(one, given, number=1) for one in (first, second)]
    assert results[0] == results[1]
    assert all(map(torch.equal, first.network.state_dict().values(), second.network.state_dict().values()))
    assert all(map(torch.equal, first.magnet.state_dict().values(), second.magnet.state_dict().values()))


def test_states_without_the_magnet_and_networks_that_it_cannot_draw_are_refused():
    learner = learner_of(network(), magnet_coefficient=0.1, magnet_rate=0.5)
    plain = learner_of(network())
    assert plain.magnet is None
    assert "magnet" not in plain.state_dict()
    with pytest.raises(ContentError, match="magnet"):
        learner.check(plain.state_dict())
    with pytest.raises(ConfigError, match=r"ppo.magnet_coefficient=0.1: .*choices.*; use 0"):
        open_magnet(network(categorical=0, continuous=2), PPOConfig(magnet_coefficient=0.1))
    numbers = ActorCritic(FEATURES, 2, 1, NetworkConfig(hidden=8))
    with pytest.raises(ConfigError, match=r"ppo.magnet_rate=0.0: .*; use above 0"):
        open_magnet(numbers, PPOConfig(magnet_coefficient=0.1))
    assert open_magnet(numbers, PPOConfig(proximal_coefficient=0.1)).state_dict() == {}
    with pytest.raises(ConfigError, match=r"ppo.proximal_coefficient=0.1: is an option of"):
        load(["+run=gymnasium", "ppo.proximal_coefficient=0.1"])


def test_a_learner_that_restarts_has_its_magnet_at_the_new_weights():
    """Else an exploiter would be drawn to the policy that it attacks."""
    learner, other = learner_of(network(), magnet_coefficient=0.1, magnet_rate=0.1), network(seed=7)
    before = deepcopy(learner.state_dict())
    learner.restart(other.state_dict())
    assert all(torch.equal(weight, learner.magnet.state_dict()[name]) for name, weight in other.state_dict().items())
    learner.load_state_dict(before)
    assert all(torch.equal(weight, before["magnet"][name]) for name, weight in learner.magnet.state_dict().items())
