"""Copies of environments in the middle of a match: they continue like the original, bit for bit, and apart from it."""

import copy
import pickle

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
import torch

from sparring.agents.baselines.sb3_env import make_sb3_env
from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.networks import shape_for
from sparring.configs.schema import NetworkConfig
from sparring.envs.chess.interfaces.aec_env import env as chess_env
from sparring.envs.diplomacy.interfaces.parallel_env import parallel_env as diplomacy_env
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from sparring.envs.dogfight.interfaces.parallel_env import parallel_env as dogfight_env
from sparring.envs.dogfight.mirror import Mirror

COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "cloudpickle": lambda env: pickle.loads(cloudpickle.dumps(env)),
}


class Counts:
    """An opponent with a memory: its turn depends on how often it was asked."""

    def __init__(self):
        self.asked = 0

    def act(self, obs):
        self.asked += 1
        return np.stack([np.full(len(obs), np.sin(self.asked)), np.ones(len(obs)), np.ones(len(obs))], axis=1)


def play_gym(env, draw):
    action = draw.uniform(-1.0, 1.0, env.action_space.shape).astype(np.float32)
    result = env.step(action)
    if isinstance(env, gym.Env) and (result[2] or result[3]):
        return result, env.reset()
    return result


def play_agents(env, draw):
    if not env.agents:
        return env.reset()
    actions = {}
    for agent in env.agents:
        space = env.action_space(agent)
        space.seed(int(draw.integers(2**31)))
        actions[agent] = space.sample()
    return env.step(actions)


def play_chess(env, draw):
    _, reward, over, cut, info = env.last()
    env.step(None if over or cut else draw.choice(info["legal_moves"]))
    return env.board.fen() if hasattr(env, "board") else env.observe("white"), reward


def play_native(batch, draw):
    results = batch.step(torch.from_numpy(draw.uniform(-1.0, 1.0, (4, 2, 3)).astype(np.float32)))
    return [tensor.numpy().copy() for tensor in (*results, batch.obs, batch.final_obs, batch.trace)]


def play_learner(env, draw):
    results = env.step(torch.from_numpy(draw.uniform(-1.0, 1.0, (8, 3)).astype(np.float32)))
    return [tensor.numpy().copy() for tensor in (*results, env.final_obs)], env.harvest()


def play_sb3(env, draw):
    return env.step(np.stack([draw.integers(0, space) for space in [env.action_space.nvec] * env.num_envs]))


def native():
    batch = DogfightBatch(4, rules="challenge", action_repeat=40, repeat_unwon=0.5, trace=1, threads=2, seed=3)
    batch.set_ranges(rules.ranges("full"))
    batch.assign(np.array([[-1, 3], [2, -1], [-1, -1], [1, 3]]), torch.ones(4, dtype=torch.bool))
    return batch


def learner():
    """Matches against a bot and a snapshot whose actions are drawn, seen through the mirror."""
    batch = DogfightBatch(8, action_repeat=40, seed=3)
    shape = shape_for(batch.contract, NetworkConfig(hidden=16))
    mirror = Mirror("classic", batch.obs_dim)
    env = LearnerEnv(batch, bots=rules.BOTS, slots=1, network_shape=shape, seed=5, view=mirror)
    env.load_slot(0, ActorCritic.from_shape(shape).state_dict())
    env.assign(np.array([3, env.first_slot] * 4))
    return env


CASES = {
    "gymnasium": (lambda: gym.make("sparring/Dogfight-v1", action_repeat=60, render_mode="rgb_array"), play_gym),
    "max_episode_steps": (lambda: gym.make("sparring/Dogfight-v1", opponent=Counts, max_episode_steps=7), play_gym),
    "vector": (lambda: gym.make_vec("sparring/Dogfight-v1", 5, opponent=["ace", Counts()], action_repeat=60), play_gym),
    "pettingzoo": (lambda: dogfight_env(action_repeat=60), play_agents),
    "policy": (lambda: dogfight_env(opponent="released/dogfight_bots_only"), play_agents),
    "native": (native, play_native),
    "learner": (learner, play_learner),
    "diplomacy": (lambda: diplomacy_env(illegal="hold", opponents={"ITALY": "dumbbot"}, last_year=1902), play_agents),
    "diplomacy in sb3": (lambda: make_sb3_env("diplomacy", 7), play_sb3),
    "chess": (chess_env, play_chess),
    "arbiter": (lambda: gym.make("sparring/ChessArbiter-v0"), lambda env, draw: env.reset()),
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("case", CASES)
def test_a_copy_continues_like_the_original_and_apart_from_it(case, way):
    make, play = CASES[case]
    env = make()
    if case not in ("native", "learner"):
        env.reset() if case.endswith("sb3") else env.reset(seed=3)
    draw = np.random.default_rng(1)
    for _ in range(9):
        play(env, draw)
    twin = COPIES[way](env)
    for seed in (2, 3):  # each plays on while the other waits
        one, other = ([pickle.dumps(play(each, draws)) for _ in range(12)] for each, draws in
                      ((env, np.random.default_rng(seed)), (twin, np.random.default_rng(seed))))  # fmt: skip
        assert one == other
        if case == "vector":  # a reset seats the opponents again, and they go on counting
            env.reset(seed=seed)
            twin.reset(seed=seed)
    env.close()
    play(twin, draw)  # its threads are its own
    twin.close()


def test_an_opponent_that_cannot_be_pickled_says_so_and_cloudpickle_copies_it():
    env = gym.make("sparring/Dogfight-v1", opponent=lambda obs: np.zeros((len(obs), 3)))
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(env)
    twin = pickle.loads(cloudpickle.dumps(env))
    env.reset(seed=1)
    twin.reset(seed=1)
    np.testing.assert_array_equal(env.step(np.zeros(3))[0], twin.step(np.zeros(3))[0])
