"""`VecEnv` for Stable-Baselines3: every supported game, compared with its native interface."""

import gymnasium
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import sparring
from sparring import InputError
from tests.agents.opponents import powers


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dogfight", {"opponent": "ace"}),
        ("sparring/Dogfight-v1", {}),
        ("diplomacy", {"opponent": "chaos"}),
        ("diplomacy", {"opponent": powers.Holder, "last_year": 1902}),
        ("CartPole-v1", {}),
    ],
)
def test_sb3_trains_on_env(name, options, tmp_path):
    threads = {"threads": 1} if name != "CartPole-v1" else {}
    env = sparring.sb3_env(name, 7, **threads, **options)
    model = PPO("MlpPolicy", VecMonitor(env), n_steps=8, batch_size=56, n_epochs=1, device="cpu", seed=0)
    before = {key: value.clone() for key, value in model.policy.state_dict().items()}
    model.learn(56)
    assert any((before[key] != value).any() for key, value in model.policy.state_dict().items())
    assert model.num_timesteps == 56
    env.close()


def test_steps_like_vector_interface():
    ours = sparring.sb3_env("dogfight", 4, seed=9, opponent="brawler", action_repeat=120, threads=1)
    theirs = gymnasium.make_vec("sparring/Dogfight-v1", 4, opponent="brawler", action_repeat=120, threads=1)
    first, _ = theirs.reset(seed=9)
    assert np.array_equal(ours.reset(), first)
    draw, ended = np.random.default_rng(0), 0
    for _ in range(100):
        actions = draw.uniform(-1, 1, (4, 3)).astype(np.float32)
        obs, reward, terminated, truncated, infos = theirs.step(actions)
        seen, gained, done, told = ours.step(actions)
        assert np.array_equal(seen, obs)
        assert np.array_equal(gained, reward.astype(np.float32))
        assert np.array_equal(done, terminated | truncated)
        for match in np.flatnonzero(done):
            ended += 1
            assert np.array_equal(told[match]["terminal_observation"], infos["final_obs"][match])
            assert told[match]["TimeLimit.truncated"] == (truncated[match] and not terminated[match])
            assert told[match]["episode"]["l"] == infos["episode"]["l"][match]
    assert ended > 4
    ours.close()
    theirs.close()


def test_gymnasium_truncation_is_reported():
    env = sparring.sb3_env("Pendulum-v1", 2)
    env.reset()
    for _ in range(200):
        seen, _, done, infos = env.step(np.zeros((2, 1), dtype=np.float32))
    assert done.all()
    assert all(info["TimeLimit.truncated"] for info in infos)
    assert not np.array_equal(infos[0]["terminal_observation"], seen[0])
    env.close()


class Reused(gymnasium.Env):
    """Return every observation in one reused array; infos have all kinds and lengths."""

    observation_space = gymnasium.spaces.Box(0, 10, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.now = np.zeros(1, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.now[:] = 0
        return self.now, {"path": np.zeros(0)}

    def step(self, action):
        self.now += 1
        infos = {"path": np.arange(self.now[0]), "episode": 7, "is_success": True, "none": None}
        return self.now, 1.0, False, bool(self.now[0] == 3), infos


def test_infos_and_final_observation_are_passed_through():
    gymnasium.register("test/Reused-v0", Reused, disable_env_checker=True)
    env = sparring.sb3_env("test/Reused-v0", 2)
    del gymnasium.registry["test/Reused-v0"]
    env.reset()
    for _ in range(3):
        seen, _, done, infos = env.step([0, 0])
    assert done.all()
    assert seen.tolist() == [[0.0], [0.0]]
    for info in infos:
        assert info["path"].tolist() == [0.0, 1.0, 2.0]
        assert (info["episode"], info["is_success"], info["none"]) == (7, True, None)
        assert (info["terminal_observation"].tolist(), info["TimeLimit.truncated"]) == ([3.0], True)


def test_saved_sb3_policy_is_evaluated_by_path(tmp_path):
    env = sparring.sb3_env("dogfight", 4, threads=1)
    PPO("MlpPolicy", env, n_steps=8, batch_size=32, device="cpu").save(tmp_path / "model.zip")
    obs = env.reset()
    loaded, theirs = sparring.load(tmp_path / "model.zip"), PPO.load(tmp_path / "model.zip", device="cpu")
    assert np.allclose(loaded.predict(obs)[0], theirs.predict(obs, deterministic=True)[0], atol=1e-5)
    evaluation = sparring.evaluate(tmp_path / "model.zip", opponents="ace", games=2, threads=1)
    assert evaluation.data["records"][0]["games"] == 2
    env.close()


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("dogfigth", {}, "env='dogfigth': cannot be created: .*did you mean 'dogfight'"),
        ("chess", {}, r"^env=chess: observes or acts in text, .* not support; play it through PettingZoo "),
        ("sparring/ChessArbiter-v0", {}, "^env=sparring/ChessArbiter-v0: observes or acts in text, .* not support$"),
        ("diplomacy", {"opponent": "ace"}, "^opponent=ace: choose from"),
    ],
)
def test_bad_input_gives_one_line_error(name, options, words):
    with pytest.raises(InputError, match=words):
        sparring.sb3_env(name, 7, **options)
