"""gSDE against Stable-Baselines3's `StateDependentNoiseDistribution` with the same weights and noise."""

import pytest
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.distributions import StateDependentNoiseDistribution

from sparring.agents.policies.actor_critic import ActorCritic, network_shape
from sparring.agents.policies.sb3_files import to_actor_critic
from sparring.agents.policies.stacked import StackedActors
from sparring.agents.ppo.rollout import Rollout
from sparring.agents.trainers import train
from sparring.configs.core.errors import ConfigError
from sparring.configs.load import load
from sparring.configs.schema import NetworkConfig

OBS, HIDDEN, ACTIONS, BATCH = 5, 16, 3, 40
GSDE = NetworkConfig(hidden=HIDDEN, activation="tanh", log_std_init=-1.0, log_std_min=-20.0, gsde=True)


@pytest.fixture
def network():
    """Return a network with modified head and log-std."""
    made = ActorCritic(OBS, ACTIONS, 0, GSDE, seed=1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        made.log_std.copy_(torch.randn(made.log_std.shape, generator=generator) * 0.5 - 1.5)
        made.actor[-1].weight.mul_(50.0)
    return made


def observations(count=BATCH, seed=3):
    return torch.randn(count, OBS, generator=torch.Generator().manual_seed(seed))


def theirs(network, obs):
    """Return SB3's distribution at our means, log-std and features."""
    distribution = StateDependentNoiseDistribution(ACTIONS)
    distribution.proba_distribution_net(HIDDEN)
    features = network.actor[:-1](obs)
    distribution.proba_distribution(network.actor[-1](features), network.log_std, features)
    return distribution


def test_densities_entropies_and_gradients_match_sb3(network):
    obs, actions = observations(), 2.0 * torch.randn(BATCH, ACTIONS, generator=torch.Generator().manual_seed(4))
    found = []
    for log_prob, entropy in (
        network.evaluate(obs, actions),
        (theirs(network, obs).log_prob(actions), theirs(network, obs).entropy()),
    ):
        network.zero_grad()
        (log_prob.mean() + 0.3 * entropy.mean()).backward()
        gradients = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
        found.append((log_prob.detach(), entropy.detach(), gradients))
    for ours, their in zip(found[0][:2], found[1][:2], strict=True):
        torch.testing.assert_close(ours, their, atol=1e-5, rtol=1e-6)
    assert found[0][2].keys() == found[1][2].keys()
    for name, gradient in found[0][2].items():
        torch.testing.assert_close(gradient, found[1][2][name], atol=1e-6, rtol=1e-5)


def test_noise_matches_sb3_for_equal_matrices(network):
    obs = observations()
    noise = network.draw_noise(BATCH, torch.Generator().manual_seed(5))
    distribution = theirs(network, obs)
    distribution.exploration_matrices = noise
    actions, log_prob = network.act(obs, noise=noise)
    torch.testing.assert_close(actions, distribution.sample(), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(log_prob, distribution.log_prob(actions), atol=1e-5, rtol=1e-6)
    assert torch.equal(network.act(obs, deterministic=True)[0], network.actor(obs))


def test_matrices_have_learned_std_and_steps_marginal_std(network):
    noise = network.draw_noise(20_000, torch.Generator().manual_seed(6))
    torch.testing.assert_close(noise.std(0), network.log_std.exp().detach(), rtol=0.03, atol=0.0)
    one = observations(1).expand(20_000, -1)
    free, _ = network.act(one, generator=torch.Generator().manual_seed(7))
    spread = theirs(network, one[:1]).distribution.stddev[0].detach()
    torch.testing.assert_close(free.std(0), spread, rtol=0.03, atol=0.0)


class Recorder:
    """An environment with constant observations that records actions."""

    num_envs, lanes, rows, longest_episode = 2, 2, None, 100

    def __init__(self):
        self.obs, self.actions = observations(2), []
        self.final_obs = torch.zeros_like(self.obs)

    def step(self, actions):
        self.actions.append(actions)
        return self.obs, torch.zeros(2), torch.zeros(2, dtype=torch.bool), torch.zeros(2, dtype=torch.bool)


@pytest.mark.parametrize(("hold", "changes"), [(8, []), (4, [4]), (3, [3, 6]), (0, list(range(1, 8)))])
def test_noise_is_resampled_at_interval(network, hold, changes):
    """With a constant state, actions change only when noise is resampled."""
    env = Recorder()
    rollout = Rollout(network, 8, env)
    rollout.collect(env, network, torch.Generator().manual_seed(1), hold=hold)
    assert [t for t in range(1, 8) if not torch.allclose(env.actions[t], env.actions[t - 1], atol=1e-5)] == changes
    assert not torch.equal(env.actions[0][0], env.actions[0][1])


def test_frozen_opponents_sample_with_gsde(network):
    stacked = StackedActors(2, network.shape, "cpu")
    stacked.load(1, network.state_dict())
    obs = observations(1).expand(2, 20_000, -1)
    actions = stacked.act(obs, generator=torch.Generator().manual_seed(1))[1]
    distribution = theirs(network, obs[1][:1]).distribution
    torch.testing.assert_close(actions.mean(0), distribution.mean[0].detach(), rtol=0.0, atol=0.02)
    torch.testing.assert_close(actions.std(0), distribution.stddev[0].detach(), rtol=0.03, atol=0.0)


def test_network_shape_without_gsde_is_unchanged():
    plain = network_shape(OBS, ACTIONS, 0, NetworkConfig())
    assert "gsde" not in plain
    assert ActorCritic.from_shape(plain).log_std.shape == (ACTIONS,)
    assert ActorCritic.from_shape(network_shape(OBS, ACTIONS, 0, GSDE)).log_std.shape == (HIDDEN, ACTIONS)


def test_sb3_gsde_policy_computes_same_function():
    model = PPO("MlpPolicy", "Pendulum-v1", use_sde=True, n_steps=8, batch_size=8, device="cpu", seed=1)
    network = to_actor_critic(model.policy.state_dict(), "tanh")
    obs, actions = torch.randn(6, 3), torch.randn(6, 1)
    _, log_prob, entropy = model.policy.evaluate_actions(obs, actions)
    ours = network.evaluate(obs, actions)
    torch.testing.assert_close(ours[0], log_prob, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(ours[1], entropy, atol=1e-6, rtol=1e-5)


def gym(tmp_path, *options):
    place = [f"checkpoint_dir={tmp_path}", "name=small", "logger.progress=false", "device=cpu", "threads=1"]
    size = ["env.num_envs=2", "ppo.rollout_steps=32", "ppo.minibatch_size=32", "network.hidden=8"]
    return load(["+run=gymnasium_continuous", *place, *size, *options])


def test_run_trains_with_gsde(tmp_path):
    final = train(gym(tmp_path, "network.gsde=true", "ppo.gsde_every=4", "network.log_std_init=-2", "max_updates=2"))
    row = (final.parent / "metrics.jsonl").read_text().splitlines()[-1]
    assert '"train/log_std_0": -2.0' in row or '"train/log_std_0": -1.9' in row


def test_game_without_continuous_actions_rejects_gsde(tmp_path):
    with pytest.raises(ConfigError, match=r"network\.gsde=true: CartPole-v1 has no continuous actions"):
        train(gym(tmp_path, "network.gsde=true", "env.id=CartPole-v1"))
