"""SB3 zips as players: same actions as SB3's `predict`, or rejection in one line."""

import json
import warnings
import zipfile

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, MultiBinary, MultiDiscrete

pytest.importorskip("stable_baselines3")

from stable_baselines3 import A2C, DDPG, PPO, SAC, TD3
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn

import sparring
from sparring.agents.policies.sb3_files import SB3Error
from sparring.configs.core.errors import InputError
from sparring.envs.dogfight.interfaces.spaces import action_space, observation_space
from sparring.envs.dogfight.training.matches import MatchSettings
from sparring.envs.dogfight.training.opponents.load import open_player
from sparring.envs.dogfight.training.opponents.planner import plan
from tests.agents.policies.sb3_data import by_name, data_of, encoded, options_with

OBS = np.random.default_rng(0).uniform(-1, 1, (64, 59)).astype(np.float32)
OWN, SEEN = action_space(), observation_space("classic", True)


class Still(DummyVecEnv):
    """An environment with these spaces in which nothing is played."""

    def __init__(self, observation=SEEN, action=OWN):
        self.num_envs, self.render_mode = 1, None
        self.observation_space, self.action_space = observation, action


def model(kind=PPO, *, observation=SEEN, action=OWN, policy="MlpPolicy", kwargs=(), **options):
    """Return a model with outputs large enough to be clipped."""
    made = kind(policy, Still(observation, action), policy_kwargs=dict(kwargs), device="cpu", seed=0, **options)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in made.policy.parameters():
            weight.add_(0.1 * torch.randn(weight.shape, generator=generator))
    return made


def saved(made, folder):
    made.save(folder / "model.zip")
    return folder / "model.zip"


SAME = {
    "plain": {},
    "A2C": {"kind": A2C},
    "relu": {"kwargs": {"activation_fn": nn.ReLU, "net_arch": {"pi": [32, 32], "vf": [32, 32]}}},
    "squashed": {"use_sde": True, "kwargs": {"squash_output": True}},
    "squashed A2C": {"kind": A2C, "use_sde": True, "kwargs": {"squash_output": True, "use_expln": True}},
    "gSDE": {"use_sde": True, "kwargs": {"log_std_init": 0.5}},
    "one deviation": {"use_sde": True, "kwargs": {"full_std": False, "log_std_init": -1.0}},
    "expln": {"use_sde": True, "kwargs": {"use_expln": True, "log_std_init": 0.3}},
    "options of training": {
        "kwargs": {
            "ortho_init": False,
            "normalize_images": False,
            "share_features_extractor": False,
            "features_extractor_class": FlattenExtractor,
            "optimizer_kwargs": {"eps": 1e-6},
            "log_std_init": 0.2,
        }
    },
    "float64 bounds": {"action": Box(OWN.low.astype(float), OWN.high.astype(float), dtype=np.float64)},
}


@pytest.mark.parametrize("case", SAME)
def test_actions_match_sb3(case, tmp_path):
    made = model(**SAME[case])
    policy = sparring.load(saved(made, tmp_path))
    expected = np.clip(made.predict(OBS, deterministic=True)[0], OWN.low, OWN.high)
    assert np.ptp(expected, axis=0).min() > 0.1
    np.testing.assert_allclose(policy.predict(OBS)[0], expected, rtol=0.0, atol=1e-6)
    native = np.clip(policy.act(torch.from_numpy(OBS)).numpy(), OWN.low, OWN.high)
    np.testing.assert_allclose(native, expected, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("case", SAME)
def test_sampled_actions_follow_sb3_distribution(case, tmp_path):
    """The shares below five points of every action match SB3's Gaussian before tanh."""
    made, count = model(**SAME[case]), 20_000
    player = open_player(saved(made, tmp_path), deterministic=False).contestant
    drawn = player.act(torch.from_numpy(OBS[:1]).repeat(count, 1))
    with torch.no_grad():
        gaussian = made.policy.get_distribution(torch.from_numpy(OBS[:1])).distribution
    if made.policy.squash_output:
        low, high = (torch.from_numpy(end) for end in (OWN.low, OWN.high))
        drawn = torch.atanh((2.0 * (drawn - low) / (high - low) - 1.0).clamp(-1 + 1e-7, 1 - 1e-7))
    for part in (-1.5, -0.5, 0.0, 0.5, 1.5):
        below = (drawn < gaussian.mean + part * gaussian.stddev).float().mean(0)
        expected = torch.distributions.Normal(0.0, 1.0).cdf(torch.tensor(part))
        assert (below - expected).abs().max() < 4.5 * 0.5 / count**0.5, part


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 5.0), (np.float32([-2, -1, 0]), np.float32([2, 3, 9]))])
@pytest.mark.parametrize("squash", [False, True])
def test_other_bounds_are_rescaled_to_game(low, high, squash, tmp_path):
    """This matches the wrapper used in training."""
    env = gym.wrappers.RescaleAction(gym.make("sparring/Dogfight-v1", opponent="do_nothing"), low, high)
    made = model(action=env.action_space, use_sde=squash, kwargs={"squash_output": squash})
    own = made.predict(OBS, deterministic=True)[0]
    expected = np.stack([env.action(action) for action in own])
    np.testing.assert_allclose(sparring.load(saved(made, tmp_path)).predict(OBS)[0], expected, rtol=0.0, atol=1e-6)
    assert "is scaled to the bounds of the game" in open_player(tmp_path / "model.zip").notes[0]


def test_planner_samples_squashed_actions(tmp_path):
    """Plans use the policy's actions, not raw Gaussian samples."""
    path = saved(model(use_sde=True, kwargs={"squash_output": True, "log_std_init": 2.0}), tmp_path)
    actions = plan(open_player(path).contestant, samples=2, games=2, seed=1, setting=MatchSettings(max_ticks=240))
    assert (actions >= torch.from_numpy(OWN.low)).all()
    assert (actions <= torch.from_numpy(OWN.high)).all()


class Doubled(ActorCriticPolicy):
    def _predict(self, observation, deterministic=False):
        return 2.0 * super()._predict(observation, deterministic)


class Cubed(FlattenExtractor):
    def forward(self, observations):
        return super().forward(observations) ** 3


class ReLU(nn.LeakyReLU):
    """Another function of a known name."""


REFUSED = {
    "policy class": ({"policy": Doubled}, "policy_class=.*Doubled: only .*ActorCriticPolicy is played"),
    "extractor": ({"kwargs": {"features_extractor_class": Cubed}}, "features_extractor_class=.*Cubed: expected"),
    "function": ({"kwargs": {"activation_fn": lambda: nn.Tanh()}}, "activation_fn=a function of its own"),
    "name": ({"kwargs": {"activation_fn": ReLU}}, r"activation_fn=tests\.agents.*\.ReLU: its activation is not"),
    "linear": ({"kwargs": {"activation_fn": nn.Identity}}, r"activation_fn=torch\.nn\.modules\.linear\.Identity"),
    "widths": ({"kwargs": {"net_arch": {"pi": [32, 32], "vf": [16, 16]}}}, r"not all of one width.*net_arch=\[64"),
    "one layer": ({"kwargs": {"net_arch": [32]}}, r"needs two plain layers .*net_arch=\[64, 64\]"),
    "SAC": ({"kind": SAC}, r"policy_class=stable_baselines3\.sac\.policies\.SACPolicy"),
    "TD3": ({"kind": TD3}, r"policy_class=stable_baselines3\.td3\.policies\.TD3Policy"),
    "DDPG": ({"kind": DDPG}, r"policy_class=stable_baselines3\.td3\.policies\.TD3Policy"),
    "choices": ({"action": MultiDiscrete([3, 3, 2])}, "action_space=gymnasium.*MultiDiscrete: expected a Box"),
    "switches": ({"action": MultiBinary(3)}, "action_space=gymnasium.*MultiBinary: expected a Box"),
    "four numbers": ({"action": Box(-1, 1, (4,))}, r"action_space=Box\(-1, 1, \(4,\)\): expected 3 numbers"),
    "a column": ({"action": Box(-1, 1, (3, 1))}, r"action_space=Box\(-1, 1, \(3, 1\)\): expected 3 numbers"),
    "rescaled observations": ({"observation": Box(-1, 1, (59,))}, r"observation_space=Box\(-1, 1, \(59,\)\): expected"),
    "frames": ({"observation": Box(-1, 1, (4, 56))}, r"observation_space=Box\(-1, 1, \(4, 56\)\): expected"),
    "parts": (
        {"observation": Dict({"x": Box(-1, 1, (59,))}), "policy": "MultiInputPolicy"},
        "policy_class=.*MultiInputActorCriticPolicy",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_incompatible_zip_is_rejected_with_key_value_and_fix(case, tmp_path):
    options, message = REFUSED[case]
    with pytest.raises(InputError, match=message) as caught:
        sparring.load(saved(model(**options), tmp_path))
    assert "\n" not in str(caught.value)
    assert "train" in str(caught.value).partition(": ")[2]


@pytest.mark.parametrize(
    "kind",
    [
        "sb3_contrib.common.recurrent.policies.RecurrentActorCriticPolicy",
        "sb3_contrib.common.maskable.policies.MaskableActorCriticPolicy",
        "sb3_contrib.tqc.policies.TQCPolicy",
        "sb3_contrib.ars.policies.ARSPolicy",
        "stable_baselines3.dqn.policies.DQNPolicy",
    ],
)
def test_policies_of_other_algorithms_are_rejected_by_class(kind, tmp_path):
    path = changed(saved(model(), tmp_path), policy_class=by_name(kind))
    with pytest.raises(SB3Error, match=f"policy_class={kind}: only"):
        sparring.load(path)


def changed(path, drop=(), **values):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    data = json.loads(members["data"]) | values
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            stored = json.dumps({key: data[key] for key in data if key not in drop}) if name == "data" else content
            archive.writestr(name, stored)
    return path


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"policy_kwargs": {"squash_output": 1}}, "policy_kwargs.squash_output=1: expected only options"),
        ({"policy_kwargs": {"clip_mean": 2.0}}, "policy_kwargs.clip_mean=2.0: expected only options"),
        ({"policy_kwargs": options_with(dist_kwargs="some.thing")}, "policy_kwargs.dist_kwargs=type: expected only"),
        ({"policy_kwargs": None}, "policy_kwargs: expected a dictionary"),
        ({"policy_class": "ActorCriticPolicy"}, "policy_class=a class of its own script"),
        ({"action_space": data_of(59, 3)["action_space"]}, "action_space=Box.*: expected finite bounds"),
        ({"action_space": encoded(b"no pickle")}, "action_space: is damaged"),
        ({"drop": ("observation_space",)}, "observation_space is missing"),
    ],
)
def test_missing_or_invalid_values_are_rejected(values, message, tmp_path):
    with pytest.raises(SB3Error, match=message):
        sparring.load(changed(saved(model(), tmp_path), **values))


def test_unbounded_observations_play_with_warning(tmp_path):
    """Gymnasium's NormalizeObservation leaves no other trace in a zip."""
    path = saved(model(observation=Box(-np.inf, np.inf, (59,))), tmp_path)
    changed(path, _last_obs=[], _last_original_obs=None)
    with pytest.warns(UserWarning, match="unbounded observation space, as under Gymnasium's NormalizeObservation"):
        sparring.load(path)
    changed(path, **data_of(SEEN, OWN))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sparring.load(path)
