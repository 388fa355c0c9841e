"""Third-party environments: transitions by hand for single and vector environments, and rejected ones."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.run.states import StateFolder
from sparring.agents.trainers import train
from sparring.configs.core.errors import ConfigError
from sparring.configs.load import load
from sparring.envs.imported.config import GymnasiumEnvConfig, GymnasiumRunConfig
from sparring.envs.imported.training.gymnasium import GymnasiumEnvs, GymnasiumTask

ID = "test/Count-v0"
SEED = 10
"""Of copy 0, which has episodes of three steps; copy 1 has two."""
SPACES = (Box(-100.0, 100.0, (2,), np.float32), Discrete(2))


class Count(gymnasium.Env):
    """Observe (episode, step) in one reused array; the reward is the step; even episodes are truncated."""

    spoiled: dict = {}  # noqa: RUF012
    """Rewards by copy and number of the step over all episodes; "obs" spoils the observation."""

    def __init__(self, render_mode=None):
        self.observation_space, self.action_space = SPACES
        self.obs, self.episode, self.steps = np.zeros(2, np.float32), -1, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.copy = seed - SEED if seed is not None else self.copy
        self.episode += 1
        self.obs[:] = self.episode, 0
        return self.obs, {"path": np.zeros(self.episode), "episode": 7, "none": None}

    def step(self, action):
        self.steps += 1
        self.obs[1] += 1
        ended, last = self.obs[1] == 3 - self.copy, float(self.obs[1])
        value = self.spoiled.get((self.copy, self.steps), last)
        if value == "obs":
            value, self.obs[0] = last, np.inf
        odd = self.episode % 2 == 1
        return self.obs, value, ended and odd, ended and not odd, {"path": np.zeros(self.steps), "episode": None}


class CountVector(VectorEnv):
    """Two of them with the autoreset mode `mode`; with SAME_STEP no copy can restart alone."""

    mode = AutoresetMode.SAME_STEP

    def __init__(self, num_envs, max_episode_steps=None):
        self.metadata = {"autoreset_mode": self.mode}
        self.num_envs, (self.single_observation_space, self.single_action_space) = num_envs, SPACES
        self.observation_space, self.action_space = (batch_space(space, num_envs) for space in SPACES)
        self.all, self.obs = [Count() for _ in range(num_envs)], np.zeros((num_envs, 2), np.float32)

    def reset(self, *, seed=None, options=None):
        for i in np.flatnonzero((options or {}).get("reset_mask", np.ones(self.num_envs, bool))):
            self.obs[i] = self.all[i].reset(seed=None if seed is None else seed + int(i))[0]
        return self.obs, {}

    def step(self, actions):
        final = np.full(self.num_envs, None, dtype=object)
        found = [env.step(action)[:4] for env, action in zip(self.all, actions, strict=True)]
        for i, (obs, _, terminated, truncated) in enumerate(found):
            self.obs[i] = obs
            if (terminated or truncated) and self.mode is AutoresetMode.SAME_STEP:
                final[i] = obs.copy()
                self.obs[i] = self.all[i].reset()[0]
        columns = [np.array(column) for column in list(zip(*found, strict=True))[1:]]
        return self.obs, *columns, {"final_obs": final}


@pytest.fixture(params=["single", *AutoresetMode], ids=str)
def kind(request, monkeypatch):
    """Return how the two copies are stepped; Gymnasium's checks would reject the reused array."""
    monkeypatch.setattr(Count, "spoiled", {})
    if request.param != "single":
        monkeypatch.setattr(CountVector, "mode", request.param)
    vector = None if request.param == "single" else CountVector
    gymnasium.register(ID, Count, vector_entry_point=vector, disable_env_checker=True, max_episode_steps=100)
    yield request.param
    del gymnasium.registry[ID]


def make(**options):
    config = GymnasiumRunConfig(env=GymnasiumEnvConfig(id=ID, num_envs=2, **options))
    return GymnasiumEnvs(config, torch.device("cpu"), seed=SEED)


def steps(envs, number):
    """Return (obs, reward, terminated, truncated, final observation at the end) of both copies."""
    rows = []
    for _ in range(number):
        obs, reward, terminated, truncated = envs.step(torch.zeros(2, 1))
        ended = terminated | truncated
        last = [final.tolist() if end else None for final, end in zip(envs.final_obs, ended, strict=True)]
        rows.append((obs.tolist(), reward.tolist(), terminated.tolist(), truncated.tolist(), last))
    return rows


def test_every_stepping_mode_matches_hand_transitions(kind):
    envs = make()
    assert envs.obs.tolist() == [[0, 0], [0, 0]]
    assert steps(envs, 6) == [
        ([[0, 1], [0, 1]], [1, 1], [False, False], [False, False], [None, None]),
        ([[0, 2], [1, 0]], [2, 2], [False, False], [False, True], [None, [0, 2]]),
        ([[1, 0], [1, 1]], [3, 1], [False, False], [True, False], [[0, 3], None]),
        ([[1, 1], [2, 0]], [1, 2], [False, True], [False, False], [None, [1, 2]]),
        ([[1, 2], [2, 1]], [2, 1], [False, False], [False, False], [None, None]),
        ([[2, 0], [3, 0]], [3, 2], [True, False], [False, True], [[1, 3], [2, 2]]),
    ]
    assert envs.finished == [(1, 3.0, 2), (0, 6.0, 3), (1, 3.0, 2), (0, 6.0, 3), (1, 3.0, 2)]
    (note,) = envs.notes or [""]
    said = {
        "single": "",
        AutoresetMode.NEXT_STEP: f"env.id={ID}: single copies are stepped; its vector environment starts episodes with",
        AutoresetMode.SAME_STEP: f"env.id={ID}: stepped by its vector environment, autoreset_mode SameStep; env.vector",
        AutoresetMode.DISABLED: f"env.id={ID}: stepped by its vector environment, autoreset_mode Disabled; env.vector",
    }
    assert note.startswith(said[kind])
    assert make(vector=False).notes == []


@pytest.mark.parametrize("value", [np.nan, -np.inf, 1e39, "obs"])
def test_non_finite_value_ends_only_its_episode_without_result(kind, value):
    """Copy 0 at its second step. Vector environments that cannot restart one copy truncate all."""
    Count.spoiled[0, 2] = value
    envs = make(normalize_obs=True, normalize_reward=True)
    steps(envs, 1)
    _, reward, terminated, truncated = envs.step(torch.zeros(2, 1))
    assert (terminated.tolist(), truncated.tolist(), reward[0].item()) == ([True, False], [False, True], 0.0)
    assert envs.obs.isfinite().all()
    assert envs.final_obs.isfinite().all()
    restarted = kind == AutoresetMode.SAME_STEP
    # Shown: the first two, (0, 1) twice, and then the beginnings (1, 0); a second one where both are restarted.
    seen = np.array([[0, 0], [0, 0], [0, 1], [0, 1], [1, 0], [2 if restarted else 1, 0]])
    np.testing.assert_allclose(envs.observations.mean, seen.mean(0))
    np.testing.assert_allclose(envs.observations.variance, seen.var(0))
    discounted = [1.0, 1.0, 1.0 * 0.999 + 2.0]  # without that of the spoiled step
    np.testing.assert_allclose((envs.returns.mean, envs.returns.count), (np.mean(discounted), 3))
    assert envs.quarantined.item() == 1
    envs.step(torch.zeros(2, 1))
    assert envs.finished == [(1, 3.0, 2)]


def test_copies_reset_with_it_are_truncated_at_own_observation(kind):
    Count.spoiled[1, 1] = np.nan
    envs = make()
    (row,) = steps(envs, 1)
    if kind == AutoresetMode.SAME_STEP:
        assert row == ([[1, 0], [1, 0]], [1, 0], [False, True], [True, False], [[0, 1], [0, 1]])
    else:
        assert row == ([[0, 1], [1, 0]], [1, 0], [False, True], [False, False], [None, [0, 1]])
    assert envs.finished == []


def test_never_finite_environment_ends_run_by_name(kind):
    Count.spoiled.update({(1, step): np.nan for step in range(1, 200)})
    envs = make()
    with pytest.raises(ConfigError, match=rf"env\.id={ID}: copy 1 was restarted 20 times .* its reward nan is not a"):
        steps(envs, 100)
    assert envs.quarantined.item() == 21


def test_quarantine_is_restored_with_state(kind):
    Count.spoiled[0, 2] = np.nan
    config = GymnasiumRunConfig(env=GymnasiumEnvConfig(id=ID, num_envs=2, normalize_reward=True))
    before, after = (GymnasiumTask(config, torch.device("cpu"), seeds={"env": SEED}) for _ in range(2))
    steps(before.env, 3)
    after.load_state_dict(before.state_dict(), episodes=False)
    assert after.env.quarantined.item() == 1
    assert after.env.returns.state_dict() == before.env.returns.state_dict()


def single(answer, space=SPACES[0], first=None):
    """Return an environment whose steps return `answer(step)`."""

    class Odd(gymnasium.Env):
        observation_space, action_space = space, Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return (space.sample() if first is None else first), {}

        def step(self, action):
            return answer(space.sample())

    return Odd


def with_reward(value):
    return lambda obs: (obs, value, False, False, {})


PLAIN = Dict(place=Discrete(3), on=MultiBinary(2))
ACCEPTED = {
    "an array of one reward": (with_reward(np.ones(1)), SPACES[0]),
    "a reward of numpy's bool": (with_reward(np.bool_(True)), SPACES[0]),
    "ends as numbers": (lambda obs: (obs, 1, 0, np.zeros(1, bool), {}), SPACES[0]),
    "no infos": (lambda obs: (obs, 1, False, False, None), SPACES[0]),
    "a list": (lambda obs: ([1, 2], 1, False, False, {}), SPACES[0]),
    "outside the bounds": (lambda obs: (np.full(2, 1e6), 1, False, False, {}), SPACES[0]),
    "more keys": (lambda obs: ({**obs, "time": 3}, 1, False, False, {}), PLAIN),
}
REFUSED = {
    "no reward": (with_reward(None), SPACES[0], r"reward is None \(NoneType\); return one number"),
    "two rewards": (with_reward(np.ones(2)), SPACES[0], r"reward is array\(\[1\., 1\.\]\) .*; return one number"),
    "a text": (with_reward("1"), SPACES[0], r"reward is '1' \(str\); return one number"),
    "no ending": (lambda obs: (obs, 1, None, False, {}), SPACES[0], "terminated is None"),
    "four values": (lambda obs: (obs, 1, False, {}), SPACES[0], "its step .*: gives 4 values, not 5"),
    "another shape": (lambda obs: (obs[:1], 1, False, False, {}), SPACES[0], r"observes .*float32 array \(1,\)"),
    "parts of integers": (lambda obs: (0.5, 1, False, False, {}), Box(0, 9, (), np.uint8), r"observes 0\.5 \(float\)"),
    "ragged lists": (lambda obs: ([[1], [1, 2]], 1, False, False, {}), SPACES[0], r"observes \[\[1\], \[1, 2\]\]"),
    "nothing": (lambda obs: (None, 1, False, False, {}), SPACES[0], r"observes None \(NoneType\), outside"),
    "no such choice": (lambda obs: (-1, 1, False, False, {}), Discrete(3), r"observes -1 \(int\), outside"),
    "a key less": (lambda obs: ({"on": obs["on"]}, 1, False, False, {}), PLAIN, r"observes .* outside of Dict"),
}  # fmt: skip


@pytest.fixture
def odd():
    def register(environment):
        gymnasium.register("test/Odd-v0", environment, disable_env_checker=True)
        config = GymnasiumRunConfig(env=GymnasiumEnvConfig(id="test/Odd-v0", num_envs=2))
        return GymnasiumEnvs(config, torch.device("cpu"), seed=1)

    yield register
    gymnasium.registry.pop("test/Odd-v0", None)


@pytest.mark.parametrize("name", ACCEPTED)
def test_supported_environments_are_accepted(odd, name):
    answer, space = ACCEPTED[name]
    envs = odd(single(answer, space))
    _, reward, terminated, truncated = envs.step(torch.zeros(2, 1))
    assert (reward.tolist(), terminated.any(), truncated.any()) == ([1.0, 1.0], False, False)
    if name == "a list":
        assert envs.obs.tolist() == [[1, 2], [1, 2]]


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_environments_give_one_line_error(odd, name):
    answer, space, words = REFUSED[name]
    envs = odd(single(answer, space))
    with pytest.raises(ConfigError, match=rf"^env\.id=test/Odd-v0: {words}"):
        envs.step(torch.zeros(2, 1))


def test_environment_exception_keeps_traceback(odd):
    envs = odd(single(lambda obs: obs.missing))
    with pytest.raises(AttributeError, match="missing"):
        envs.step(torch.zeros(2, 1))


def test_run_with_early_truncations_and_bad_reward_resumes(tmp_path, monkeypatch, capsys):
    """The registration says 100 steps but the environment truncates after 3: a rollout has room for that."""
    gymnasium.register(ID, Count, disable_env_checker=True, max_episode_steps=100)
    monkeypatch.setattr(Count, "spoiled", {(copy, 20): np.nan for copy in range(-9, 9)})
    monkeypatch.setattr(Count, "copy", 0, raising=False)
    original = Count.reset
    monkeypatch.setattr(Count, "reset", lambda self, *, seed=None, options=None: original(self, options=options))
    place = [f"checkpoint_dir={tmp_path}", "name=small", "threads=1", "logger.progress=false", "device=cpu"]
    size = ["env.num_envs=2", "ppo.rollout_steps=64", "ppo.minibatch_size=64", "network.hidden=8"]
    try:
        for updates in (1, 2):
            options = ["env=gymnasium", f"env.id={ID}", "env.normalize_reward=true", f"max_updates={updates}"]
            final = train(load([*place, *size, *options]))
    finally:
        del gymnasium.registry[ID]
    assert load_checkpoint(final).training["recent_return"] == pytest.approx(6.0)
    assert "alert: 2 matches were not finite and were started again" in capsys.readouterr().out
    state = StateFolder(tmp_path / "small" / "state", 3, print).latest()
    assert state.content["gymnasium"]["quarantined"] == 4
