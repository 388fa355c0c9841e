"""Copies of every registered interface continue identically and independently."""

import copy
import pickle

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
import torch

from sparring.agents.baselines.sb3_env import make_sb3_env
from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.play.turn_seats import TurnSeats
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.networks import shape_for
from sparring.configs.core.errors import InputError
from sparring.configs.schema import NetworkConfig
from sparring.envs.air_combat import rules as air_rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.parallel_env import parallel_env as air_env
from sparring.envs.chess.interfaces.aec_env import env as chess_env
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import BOTS as DIPLOMACY_BOTS
from sparring.envs.diplomacy.interfaces.parallel_env import parallel_env as diplomacy_env
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch, Mirror
from sparring.envs.dogfight.interfaces.parallel_env import parallel_env as dogfight_env
from sparring.envs.game import games
from sparring.envs.imported.batch import make_batch
from sparring.envs.imported.training.opponents import RandomSeats

COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda env: pickle.loads(pickle.dumps(env))}


class Counts:
    """An opponent with memory: its turn depends on the number of calls."""

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
    results = batch.step(torch.from_numpy(draw.uniform(-1.0, 1.0, batch.actions.shape).astype(np.float32)))
    more = (
        batch.obs,
        batch.final_obs,
        batch.final_hp,
        batch.length,
        *([batch.trace] if hasattr(batch, "trace") else []),
    )
    return [tensor.numpy().copy() for tensor in (*results, *more)]


def play_orders(batch, draw):
    batch.draw_orders(int(draw.integers(2**31)))
    batch.process()
    return {name: rows.numpy().copy() for name, rows in batch.state.items()}


def play_imported(batch, draw):
    random = RandomSeats(batch.contract, seed=int(draw.integers(2**31)))
    before = batch.reward.numpy().copy(), batch.length.numpy().copy()  # of the last step: a copy has these, too
    batch.step(random.act(batch.obs.flatten(0, 1), torch.zeros(0))[0].view(batch.num_envs, batch.seats, -1))
    names = ("obs", "final_obs", "deciding", "reward", "terminated", "truncated", "outcome", "length")
    return [*before, *(getattr(batch, name).numpy().copy() for name in names)]


def play_seats(env, draw):
    learner = RandomSeats(env.contract, seed=int(draw.integers(2**31)))
    results = env.step(learner.act(env.obs[env.rows], torch.zeros(0))[0])
    return [tensor.numpy().copy() for tensor in (*results, env.final_obs)], env.rows.numpy().copy(), env.harvest()


def play_learner(env, draw):
    results = env.step(torch.from_numpy(draw.uniform(-1.0, 1.0, (8, 3)).astype(np.float32)))
    return [tensor.numpy().copy() for tensor in (*results, env.final_obs)], env.harvest()


def play_sb3(env, draw):
    return env.step(np.stack([draw.integers(0, space) for space in [env.action_space.nvec] * env.num_envs]))


def native():
    batch = DogfightBatch(4, rules="challenge", action_repeat=40, trace=1, threads=2, seed=3)
    batch.set_ranges(rules.ranges("full"))
    batch.assign(np.array([[-1, 3], [2, -1], [-1, -1], [1, 3]]), torch.ones(4, dtype=torch.bool))
    return batch


def learner():
    """Return mirrored matches against a bot and a sampling snapshot."""
    batch = DogfightBatch(8, action_repeat=40, seed=3)
    shape = shape_for(batch.contract, NetworkConfig(hidden=16))
    mirror = Mirror("classic", batch.obs_dim)
    env = LearnerEnv(batch, bots=rules.BOTS, slots=1, network_shape=shape, seed=5, view=mirror)
    env.load_slot(0, ActorCritic.from_shape(shape).state_dict())
    env.assign(np.array([3, len(env.bots)] * 4))
    return env


def air_options(**options):
    return {"action_repeat": 60, "max_ticks": 600, **options}


def air_batch():
    options = air_rules.CombatOptions(missiles=2, flares=8, team_size=2, randomization="full", radar=True)
    batch = AirCombatBatch(4, options=options, threads=2, seed=3, **air_options(model="f16"))
    batch.assign(np.array([[-1, 3, -1, 5], [2, -1, 7, -1], [-1] * 4, [6, 4, 1, 0]]))
    return batch


def diplomacy_batch():
    batch = DiplomacyBatch(3, threads=2, last_year=1903)
    batch.players[:] = torch.arange(len(DIPLOMACY_BOTS)).repeat(3)[: batch.players.numel()].view(batch.players.shape)
    return batch


def seats():
    batch = make_batch("pettingzoo", "pettingzoo.classic.tictactoe_v3", {}, 4, 5)
    return LearnerEnv(batch, players={"random": RandomSeats(batch.contract, seed=1)}, seed=2, seating=TurnSeats)


AIR_FORMS = [{"missiles": 2, "flares": 8, "team_size": 2, "radar": True}, {"action_form": "manoeuvres"}]
CASES = {
    "air combat": (lambda: air_env(**air_options()), play_agents),
    "air combat against a pilot": (lambda: air_env(opponent="ace", render_mode="acmi", **air_options()), play_agents),
    "air combat with missiles": (lambda: air_env(model="f16", **air_options(**AIR_FORMS[0])), play_agents),
    "manoeuvres": (lambda: air_env(randomization="narrow", **air_options(**AIR_FORMS[1])), play_agents),
    "air combat batch": (air_batch, play_native),
    "plain air combat batch": (lambda: AirCombatBatch(4, gun="rounds", threads=2, **air_options(seed=3)), play_native),
    "diplomacy batch": (diplomacy_batch, play_orders),
    "pettingzoo batch": (
        lambda: make_batch("pettingzoo", "pettingzoo.classic.connect_four_v3", {}, 4, 5),
        play_imported,
    ),
    "parallel batch": (lambda: make_batch("pettingzoo", "pettingzoo.classic.rps_v2", {}, 4, 5), play_imported),
    "openspiel batch": (lambda: make_batch("openspiel", "kuhn_poker", {}, 4, 5), play_imported),
    "workers": (lambda: make_batch("openspiel", "goofspiel(num_cards=4)", {}, 4, 5, 2), play_imported),
    "seats": (seats, play_seats),
    "gymnasium": (lambda: gym.make("sparring/Dogfight-v1", action_repeat=60, render_mode="rgb_array"), play_gym),
    "max_episode_steps": (lambda: gym.make("sparring/Dogfight-v1", opponent=Counts, max_episode_steps=7), play_gym),
    "vector": (lambda: gym.make_vec("sparring/Dogfight-v1", 5, opponent=["ace", Counts()], action_repeat=60), play_gym),
    "pettingzoo": (lambda: dogfight_env(action_repeat=60), play_agents),
    "policy": (lambda: dogfight_env(opponent="released/dogfight_bots_only"), play_agents),
    "native": (native, play_native),
    "learner": (learner, play_learner),
    "diplomacy": (lambda: diplomacy_env(illegal="hold", opponents={"ITALY": "dumbbot"}, last_year=1902), play_agents),
    "air combat in gymnasium": (lambda: gym.make("sparring/AirCombat-v1", opponent="brawler"), play_gym),
    "air combat vector": (lambda: gym.make_vec("sparring/AirCombat-v1", 3, opponent=["ace", "evader"]), play_gym),
    "diplomacy in sb3": (lambda: make_sb3_env("diplomacy", 7), play_sb3),
    "chess": (chess_env, play_chess),
    "arbiter": (lambda: gym.make("sparring/ChessArbiter-v0"), lambda env, draw: env.reset()),
}


REGISTERED = {
    "sparring/Dogfight-v1 env": "gymnasium",
    "sparring/Dogfight-v1 vector_env": "vector",
    "sparring/Dogfight-v1 parallel_env": "pettingzoo",
    "sparring/Dogfight-v1 batch": "native",
    "sparring/Diplomacy-v0 parallel_env": "diplomacy",
    "sparring/Diplomacy-v0 batch": "diplomacy batch",
    "sparring/Chess-v0 aec_env": "chess",
    "sparring/ChessArbiter-v0": "arbiter",
    "sparring/AirCombat-v1 env": "air combat in gymnasium",
    "sparring/AirCombat-v1 vector_env": "air combat vector",
    "sparring/AirCombat-v1 parallel_env": "air combat",
    "sparring/AirCombat-v1 batch": "air combat batch",
}


def test_every_registered_interface_has_case():
    found = [
        f"{game.id} {kind}"
        for game in games()
        for kind in ("env", "vector_env", "parallel_env", "aec_env", "batch")
        if getattr(game, kind)
    ]
    assert {*found, *(name for game in games() for name, _ in game.text_envs)} == set(REGISTERED)
    assert set(REGISTERED.values()) <= set(CASES)


SELF_STARTED = ("native", "learner", "air combat batch", "plain air combat batch", "diplomacy batch", "seats")
SELF_STARTED += ("pettingzoo batch", "parallel batch", "openspiel batch", "workers")


def start(case, env):
    if case not in SELF_STARTED:
        env.reset() if case.endswith("sb3") else env.reset(seed=3)


@pytest.mark.parametrize(
    ("case", "moves", "way"),
    [
        (case, moves, way)
        for case in CASES
        for moves, way in ((None, "pickle"), (0, "deepcopy"), (9, "pickle"), (9, "deepcopy"))
        if moves is not None or case not in SELF_STARTED
    ],
)
def test_copy_continues_identically_and_independently(case, moves, way):
    """`moves` were played before copying; None means new and not reset."""
    make, play = CASES[case]
    env = make()
    draw = np.random.default_rng(1)
    if moves is not None:
        start(case, env)
    for _ in range(moves or 0):
        play(env, draw)
    twin = COPIES[way](env)
    if moves is None:
        start(case, env)
        start(case, twin)
    for seed in (2, 3):  # each plays on while the other waits
        one, other = ([pickle.dumps(play(each, draws)) for _ in range(12)] for each, draws in
                      ((env, np.random.default_rng(seed)), (twin, np.random.default_rng(seed))))  # fmt: skip
        assert one == other
        if case == "vector":  # a reset seats the opponents again, and they go on counting
            env.reset(seed=seed)
            twin.reset(seed=seed)
    if hasattr(env, "render") and case.startswith("air combat a"):
        assert env.render() == twin.render()
    env.close()
    play(twin, draw)  # its threads are its own
    twin.close()


def test_copy_of_non_reproducible_game_is_rejected():
    batch = make_batch("pettingzoo", "tests.envs.imported.games:Faulty", {"fault": "unrepeatable"}, 2, 5)
    with pytest.raises(InputError, match=r"2 of 2 matches do not repeat .*cannot be copied"):
        copy.deepcopy(batch)


def test_unpicklable_opponent_is_copied_by_cloudpickle_only():
    env = gym.make("sparring/Dogfight-v1", opponent=lambda obs: np.zeros((len(obs), 3)))
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(env)
    twin = pickle.loads(cloudpickle.dumps(env))
    env.reset(seed=1)
    twin.reset(seed=1)
    np.testing.assert_array_equal(env.step(np.zeros(3))[0], twin.step(np.zeros(3))[0])
