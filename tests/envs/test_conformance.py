"""Conformance of every registered game; a new game needs one entry in `ENDINGS` and `VARIANTS`.

Gymnasium's own checker looks at a step or two. These tests play on: they look at NaN, bounds, aliasing, determinism,
endings and the global random generators over whole matches.
"""

import pickle
import random
import warnings
from functools import partial
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.envs.registration import load_env_creator
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test
from pettingzoo.utils.conversions import parallel_to_aec

from sparring import envs  # registers the games
from sparring.envs.game import games as games_of_the_project

REGISTERED = {env_id for env_id, spec in gym.registry.items() if spec.namespace == "sparring"}
TEXT = {env_id for game in games_of_the_project() for env_id, _ in game.text_envs}
"""Tasks of one step, without bounds, endings or a vector env; the tests of their game cover them."""
GAMES = sorted(REGISTERED - TEXT)
PARALLEL = {env_id: load_env_creator(entry_point) for env_id, entry_point in envs.PARALLEL.items()}
# PettingZoo's test of seeds takes no notice of action masks, so a game with masks must be told to forgive.
UNMASKED = {"sparring/Diplomacy-v0": {"illegal": "hold", "last_year": 1903}}
# Advice of PettingZoo's that is meant for other games: masks, several choices at once, and powers have names.
NOT_FOLLOWED = {
    "sparring/Diplomacy-v0": (
        "Observation is not a NumPy array",
        ".* space for each agent probably should be",
        "We recommend agents to be named",
    ),
}
VARIANTS = {
    "sparring/Dogfight-v1": [
        {},
        {"randomization": "full"},
        {"randomization": "sniper", "observe_physics": False, "bot_rate": "agent", "spawn": "fixed"},
        {"rules": "challenge", "randomization": "full"},
    ],
    "sparring/AirCombat-v1": [{}, {"model": "f16", "action_form": "commands", "missiles": 2, "flares": 4}],
}
# How to reach a time-out and a death: arguments, the action to repeat, and the steps it may take.
ENDINGS = {
    "sparring/Dogfight-v1": {
        "time-out": ({"opponent": "do_nothing", "action_repeat": 600}, [0.0, 0.0, -1.0], 18),
        "death": ({"opponent": "ace", "action_repeat": 120}, [1.0, 1.0, -1.0], 90),
    },
    "sparring/AirCombat-v1": {
        "time-out": ({"opponent": "do_nothing", "action_repeat": 60}, [0.0, 0.0, -0.5, -1.0], 120),
        "death": ({"opponent": "straight", "action_repeat": 60}, [-1.0, 0.0, 1.0, -1.0], 90),
    },
}

CASES = [(game, variant) for game in GAMES for variant in VARIANTS.get(game, [{}])]
games = pytest.mark.parametrize("game", GAMES)
parallel_games = pytest.mark.parametrize("game", PARALLEL)
cases = pytest.mark.parametrize(("game", "variant"), CASES, ids=lambda value: str(value).replace("sparring/", ""))


def play(env, actions, seed=11):
    """Return everything an environment returned, byte for byte."""
    seen = [pickle.dumps(env.reset(seed=seed))]
    for action in actions:
        obs, reward, terminated, truncated, info = env.step(action)
        seen.append(pickle.dumps((obs, reward, terminated, truncated, info)))
        if isinstance(env, gym.Env) and (terminated or truncated):
            seen.append(pickle.dumps(env.reset()))
    return seen


def some_actions(space, count, seed=5):
    space.seed(seed)
    return [space.sample() for _ in range(count)]


def legal_actions(env, obs):
    """Return an action for every agent, by its mask if it has one."""
    masks = {agent: obs[agent].get("action_mask") if isinstance(obs[agent], dict) else None for agent in env.agents}
    return {agent: env.action_space(agent).sample(masks[agent]) for agent in env.agents}


def test_every_game_has_conformance_entries():
    assert GAMES
    assert set(GAMES) == set(VARIANTS) == set(ENDINGS)
    assert set(GAMES) <= set(PARALLEL)
    assert TEXT <= REGISTERED
    in_text_alone = {game.id for game in games_of_the_project() if game.language_models and not game.ppo_task}
    assert {game.id for game in games_of_the_project()} - in_text_alone <= {*PARALLEL, *envs.AEC}
    assert set(UNMASKED) <= set(PARALLEL)


@cases
def test_twin_runs_are_bit_equal(game, variant):
    one, two = gym.make(game, **variant), gym.make(game, **variant)
    actions = some_actions(one.action_space, 200)
    assert play(one, actions) == play(two, actions)
    one, two = gym.make_vec(game, num_envs=5, **variant), gym.make_vec(game, num_envs=5, **variant)
    actions = some_actions(one.action_space, 200)
    assert play(one, actions) == play(two, actions)


@cases
def test_whole_matches_stay_finite_and_within_bounds(game, variant):
    env = gym.make_vec(game, num_envs=8, **variant)
    env.action_space.seed(3)
    env.reset(seed=3)
    space, finished = env.single_observation_space, 0
    assert np.isfinite(space.low).all()
    assert np.isfinite(space.high).all()
    low, high = np.full(space.shape, np.inf), np.full(space.shape, -np.inf)
    for _ in range(1200):
        obs, reward, terminated, truncated, infos = env.step(env.action_space.sample())
        done = terminated | truncated
        assert np.isfinite(obs).all()
        assert np.isfinite(reward).all()
        assert not (terminated & truncated).any()
        last = np.stack(list(infos["final_obs"][done])) if done.any() else obs
        low = np.minimum(low, np.minimum(obs.min(axis=0), last.min(axis=0)))
        high = np.maximum(high, np.maximum(obs.max(axis=0), last.max(axis=0)))
        finished += done.sum()
    assert finished >= 8
    assert np.flatnonzero((low < space.low) | (high > space.high)).tolist() == []


@games
def test_single_env_observations_are_not_overwritten(game):
    env = gym.make(game)
    kept = [env.reset(seed=1)[0]]
    copies = [kept[0].copy()]
    for action in some_actions(env.action_space, 20):
        kept.append(env.step(action)[0])
        copies.append(kept[-1].copy())
    kept.append(env.reset()[0])
    assert all(np.array_equal(old, copy) for old, copy in zip(kept, copies, strict=False))
    assert not any(np.shares_memory(a, b) for a, b in pairwise(kept))


@games
def test_vector_env_arrays_are_not_overwritten(game):
    env = gym.make_vec(game, num_envs=3)
    env.reset(seed=1)
    actions = some_actions(env.action_space, 2)
    kept = env.step(actions[0])[:4]
    copies = [array.copy() for array in kept]
    for array in env.step(actions[1])[:4]:
        assert not any(np.shares_memory(array, old) for old in kept)
    assert all(np.array_equal(old, copy) for old, copy in zip(kept, copies, strict=True))


@games
def test_time_out_is_truncated_and_death_is_terminated(game):
    for ending, expected in {"time-out": (False, True), "death": (True, False)}.items():
        arguments, action, most = ENDINGS[game][ending]
        env = gym.make(game, **arguments)
        env.reset(seed=2)
        for _ in range(most):
            _, _, terminated, truncated, info = env.step(np.array(action, dtype=np.float32))
            if terminated or truncated:
                break
        assert (terminated, truncated) == expected, ending
        assert info["outcome"] in (-1, 0, 1)


@games
def test_seeded_reset_repeats_and_unseeded_continues(game):
    env, other = gym.make(game), gym.make(game)
    first, _ = env.reset(seed=9)
    second, _ = env.reset()
    assert not np.array_equal(first, second)
    assert np.array_equal(first, env.reset(seed=9)[0])
    assert np.array_equal(second, env.reset()[0])
    assert not np.array_equal(first, env.reset(seed=10)[0])
    assert np.array_equal(first, other.reset(seed=9)[0])
    assert env.reset(seed=2**40)[0] in env.observation_space


@games
def test_vector_env_continues_after_match_end(game):
    arguments, action, most = ENDINGS[game]["time-out"]
    env = gym.make_vec(game, num_envs=2, **arguments)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    first, _ = env.reset(seed=4)
    actions = np.tile(np.array(action, dtype=np.float32), (2, 1))
    for _ in range(2 * most):
        obs, _, terminated, truncated, infos = env.step(actions)
        done = terminated | truncated
        for match in np.flatnonzero(done):
            assert infos["_final_obs"][match]
            assert infos["_final_info"][match]
            assert infos["final_obs"][match] in env.single_observation_space
            assert not np.array_equal(infos["final_obs"][match], obs[match])
            assert not np.array_equal(first[match], obs[match])
            assert infos["episode"]["l"][match] == most
    assert done.all(), "the second match has the first one's length"


@games
def test_corners_of_action_space_are_accepted(game):
    env = gym.make(game)
    env.reset(seed=1)
    for action in (env.action_space.low, env.action_space.high):
        obs, reward, *_ = env.step(action)
        assert obs in env.observation_space
        assert np.isfinite(reward)


@parallel_games
def test_global_random_generators_are_unchanged(game):
    def state():
        numpy_state = np.random.get_state()  # noqa: NPY002 - the global generator is what must not move
        return pickle.dumps((random.getstate(), numpy_state, torch.get_rng_state().tolist()))

    before = state()
    if game in GAMES:
        for env in (gym.make(game), gym.make_vec(game, num_envs=2)):
            play(env, some_actions(env.action_space, 5))
    both = PARALLEL[game]()
    obs, _ = both.reset(seed=1)
    both.step(legal_actions(both, obs))
    assert state() == before


@cases
def test_gymnasium_checker_passes(game, variant):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        check_env(gym.make(game, **variant).unwrapped)


@parallel_games
def test_pettingzoo_api_test_passes(game):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for advice in NOT_FOLLOWED.get(game, ()):
            warnings.filterwarnings("ignore", advice)
        parallel_api_test(PARALLEL[game](), num_cycles=1200)
        api_test(parallel_to_aec(PARALLEL[game]()), num_cycles=300)
        parallel_seed_test(partial(PARALLEL[game], **UNMASKED.get(game, {})))


@parallel_games
def test_open_seats_repeat_bit_for_bit(game):
    def run():
        env = PARALLEL[game]()
        obs, _ = env.reset(seed=6)
        for seed, agent in enumerate(env.agents):
            env.action_space(agent).seed(seed)
        seen = []
        for _ in range(200):
            step = env.step(legal_actions(env, obs))
            seen.append(pickle.dumps(step))
            obs = step[0] if env.agents else env.reset()[0]
        return seen

    assert run() == run()


@parallel_games
def test_open_seat_observations_are_bounded_and_not_overwritten(game):
    env = PARALLEL[game]()
    obs, _ = env.reset(seed=7)
    kept = []
    for seed, agent in enumerate(env.agents):
        env.action_space(agent).seed(seed)
    for _ in range(60):
        kept.append((obs, pickle.dumps(obs)))
        for agent, seen in obs.items():
            assert env.observation_space(agent).contains(seen)
        obs, rewards, terminated, truncated, _ = env.step(legal_actions(env, obs))
        assert np.isfinite(list(rewards.values())).all()
        assert not any(terminated[agent] and truncated[agent] for agent in terminated)
        if not env.agents:
            obs, _ = env.reset()
    assert all(pickle.dumps(old) == copy for old, copy in kept)
