"""SB3 on Gymnasium environments: same observations and actions, and policies that our evaluation plays."""

import gymnasium
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from stable_baselines3 import PPO

from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.policies.sb3_files import to_actor_critic
from sparring.agents.trainers import train
from sparring.configs.load import load
from sparring.envs.imported.evaluation.episodes import play
from sparring.envs.spaces import action_sizes

ID = "test/Switches-v0"


class Switches(gymnasium.Env):
    """Reward each switch that is on and both high choices; observe one of three places."""

    def __init__(self, space=None):
        self.observation_space, self.action_space = Discrete(3), space or MultiDiscrete([2, 3])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.now = 0
        return 0, {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.now += 1
        return self.now % 3, float(action.sum()), self.now == 5, False, {}


@pytest.fixture(autouse=True)
def registered():
    gymnasium.register(ID, Switches)
    yield
    del gymnasium.registry[ID]


def small(tmp_path, *options):
    place = [f"checkpoint_dir={tmp_path}", "name=small", "threads=1", "logger.progress=false", "device=cpu"]
    size = ["env.num_envs=2", "ppo.rollout_steps=64", "ppo.minibatch_size=64", "network.hidden=16"]
    return load([*place, *size, "trainer=sb3", *options])


def test_learns_multi_discrete_from_one_hot_observations(tmp_path):
    """The best return is 1 + 2 per step, random play gets 1.5."""
    checkpoint = load_checkpoint(train(small(tmp_path, "env=gymnasium", f"env.id={ID}", "phases.0.updates=25")))
    assert (checkpoint.contract["obs_dim"], checkpoint.contract["categorical"]) == (3, [2, 3])
    assert (play(checkpoint, 4, 1)[:, 0] == 15.0).all()


def test_gaussian_policy_is_evaluated_with_training_statistics(tmp_path):
    options = ["+run=gymnasium_continuous", "network.gsde=true", "network.log_std_init=-2", "phases.0.updates=1"]
    checkpoint = load_checkpoint(train(small(tmp_path, *options)))
    assert checkpoint.network.log_std.shape == (16, 1)
    assert checkpoint.contract["normalizer"]["count"] == 2 * (64 + 1)
    assert (play(checkpoint, 2, 1)[:, 1] == 200).all()


@pytest.mark.parametrize("space", [Discrete(4), MultiDiscrete([2, 3]), MultiBinary(3), Box(-1.0, 1.0, (2,))], ids=str)
def test_converted_policy_densities_match_sb3(space):
    env = Switches(space)
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8, device="cpu", seed=1)
    with torch.no_grad():
        model.policy.action_net.weight.mul_(100.0)
    sizes = action_sizes(space)
    kinds = {kind: sizes[kind] for kind in ("binary", "categorical")}
    network = to_actor_critic(model.policy.state_dict(), "tanh", **kinds)
    obs, generator = torch.eye(3).repeat(5, 1), torch.Generator().manual_seed(1)
    actions, log_prob = network.act(obs, generator=generator)
    column = actions[:, 0] if isinstance(space, Discrete) else actions
    places = obs.argmax(-1)  # SB3 makes them one-hot itself
    value, expected, entropy = model.policy.evaluate_actions(places, column)
    torch.testing.assert_close(log_prob, expected.detach(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(network.evaluate(obs, actions)[1], entropy, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(network.value(obs), value.squeeze(-1), atol=1e-6, rtol=1e-5)
