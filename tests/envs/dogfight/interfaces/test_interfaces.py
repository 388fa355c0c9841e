"""The Gymnasium and PettingZoo interfaces show the native batch's matches from the right seat."""

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded

import sparring  # noqa: F401 - registers the id
from sparring.configs.core.errors import UnknownNameError
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.config import RewardConfig
from sparring.envs.dogfight.interfaces.gymnasium_env import DogfightEnv
from sparring.envs.dogfight.interfaces.parallel_env import PLAYERS, parallel_env
from sparring.envs.dogfight.interfaces.vector_env import DogfightVectorEnv

TICKS_LEFT = 45
PHYSICS = slice(46, 59)
ACE = rules.bot_id("ace")
CIRCLE = np.array([1.0, 1.0, -1.0], dtype=np.float32)


def script(steps, seed=0):
    """Return actions [steps, 3] within the action space."""
    return np.random.default_rng(seed).uniform([-1, 0, -1], [1, 1, 1], (steps, 3)).astype(np.float32)


def native(seed, bots, actions):
    """Return observations [steps + 1, 2, 59] and rewards [steps, 2] of match 0 of a native batch."""
    batch = DogfightBatch(3, threads=1)
    batch.assign(torch.tensor([bots] * 3))
    obs, rewards = [batch.reset(seed)[0].clone()], []
    for row in actions:
        both = torch.from_numpy(np.tile(row, (3, 2, 1)) if row.ndim == 1 else np.tile(row, (3, 1, 1)))
        reward, *_ = batch.step(both)
        obs.append(batch.obs[0].clone())
        rewards.append(reward[0].clone())
    return torch.stack(obs).numpy(), torch.stack(rewards).numpy()


def finish(env, action, most=2000):
    """Repeat an action until the match ends; return the last step's results."""
    for _ in range(most):
        result = env.step(action)
        if result[2] or result[3]:
            return result
    raise AssertionError("the match did not end")


def test_importing_games_loads_neither_simulator_nor_torch():
    code = (
        "import sparring, gymnasium, sys; gymnasium.spec('sparring/Dogfight-v1'); "
        "print({'warp', 'torch'} & set(sys.modules))"
    )
    root = Path(__file__).resolve().parents[4]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_make_creates_environment_by_id():
    env = gym.make("sparring:sparring/Dogfight-v1", opponent="chaser", render_mode="rgb_array")
    assert isinstance(env.unwrapped, DogfightEnv)
    assert env.render_mode == "rgb_array"
    vector = gym.make_vec("sparring:sparring/Dogfight-v1", num_envs=256)
    assert isinstance(vector, DogfightVectorEnv)
    assert vector.observation_space.shape == (256, 59)
    assert vector.action_space.shape == (256, 3)


@pytest.mark.parametrize("seat", [0, 1])
def test_single_env_equals_native_match_from_its_seat(seat):
    actions = script(40)
    bots = [ACE, rules.ACTIONS] if seat else [rules.ACTIONS, ACE]
    obs, rewards = native(7, bots, actions)
    env = DogfightEnv(opponent="ace", seat=seat)
    assert np.array_equal(env.reset(seed=7)[0], obs[0, seat])
    for step, action in enumerate(actions):
        seen, reward, *_ = env.step(action)
        assert np.array_equal(seen, obs[step + 1, seat])
        assert reward == rewards[step, seat]


def test_vector_env_equals_native_batch():
    actions = script(40)
    obs, rewards = native(7, [rules.ACTIONS, ACE], actions)
    env = DogfightVectorEnv(3, opponent="ace", seat=0, threads=1)
    assert np.array_equal(env.reset(seed=7)[0][0], obs[0, 0])
    for step, action in enumerate(actions):
        seen, reward, *_ = env.step(np.tile(action, (3, 1)))
        assert np.array_equal(seen[0], obs[step + 1, 0])
        assert reward[0] == rewards[step, 0]


def test_parallel_env_equals_native_match_with_open_seats():
    actions = np.stack([script(40, 1), script(40, 2)], axis=1)
    obs, rewards = native(7, [rules.ACTIONS, rules.ACTIONS], actions)
    env = parallel_env()
    first, _ = env.reset(seed=7)
    for seat, agent in enumerate(PLAYERS):
        assert np.array_equal(first[agent], obs[0, seat])
    for step, both in enumerate(actions):
        seen, reward, *_ = env.step(dict(zip(PLAYERS, both, strict=True)))
        for seat, agent in enumerate(PLAYERS):
            assert np.array_equal(seen[agent], obs[step + 1, seat])
            assert reward[agent] == rewards[step, seat]


def test_opponents_cycle_and_each_meets_both_seats():
    env = DogfightVectorEnv(6, opponent=["ace", "brawler"], threads=1)
    brawler = rules.bot_id("brawler")
    open_seat = rules.ACTIONS
    expected = [[open_seat, ACE], [open_seat, brawler], [ACE, open_seat], [brawler, open_seat]]
    assert env._batch.batch.bots.tolist() == expected + expected[:2]
    env.reset(options={"opponent": "chaser"})
    chaser = rules.bot_id("chaser")
    assert env._batch.batch.bots.tolist() == [[open_seat, chaser], [chaser, open_seat]] * 3
    env.reset()
    assert env._batch.batch.bots.tolist() == expected + expected[:2]
    assert DogfightVectorEnv(2, seat=1, threads=1)._batch.batch.bots.tolist() == [[ACE, open_seat]] * 2


@pytest.mark.parametrize("seat", [0, 1])
def test_lost_match_is_reported(seat):
    env = DogfightEnv(opponent="brawler", seat=seat)
    env.reset(seed=1)
    obs, reward, terminated, truncated, info = finish(env, CIRCLE)
    assert (terminated, truncated) == (True, False)
    assert (info["outcome"], info["hp"]) == (-1, 0)
    assert info["opponent_hp"] > 0
    assert 0 < info["ticks"] < rules.MAX_TICKS
    assert obs[3] == 0.0
    assert obs[TICKS_LEFT] == pytest.approx(1 - info["ticks"] / rules.MAX_TICKS)
    assert reward < -RewardConfig().lose


def test_equal_time_out_is_draw():
    env = DogfightEnv(opponent="do_nothing", action_repeat=540)
    env.reset(seed=1)
    obs, _, terminated, truncated, info = finish(env, np.array([0.0, 0.0, -1.0]), most=20)
    assert (terminated, truncated) == (False, True)
    assert info == {"outcome": 0, "ticks": rules.MAX_TICKS, "hp": 5, "opponent_hp": 5}
    assert obs[TICKS_LEFT] == 0.0


def test_each_player_gets_result_from_its_seat():
    env = parallel_env(action_repeat=540)
    env.reset(seed=1)
    idle = dict.fromkeys(PLAYERS, np.array([0.0, 0.0, -1.0]))
    while env.agents:
        _, _, terminated, truncated, infos = env.step(idle)
    assert terminated == dict.fromkeys(PLAYERS, False)
    assert truncated == dict.fromkeys(PLAYERS, True)
    draw = {"outcome": 0, "ticks": rules.MAX_TICKS, "hp": 5, "opponent_hp": 5}
    assert infos == {"player_0": draw, "player_1": draw}
    with pytest.raises(ResetNeeded, match="reset"):
        env.step(idle)


def test_vector_infos_contain_end_of_each_match():
    env = DogfightVectorEnv(4, opponent="brawler", threads=1)
    env.reset(seed=1)
    returns, lengths, ended = np.zeros(4), np.zeros(4, dtype=int), 0
    for _ in range(1000):
        obs, reward, terminated, truncated, infos = env.step(np.tile(CIRCLE, (4, 1)))
        returns += reward
        lengths += 1
        done = terminated | truncated
        assert bool(infos) == done.any()
        for i in np.flatnonzero(done):
            ended += 1
            assert terminated[i]
            assert infos["final_info"]["outcome"][i] == -1
            assert infos["final_info"]["hp"][i] == 0
            assert infos["episode"]["r"][i] == pytest.approx(returns[i])
            assert infos["episode"]["l"][i] == lengths[i]
            assert infos["episode"]["t"][i] == pytest.approx(infos["final_info"]["ticks"][i] / 120)
            assert infos["final_obs"][i][3] == 0.0
            assert (obs[i][3], obs[i][TICKS_LEFT]) == (1.0, 1.0)
        if infos:
            for key in ("final_obs", "final_info", "episode"):
                assert infos[f"_{key}"].tolist() == done.tolist()
            assert infos["final_info"]["_outcome"].tolist() == done.tolist()
            assert [row is None for row in infos["final_obs"]] == (~done).tolist()
        returns[done], lengths[done] = 0.0, 0
    assert ended >= 8


def test_truncated_match_is_undecided():
    env, uncut = (DogfightVectorEnv(2, opponent="ace", threads=1, max_episode_steps=limit) for limit in (5, None))
    assert np.array_equal(env.reset(seed=3)[0], uncut.reset(seed=3)[0])
    for step in range(1, 11):
        obs, _, terminated, truncated, infos = env.step(np.tile(CIRCLE, (2, 1)))
        expected = uncut.step(np.tile(CIRCLE, (2, 1)))[0]
        assert not terminated.any()
        assert truncated.tolist() == [step % 5 == 0] * 2
        if step == 5:
            assert np.array_equal(np.stack(list(infos["final_obs"])), expected)
            assert infos["episode"]["l"].tolist() == [5, 5]
            assert infos["episode"]["t"].tolist() == pytest.approx([50 / 120] * 2)
            assert infos["final_info"]["_outcome"].tolist() == [False, False]
            assert obs[:, TICKS_LEFT].tolist() == [1.0, 1.0]
    single = DogfightEnv(max_episode_steps=2)
    single.reset(seed=1)
    assert single.step(CIRCLE)[2:] == (False, False, {})
    assert single.step(CIRCLE)[2:] == (False, True, {})


def test_gymnasium_wrappers_are_compatible():
    env = gym.wrappers.RecordEpisodeStatistics(gym.make("sparring/Dogfight-v1", max_episode_steps=3))
    env.reset(seed=1)
    *_, truncated, info = [env.step(CIRCLE) for _ in range(3)][-1]
    assert truncated
    assert info["episode"]["l"] == 3
    vector = gym.make_vec("sparring/Dogfight-v1", num_envs=2, max_episode_steps=3)
    vector = gym.wrappers.vector.RecordEpisodeStatistics(vector, stats_key="recorded")
    vector.reset(seed=1)
    infos = [vector.step(np.tile(CIRCLE, (2, 1)))[-1] for _ in range(3)][-1]
    assert infos["recorded"]["l"].tolist() == infos["episode"]["l"].tolist() == [3, 3]
    np.testing.assert_allclose(infos["recorded"]["r"], infos["episode"]["r"], rtol=1e-6)
    apart = gym.make_vec("sparring/Dogfight-v1", num_envs=2, vectorization_mode="sync")
    assert apart.reset(seed=1)[0].shape == (2, 59)


def test_reset_regime_lasts_for_that_match():
    normalizers = np.array([parameter.normalizer for parameter in rules.PARAMETERS])
    for env in (DogfightEnv(), parallel_env()):

        def physics(options, env=env):
            obs, _ = env.reset(seed=1, options=options)
            return (obs["player_1"] if isinstance(obs, dict) else obs)[PHYSICS] * normalizers

        np.testing.assert_allclose(physics({"regime": "knife_fight"}), rules.ranges("knife_fight")[:, 0], rtol=1e-6)
        np.testing.assert_allclose(physics(None), rules.defaults(), rtol=1e-6)
    obs, _ = DogfightVectorEnv(64, randomization="narrow", threads=1).reset(seed=1)
    drawn = obs[:, PHYSICS] * normalizers
    low, high = rules.ranges("narrow").T
    assert (drawn.std(axis=0) > 0).all()
    assert ((drawn >= low * 0.9999) & (drawn <= high * 1.0001)).all()


def test_reward_weights_reach_simulator():
    env = DogfightEnv(opponent="ace", reward={"alive": 2.0, "proximity": 0.0, "facing": 0.0, "approach": 0.0})
    env.reset(seed=1)
    assert env.step(CIRCLE)[1] == 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"opponent": "acee"}, "unknown opponent 'acee'.*did you mean 'ace'"),
        ({"seat": 2}, "unknown seat '2': choose from 0, 1"),
        ({"oponent": "ace"}, "unknown argument 'oponent': did you mean 'opponent'. choose from opponent, seat, rules"),
        ({"rules": "clasic"}, "unknown rules 'clasic'.*did you mean 'classic'"),
        ({"randomization": "sniperr"}, "unknown randomization.*did you mean 'sniper'"),
        ({"reward": {"wins": 1.0}}, "unknown reward weight 'wins'.*did you mean 'win'"),
        ({"render_mode": "movie"}, "unknown render_mode 'movie': choose from rgb_array, human"),
        ({"max_episode_steps": 0}, "max_episode_steps=0: give a whole number"),
        ({"max_episode_steps": 1.5}, "max_episode_steps=1.5: give a whole number"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        DogfightEnv(**arguments)


def test_bad_reset_choices_are_named():
    for env in (DogfightEnv(), DogfightVectorEnv(1)):
        with pytest.raises(UnknownNameError, match=r"unknown reset option 'oponent'.*did you mean 'opponent'"):
            env.reset(options={"oponent": "ace"})
        with pytest.raises(UnknownNameError, match="unknown opponent 'chasr'"):
            env.reset(options={"opponent": "chasr"})
        with pytest.raises(UnknownNameError, match="unknown randomization 'full_moon'"):
            env.reset(options={"regime": "full_moon"})
    with pytest.raises(ValueError, match="names no bot"):
        DogfightVectorEnv(2, opponent=[])


def test_bad_actions_are_named_without_changes():
    env = DogfightEnv()
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"action\[1\] \(throttle\) = nan is not finite; give \[0, 1\]"):
        env.step(np.array([0.0, np.nan, 0.0]))
    with pytest.raises(ValueError, match=r"action: shape \(2,\) is not \(3,\); give turn, throttle, shoot"):
        env.step(np.zeros(2))
    fresh = DogfightEnv()
    fresh.reset(seed=1)
    assert np.array_equal(env.step(CIRCLE)[0], fresh.step(CIRCLE)[0])

    vector = DogfightVectorEnv(3, threads=1)
    vector.reset(seed=1)
    actions = np.zeros((3, 3), dtype=np.float32)
    actions[2, 0] = np.inf
    with pytest.raises(ValueError, match=r"actions\[2, 0\] \(turn\) = inf is not finite; give \[-1, 1\]"):
        vector.step(actions)
    with pytest.raises(ValueError, match=r"actions: shape \(2, 3\) is not \(3, 3\)"):
        vector.step(actions[:2])

    both = parallel_env()
    both.reset(seed=1)
    with pytest.raises(ValueError, match=r"player_1\[2\] \(shoot\) = nan"):
        both.step({"player_0": np.zeros(3), "player_1": np.array([0.0, 0.0, np.nan])})
    with pytest.raises(ValueError, match="give one for each of player_0, player_1"):
        both.step({"player_0": np.zeros(3)})


def test_step_requires_running_match():
    env = DogfightEnv(opponent="do_nothing", action_repeat=10_800)
    with pytest.raises(ResetNeeded, match="reset"):
        env.step(CIRCLE)
    env.reset(seed=1)
    assert env.step(CIRCLE)[3]
    with pytest.raises(ResetNeeded, match="reset"):
        env.step(CIRCLE)


def test_frames_follow_match():
    env = DogfightEnv(opponent="ace", render_mode="rgb_array", action_repeat=30)
    assert env.metadata["render_fps"] == 4
    env.reset(seed=1)
    pictures = [env.render()]
    over = False
    while not over:
        _, _, terminated, truncated, info = env.step(CIRCLE)
        pictures.append(env.render())
        over = terminated or truncated
    assert all(p.shape == pictures[0].shape and p.dtype == np.uint8 and p.shape[-1] == 3 for p in pictures)
    assert len({p.tobytes() for p in pictures[:20]}) == 20
    # The last picture is of the match's end, not of the next match's start.
    rows = env._batch._last_rows()
    assert rows[0][-1, -1] == info["ticks"]

    assert env._batch._max_hp.tolist() == [5.0]

    vector = DogfightVectorEnv(6, render_mode="rgb_array", threads=1)
    vector.reset(seed=1)
    assert len(vector.render()) == 4
    both = parallel_env(render_mode="rgb_array")
    both.reset(seed=1)
    assert both.render().shape == pictures[0].shape
    assert DogfightEnv().render() is None


def test_frame_shows_max_hp_of_its_match():
    """With a maximum of three hp, full hp must not look like two of five lost."""
    env = DogfightEnv(randomization="glass_cannon", render_mode="rgb_array", spawn="fixed")
    env.reset(seed=1)
    assert env._batch._max_hp.tolist() == [3.0]
    low = env.render()
    env.reset(seed=1, options={"regime": "default"})
    assert env._batch._max_hp.tolist() == [5.0]
    assert not np.array_equal(low, env.render())
