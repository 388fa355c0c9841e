"""Turn-based seats: decisions, memories and results, counted independently of the environment."""

import copy
from operator import attrgetter

import numpy as np
import pytest
import torch

from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.play.turn_seats import TurnSeats
from sparring.agents.policies.networks import build_network, shape_for
from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import NetworkConfig
from sparring.envs.imported.batch import make_batch
from sparring.envs.imported.training.opponents import RandomSeats

GAMES = [("pettingzoo", "pettingzoo.classic.tictactoe_v3"), ("openspiel", "kuhn_poker(players=3)")]
N, MOVES = 12, 60


class Counting:
    """A player of the first legal action that counts its decisions in memory."""

    memory_size = 1

    def __init__(self, name, contract):
        self.name, self.random = name, RandomSeats(contract, seed=1)
        self.generator = self.random.generator
        self.rows = 0

    def act(self, obs, memory):
        self.rows += len(obs)
        return self.random.act(obs, memory)[0], memory + 1

    def reseed(self, seed):
        self.random.reseed(seed)


def make_env(package, game, *, slots=1, seed=3):
    batch = make_batch(package, game, {}, N, seed)
    shape = shape_for(batch.contract, NetworkConfig(hidden=8, memory="gru"))
    players = {name: Counting(name, batch.contract) for name in ("one", "two")}
    return LearnerEnv(batch, players=players, seed=5, slots=slots, network_shape=shape, seating=TurnSeats), shape


def learner_actions(env, random):
    return random.act(env.obs[env.rows], env.memory[env.rows])[0]


@pytest.mark.parametrize(("package", "game"), GAMES)
def test_seats_memories_and_results(package, game):
    env, _ = make_env(package, game)
    seats, batch, random = env.seats, env.batch, RandomSeats(env.contract, seed=2)
    players = dict(zip(env.bots, env.opponent_seats._players, strict=False))
    opponents = np.arange(N) // seats % (env.itself + 1)  # bots, the slot, itself
    env.assign(opponents)
    own = np.arange(N) % seats
    decided, games = np.zeros((N, seats), dtype=int), np.zeros((env.itself + 1, 3), dtype=int)
    returns, rows_of = np.zeros(env.itself + 1), dict.fromkeys(players, 0)
    running = np.zeros(N)
    for _ in range(MOVES):
        deciding = batch.deciding.numpy().copy()
        learner = deciding & ((np.arange(seats) == own[:, None]) | (opponents == env.itself)[:, None])
        assert env.rows.tolist() == np.flatnonzero(learner).tolist()
        assert env.fresh.numpy()[env.rows].tolist() == (decided.ravel()[env.rows] == 0).tolist()
        for number, name in enumerate(players):
            rows_of[name] += int((deciding & ~learner)[opponents == number].sum())
        env.memory[env.rows] += 1
        env.step(learner_actions(env, random))
        decided += deciding
        running += batch.reward.numpy()[np.arange(N), own]
        outcome = batch.outcome.numpy()
        for i in np.flatnonzero(outcome >= 0):
            bit = 1 << own[i]
            kind = 0 if outcome[i] == bit else 2 if outcome[i] and not outcome[i] & bit else 1
            games[opponents[i], kind] += 1
            returns[opponents[i]] += running[i]
        decided[outcome >= 0], running[outcome >= 0] = 0, 0
        # Memories count the decisions of the running episode, and are empty on the move that begins the next.
        learners = (np.arange(seats) == own[:, None]) | (opponents == env.itself)[:, None]
        assert (env.memory[:, 0].numpy().reshape(N, seats) == decided * learners).all()
        counting = (opponents < 2)[:, None] & ~learners
        assert (env.opponent_seats.memory[:, 0].numpy().reshape(N, seats)[counting] == decided[counting]).all()
    assert {name: player.rows for name, player in players.items()} == rows_of
    tally = env.harvest()
    assert np.stack([tally.wins, tally.draws, tally.losses], axis=1).astype(int).tolist() == games.tolist()
    assert tally.returns.tolist() == pytest.approx(returns.tolist())
    assert games.sum() > 20
    assert env.harvest().games.sum() == 0
    env.close()


def test_new_opponent_starts_new_match_without_result():
    env, _ = make_env(*GAMES[0])
    random = RandomSeats(env.contract, seed=2)
    for _ in range(3):
        env.step(learner_actions(env, random))
    env.memory += 1
    moved = np.where(np.arange(N) < 4, 1, 0)
    before = env.obs.view(N, 2, -1)[4:].clone()
    env.assign(moved)
    lanes = torch.arange(N * 2)
    assert env.fresh[lanes < 8].all()
    assert (env.memory[lanes < 8] == 0).all()
    assert (env.memory[lanes >= 8] == 1).all()
    assert torch.equal(env.obs.view(N, 2, -1)[4:], before)
    assert env.harvest().games.sum() == 0
    with pytest.raises(ValueError, match="must be 12 indices"):
        env.assign(moved + 9)
    env.close()


def test_slot_plays_weights_of_its_snapshot():
    env, shape = make_env(*GAMES[0])
    snapshot = build_network(shape, seed=77).state_dict()
    env.assign(np.full(N, 2))
    env.load_slot(0, snapshot)
    (player,) = env.opponent_seats.snapshots
    assert all(torch.equal(one, snapshot[name]) for name, one in player.network.state_dict().items())
    for outside in (-1, 1):
        with pytest.raises(ValueError, match=rf"slot={outside}: must be in 0\.\.0"):
            env.load_slot(outside, snapshot)
    env.close()


@pytest.mark.parametrize(("package", "game"), GAMES)
def test_state_resumes_bit_for_bit(package, game):
    def play(env, random, moves):
        for _ in range(moves):
            env.memory[env.rows] += 1
            env.step(learner_actions(env, random))

    env, shape = make_env(package, game)
    env.assign(np.arange(N) // env.seats % (env.itself + 1))
    env.load_slot(0, build_network(shape, seed=4).state_dict())
    random = RandomSeats(env.contract, seed=2)
    play(env, random, 17)
    state, generator = copy.deepcopy(env.state_dict()), random.generator.get_state()
    play(env, random, 23)
    other, _ = make_env(package, game, seed=9)
    other.load_state_dict(state)
    random.generator.set_state(generator)
    play(other, random, 23)
    assert other.unsaved == ""
    for name in ("obs", "memory", "fresh", "_return", "_sums", "opponent_seats.memory"):
        assert torch.equal(attrgetter(name)(other), attrgetter(name)(env)), name
    env.close()
    other.close()


def test_matches_that_omit_a_seat_are_rejected():
    batch = make_batch("openspiel", "kuhn_poker(players=3)", {}, 4, 0)
    with pytest.raises(ConfigError, match=r"env\.num_envs=4: must be a multiple of 3"):
        LearnerEnv(batch, seed=0, seating=TurnSeats)
