"""Gymnasium environments as a task, including those registered by a module."""

import math
import sys
from textwrap import dedent

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from sparring.agents.opponents import players
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.trainers import train
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.typed import ContentError
from sparring.configs.load import load
from sparring.envs.imported.config import GymnasiumEnvConfig, GymnasiumRunConfig
from sparring.envs.imported.training.copies import make_copies
from sparring.envs.imported.training.gymnasium import GymnasiumEnvs, GymnasiumTask
from sparring.envs.spaces import Normalizer
from sparring.eval.run import main

LENGTH = 5


class Clock(gymnasium.Env):
    """Observe (episode, step); the reward is the step. Odd episodes terminate, even ones time out."""

    def __init__(self, space=None):
        self.observation_space = Box(-100.0, 100.0, (2,), np.float32)
        self.action_space = space or Box(-1.0, 1.0, (1,), np.float32)
        self.episode = -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.now = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.now += 1
        return self._obs(), float(self.now), self.episode % 2 == 1 and self.now == LENGTH, False, {}

    def _obs(self):
        return np.array([self.episode, self.now], dtype=np.float32)


@pytest.fixture(autouse=True)
def registered():
    gymnasium.register("test/Clock-v0", Clock, max_episode_steps=LENGTH)
    yield
    del gymnasium.registry["test/Clock-v0"]


def envs(**options):
    config = GymnasiumRunConfig(env=GymnasiumEnvConfig(id="test/Clock-v0", num_envs=3, **options))
    return GymnasiumEnvs(config, torch.device("cpu"), seed=1)


def test_episode_ends_with_own_final_observation_and_right_flag():
    clocks = envs()
    for step in range(1, 4 * LENGTH + 1):
        obs, reward, terminated, truncated = clocks.step(torch.full((3, 1), 7.0))  # out of bounds: clipped
        episode, now = (step - 1) // LENGTH, (step - 1) % LENGTH + 1
        ended = now == LENGTH
        assert reward.tolist() == [float(now)] * 3
        assert obs.tolist() == [[episode + 1, 0] if ended else [episode, now]] * 3
        assert terminated.tolist() == [ended and episode % 2 == 1] * 3
        assert truncated.tolist() == [ended and episode % 2 == 0] * 3
        if ended:
            assert clocks.final_obs.tolist() == [[episode, now]] * 3
    assert clocks.finished == [(copy, 15.0, LENGTH) for _ in range(4) for copy in range(3)]


def test_observations_are_normalized_by_running_statistics():
    clocks, seen = envs(normalize_obs=True), []
    seen += [[0.0, 0.0]] * 3
    for step in range(1, 9):
        obs, *_ = clocks.step(torch.zeros(3, 1))
        seen += [[step // LENGTH, step % LENGTH]] * 3
        raw = np.array(seen)
        expected = (raw[-1] - raw.mean(0)) / np.sqrt(raw.var(0) + 1e-8)
        np.testing.assert_allclose(obs[0].numpy(), np.clip(expected, -10, 10), rtol=1e-5)


def test_rewards_are_scaled_by_std_of_discounted_returns():
    clocks, discounted, seen = envs(normalize_reward=True), 0.0, []
    for step in range(1, 9):
        _, reward, *_ = clocks.step(torch.zeros(3, 1))
        value = float((step - 1) % LENGTH + 1)
        discounted = discounted * 0.999 + value
        seen += [discounted] * 3
        assert reward[0].item() == pytest.approx(min(value / np.sqrt(np.var(seen) + 1e-8), 10.0), rel=1e-5)
        discounted = 0.0 if step % LENGTH == 0 else discounted


def test_unsupported_environment_is_named():
    with pytest.raises(ConfigError, match=r"env\.id=CartPol-v1: cannot be made: .*did you mean 'CartPole-v1'"):
        make_copies("CartPol-v1", 1)


def test_discrete_actions_start_at_space_start():
    space = Discrete(3, start=5)
    gymnasium.register("test/Choices-v0", lambda: Clock(space), max_episode_steps=LENGTH)
    config = GymnasiumRunConfig(env=GymnasiumEnvConfig(id="test/Choices-v0", num_envs=3))
    GymnasiumEnvs(config, torch.device("cpu"), seed=1).step(torch.tensor([[0.0], [1.0], [2.0]]))
    del gymnasium.registry["test/Choices-v0"]


def small(tmp_path, *options):
    place = [f"checkpoint_dir={tmp_path}", "name=small", "threads=1", "logger.progress=false", "device=cpu"]
    kind = [] if any(option.startswith("+run=") for option in options) else ["env=gymnasium"]
    return load([*kind, *place, *options])


@pytest.mark.slow
def test_cartpole_is_learned(tmp_path):
    final = load_checkpoint(train(small(tmp_path, "max_updates=25")))
    assert final.contract["id"] == "CartPole-v1"
    assert (final.network.categorical, final.contract["categorical"]) == ((2,), 2)
    assert final.training["recent_return"] > 60.0  # 22 by chance


def test_resumed_run_is_reported_as_inexact(tmp_path, capsys):
    train(small(tmp_path, "max_updates=2"))
    train(small(tmp_path, "max_updates=4"))
    said = capsys.readouterr().out
    assert "resumed after update 2" in said
    assert "inexact resume: Gymnasium's environments cannot be saved, so episodes start again" in said


def test_statistics_are_restored_with_run(tmp_path):
    options = ["+run=gymnasium_continuous", "env.id=Pendulum-v1", "ppo.rollout_steps=64", "ppo.minibatch_size=64"]
    runs = [train(small(tmp_path, *options, f"max_updates={updates}")) for updates in (1, 2)]
    statistics = load_checkpoint(runs[1]).contract["normalizer"]
    assert statistics["count"] == 2 * (64 + 1)  # each sitting shows the beginning of its first episode
    assert len(statistics["mean"]) == 3


def test_resumed_run_scales_rewards_by_stored_returns():
    whole, cut = task(normalize_reward=True), task(normalize_reward=True)
    for _ in range(LENGTH):  # whole episodes, so that both go on at the beginning of one
        whole.env.step(torch.zeros(3, 1))
    cut.load_state_dict(whole.state_dict(), episodes=False)
    for _ in range(2 * LENGTH):
        _, expected, *_ = whole.env.step(torch.zeros(3, 1))
        _, reward, *_ = cut.env.step(torch.zeros(3, 1))
        assert torch.equal(reward, expected)


def task(**options):
    config = GymnasiumRunConfig(env=GymnasiumEnvConfig(id="test/Clock-v0", num_envs=3, **options))
    return GymnasiumTask(config, torch.device("cpu"), seeds={"env": 1})


def test_policy_statistics_do_not_change_while_playing():
    """A hundred steps of other observations change neither the statistics nor the normalized values."""
    given = {"mean": [4.0, 2.0], "variance": [9.0, 4.0], "count": 10.0}
    config = GymnasiumRunConfig(env=GymnasiumEnvConfig(id="test/Clock-v0", num_envs=3, normalize_obs=True))
    clocks = GymnasiumEnvs(config, torch.device("cpu"), seed=1, statistics=given)
    for step in range(1, 101):
        obs, *_ = clocks.step(torch.zeros(3, 1))
        shown = [(step // LENGTH - 4.0) / 3.0, (step % LENGTH - 2.0) / 2.0]
        np.testing.assert_allclose(obs.numpy(), np.tile(shown, (3, 1)), rtol=1e-6, atol=1e-6)
    assert clocks.contract["normalizer"] == given


@pytest.mark.parametrize(
    "value", [[1.0, True], [1.0, 2], [1.0], [[1.0, 2.0]], [1.0, [2.0]], [1.0, math.nan], "12", None]
)
def test_stored_statistics_are_validated_numbers(value):
    normalizer = Normalizer((2,), enabled=True)
    normalizer.load_state_dict({"mean": [1.0, 2.0], "variance": [3.0, 4.0], "count": 5.0})
    with pytest.raises(ContentError, match=r"variance: must be 2 finite number\(s\)"):
        normalizer.load_state_dict({"mean": [0.0, 0.0], "variance": value, "count": 6.0})
    assert (normalizer.mean.tolist(), normalizer.variance.tolist(), normalizer.count) == ([1.0, 2.0], [3.0, 4.0], 5.0)


def test_project_id_under_env_gymnasium_is_plain_environment():
    config = load(["env=gymnasium", "env.id=sparring/Dogfight-v1", "env.num_envs=2"])
    assert isinstance(config, GymnasiumRunConfig)
    envs = GymnasiumEnvs(config, torch.device("cpu"), seed=1)
    assert envs.notes[0].startswith(
        "env.id=sparring:sparring/Dogfight-v1: stepped by its vector environment, autoreset_mode SameStep"
    )
    assert (envs.observation_space, envs.action_space) == (
        envs.envs.single_observation_space,
        envs.envs.single_action_space,
    )
    envs.close()


MODULE, ID = "users_own_envs", "users_own_envs:Team/Guess-v0"
SOURCE = """
    import gymnasium
    from gymnasium.envs.classic_control import CartPoleEnv

    gymnasium.register("Team/Guess-v0", CartPoleEnv, max_episode_steps=20)
    """
SMALL = "env.num_envs=2 ppo.rollout_steps=32 ppo.minibatch_size=32 network.hidden=8 device=cpu threads=1"


@pytest.fixture
def forget(tmp_path, monkeypatch):
    """Write the module to the import path; the returned function forgets it, like a new process."""

    def forget():
        sys.modules.pop(MODULE, None)
        gymnasium.registry.pop("Team/Guess-v0", None)

    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / f"{MODULE}.py").write_text(dedent(SOURCE))
    monkeypatch.syspath_prepend(tmp_path / "lib")
    monkeypatch.setattr(players, "CHECKPOINTS", tmp_path)
    monkeypatch.setattr(players, "ROOT", tmp_path)
    yield forget
    forget()


def options(tmp_path, *more):
    return [*SMALL.split(), f"checkpoint_dir={tmp_path}", "logger.progress=false", *more]


def test_run_with_typed_module_trains_resumes_and_evaluates(tmp_path, forget, capsys):
    train(load(options(tmp_path, "env=gymnasium", f"env.id={ID}", "name=guess", "max_updates=1")))
    forget()
    resume = options(tmp_path, "resume=guess", "max_updates=2")
    with pytest.raises(ConfigError, match=rf"runs the code of the module {MODULE}; if you trust it, add env\.id={ID}"):
        load(resume)
    assert MODULE not in sys.modules
    final = train(load([*resume, f"env.id={ID}"]))
    assert (load_checkpoint(final).contract["id"], load_checkpoint(final).training["update"]) == (ID, 2)
    forget()
    evaluate = ["--ckpt", "guess", "--episodes", "2", "--threads", "1", "--device", "cpu"]
    assert main(evaluate) == 2
    assert f"if you trust it, add --import {MODULE}" in capsys.readouterr().err.splitlines()[-1]
    assert MODULE not in sys.modules
    assert main([*evaluate, "--import", MODULE]) == 0
    assert ID in (final.parent / "eval.md").read_text()


def test_missing_module_gives_one_line_error(tmp_path):
    with pytest.raises(ConfigError, match=r"env\.id=no_such_module:A/B-v0: cannot be made: No module named"):
        train(load(options(tmp_path, "env=gymnasium", "env.id=no_such_module:A/B-v0")))
