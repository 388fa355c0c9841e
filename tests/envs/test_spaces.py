"""Observations and actions of every kind of space, against Gymnasium's own flattening."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence, Text, Tuple, flatten
from torch.distributions import Categorical

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.policies.networks import build_network, shape_for
from sparring.agents.trainers import train
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.load import load
from sparring.configs.schema import NetworkConfig
from sparring.envs.imported.config import GymnasiumEnvConfig, GymnasiumRunConfig
from sparring.envs.imported.evaluation import episodes
from sparring.envs.imported.training.gymnasium import GymnasiumEnvs, GymnasiumTask
from sparring.envs.spaces import to_actions, to_scale

ID = "test/Spaces-v0"
OBSERVATIONS = (
    Discrete(4),
    Discrete(3, start=-1),
    MultiDiscrete([2, 3]),
    MultiBinary((2, 2)),
    Tuple((Discrete(2), Box(-1.0, 1.0, (2, 2)))),
    Dict(place=Discrete(3), velocity=Box(-np.inf, np.inf, (2,)),
     inner=Dict(on=MultiBinary(2), which=MultiDiscrete([2, 2]))),
)  # fmt: skip
ACTIONS = (
    Discrete(3, start=2),
    MultiDiscrete([2, 3]),
    MultiDiscrete([[2, 3], [4, 5]]),
    MultiBinary(3),
    Box(-1.0, 1.0, (2,)),
)


class Sampled(gymnasium.Env):
    """Observe recorded random members of a space; episodes of three steps; the reward sums the action."""

    def __init__(self, observation, action=None):
        self.observation_space, self.action_space = observation, action or Discrete(2)
        self.observation_space.seed(0)
        self.seen, self.actions = [], []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.now = 0
        return self._obs(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.actions.append(action)
        self.now += 1
        return self._obs(), float(np.sum(action)), self.now == 3, False, {}

    def _obs(self):
        self.seen.append(self.observation_space.sample())
        return self.seen[-1]


@pytest.fixture
def registered():
    """Register the environment with these spaces as `ID`."""

    def register(observation, action=None):
        gymnasium.register(ID, lambda: Sampled(observation, action), disable_env_checker=True, order_enforce=False)

    yield register
    gymnasium.registry.pop(ID, None)


def make(copies=1):
    config = GymnasiumRunConfig(env=GymnasiumEnvConfig(id=ID, num_envs=copies))
    return GymnasiumEnvs(config, torch.device("cpu"), seed=1)


@pytest.mark.parametrize("space", OBSERVATIONS, ids=str)
def test_observations_match_gymnasium_flatten(registered, space):
    registered(space)
    envs = make()
    seen = envs.envs.envs[0].unwrapped.seen
    shown, final = [envs.obs[0]], []
    for _ in range(7):
        _, _, terminated, _ = envs.step(torch.zeros(1, 1))
        final += [envs.final_obs[0]] if terminated[0] else []
        shown.append(envs.obs[0])
    expected = [torch.tensor(flatten(space, one), dtype=torch.float32) for one in seen]
    ends = [3, 7]  # the fourth observation of every episode is its last
    assert torch.equal(torch.stack(final), torch.stack([expected[end] for end in ends]))
    assert torch.equal(
        torch.stack(shown), torch.stack([row for index, row in enumerate(expected) if index not in ends])
    )
    assert envs.contract["obs_dim"] == len(expected[0])


def test_discrete_observation_is_one_hot():
    config = GymnasiumRunConfig(env=GymnasiumEnvConfig(id="FrozenLake-v1", num_envs=2))
    envs = GymnasiumEnvs(config, torch.device("cpu"), seed=1)
    for _ in range(20):
        place = [env.unwrapped.s for env in envs.envs.envs]
        assert torch.equal(envs.obs, torch.nn.functional.one_hot(torch.tensor(place), 16).float())
        envs.step(torch.randint(4, (2, 1)).float())


def test_bytes_are_scaled_from_bounds(registered):
    pixels = Box(np.array([0, 10], np.uint8), np.array([255, 30], np.uint8), dtype=np.uint8)
    registered(Dict(bytes=pixels, wide=Box(-100.0, 100.0, (1,))))
    envs = make()
    seen = envs.envs.envs[0].unwrapped.seen[-1]
    low, high = seen["bytes"].astype(float)
    assert envs.obs[0].tolist() == pytest.approx([low / 255, (high - 10) / 20, seen["wide"].item()])


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (Box(0, 255, (84, 84), np.uint8), r"observes images \(84, 84\)"),
        (Dict(camera=Box(0, 255, (4, 64, 64), np.uint8)), r"observes images \(4, 64, 64\)"),
        (Dict(words=Text(5)), r"observes Text\(.*supported are Box, Discrete, MultiBinary, MultiDiscrete, and Dict"),
        (Tuple((Sequence(Discrete(2)),)), r"observes Sequence\("),
    ],
)
def test_unsupported_spaces_are_rejected(registered, space, words):
    registered(space)
    with pytest.raises(ConfigError, match=words):
        make()


def test_small_images_are_flattened_and_bad_actions_rejected(registered):
    registered(Box(0, 255, (7, 7, 3), np.uint8))
    assert make().contract["obs_dim"] == 147
    del gymnasium.registry[ID]
    registered(Discrete(2), Tuple((Discrete(2), Discrete(2))))
    with pytest.raises(ConfigError, match=r"acts by Tuple.*supported are Box, Discrete, MultiBinary and MultiDiscrete"):
        make()


@pytest.mark.parametrize("space", ACTIONS, ids=str)
def test_sampled_actions_cover_space(registered, space):
    registered(Discrete(2), space)
    envs = make(3)
    network = build_network(shape_for(envs.contract, NetworkConfig(hidden=8)), seed=1)
    generator = torch.Generator().manual_seed(1)
    for _ in range(60):
        envs.step(network.act(envs.obs, generator=generator)[0])  # the environment refuses what is no member
    taken = np.array([np.ravel(action) for env in envs.envs.envs for action in env.unwrapped.actions])
    if isinstance(space, MultiDiscrete):
        assert [len(np.unique(column)) for column in taken.T] == space.nvec.ravel().tolist()
    if isinstance(space, MultiBinary):
        assert taken.min(0).tolist() == [0] * 3
        assert taken.max(0).tolist() == [1] * 3


WIDE = Box(np.array([0, -2, 5, 0]), np.array([1000, 2, 6, np.inf]), dtype=np.float32)
ACTED = [
    (WIDE, [0.4, 1.5, -1.0, -3.0], [700.0, 1.5, 5.0, 0.0]),
    (WIDE, [9.0, -9.0, 0.0, 3.0], [1000.0, -2.0, 5.5, 3.0]),
    (Box(0, 10, (2,), np.int64), [0.47, -1.2], [7, 0]),
    (Box(np.uint8(5), np.uint8(255), (1,), np.uint8), [1.0], [255]),
    (Box(-3.0, 3.0, (1,), np.float64), [0.5], [0.5]),
    (Box(-0.4, 0.4, (1,), np.float32), [0.5], [np.float32(0.4)]),
]


@pytest.mark.parametrize(("space", "given", "expected"), ACTED)
def test_actions_are_scaled_to_unusual_bounds(space, given, expected):
    """[-1, 1] to the bounds: 0 + 1.4 / 2 * 1000 = 700. Bounds like -2..2 and open ones clip."""
    (taken,) = to_actions(space, np.array([given], np.float32), scale=True)
    np.testing.assert_allclose(taken, expected)
    assert space.contains(taken)
    assert bool(to_scale(space).any()) == (space.shape != (1,) or space.dtype == np.uint8)


def test_without_scaling_actions_are_clipped_and_integers_rounded():
    assert to_actions(WIDE, np.array([[3.5, 9.0, 0.0, -1.0]]), scale=False).tolist() == [[3.5, 2.0, 5.0, 0.0]]
    (taken,) = to_actions(Box(0, 10, (3,), np.int64), np.array([[3.7, 0.126, 99.0]]), scale=False)
    assert (taken.tolist(), taken.dtype) == ([4, 0, 10], np.int64)


def test_policy_keeps_scaling_of_its_training(registered, tmp_path):
    registered(Discrete(2), Box(0, 1000, (1,), np.float32))
    scaled = load_checkpoint(train(small(tmp_path, f"env.id={ID}", "max_updates=1")))
    options = ("env.scale_actions=false", "name=clipped")
    clipped = load_checkpoint(train(small(tmp_path, f"env.id={ID}", "max_updates=1", *options)))
    assert (scaled.contract.get("scale_actions"), clipped.contract.get("scale_actions")) == (True, None)
    for checkpoint, middle in ((scaled, 500.0), (clipped, 0.0)):
        envs = episodes.make_envs(checkpoint, 1, 0, "cpu")
        envs.step(torch.zeros(1, 1))
        assert envs.envs.envs[0].unwrapped.actions[0].item() == middle
        policy = episodes.load_episode_policy(checkpoint.path, "cpu")
        assert (policy.predict(1)[0].item() > 100.0) == (middle > 0)
    (line,) = make().notes
    assert line.startswith(f"env.id={ID}: actions are scaled from [-1, 1] of the network to the bounds of Box(0.0, 1")
    with pytest.raises(InputError, match="scale_actions=None, this run has True"):
        train(small(tmp_path, f"env.id={ID}", "max_updates=1", "name=d", f"init_from={clipped.path}"))


def test_resumed_run_of_earlier_version_still_clips(registered):
    registered(Discrete(2), Box(0, 1000, (1,), np.float32))
    config = GymnasiumRunConfig(env=GymnasiumEnvConfig(id=ID, num_envs=1))
    task = GymnasiumTask(config, torch.device("cpu"), seeds={"env": 1})
    state = task.state_dict()
    task.load_state_dict(state, episodes=False)
    assert task.env.scale_actions
    del state["gymnasium"]["scale_actions"]
    task.load_state_dict(state, episodes=False)
    assert not task.env.scale_actions
    assert "a new run with env.scale_actions=true scales them" in task.env.notes[0]


def test_multi_discrete_density_is_product_of_choices():
    network = ActorCritic(4, 0, 0, NetworkConfig(hidden=8), categorical=[2, 5, 3], seed=3)
    with torch.no_grad():
        network.actor[-1].weight.mul_(100.0)
    obs = torch.randn(50, 4, generator=torch.Generator().manual_seed(1))
    actions, log_prob = network.act(obs, generator=torch.Generator().manual_seed(2))
    parts = [Categorical(logits=logits) for logits in network.actor(obs).split([2, 5, 3], dim=-1)]
    expected = sum(part.log_prob(actions[:, column]) for column, part in enumerate(parts))
    torch.testing.assert_close(log_prob, expected)
    evaluated, entropy = network.evaluate(obs, actions)
    torch.testing.assert_close(evaluated, expected)
    torch.testing.assert_close(entropy, sum(part.entropy() for part in parts))
    likeliest = torch.stack([part.logits.argmax(-1) for part in parts], dim=-1).float()
    assert torch.equal(network.act(obs, deterministic=True)[0], likeliest)
    again = ActorCritic.from_shape(network.shape)
    again.load_state_dict(network.state_dict())
    assert again.categorical == (2, 5, 3)


def small(tmp_path, *options):
    place = [f"checkpoint_dir={tmp_path}", "name=small", "threads=1", "logger.progress=false", "device=cpu"]
    size = ["env.num_envs=2", "ppo.rollout_steps=64", "ppo.minibatch_size=64", "network.hidden=16"]
    return load(["env=gymnasium", *place, *size, *options])


def test_multi_discrete_training_learns_and_is_evaluated(registered, tmp_path):
    """The reward is the sum of both choices, 1 + 2 at most, in each of three steps."""
    registered(Dict(place=Discrete(2), other=MultiBinary(1)), MultiDiscrete([2, 3]))
    final = train(small(tmp_path, f"env.id={ID}", "max_updates=1"))
    checkpoint = load_checkpoint(final)
    assert checkpoint.contract["categorical"] == [2, 3]
    with torch.no_grad():
        checkpoint.network.actor[-1].bias.copy_(torch.tensor([-50.0, 50.0, -50.0, -50.0, 50.0]))
    assert (episodes.play(checkpoint, 4, 1)[:, 0] == 9.0).all()


def test_policy_of_older_observation_version_is_rejected(tmp_path):
    """Before version 2 the policy saw its place's number in every column."""
    final = train(small(tmp_path, "env.id=FrozenLake-v1", "max_updates=1"))
    checkpoint = load_checkpoint(final)
    assert checkpoint.contract["version"] == 2
    checkpoint.contract["version"] = 1
    with pytest.raises(
        InputError, match=r"env\.id=FrozenLake-v1: .* learned from observations of version 1.*train a new"
    ):
        episodes.play(checkpoint, 2, 1)
