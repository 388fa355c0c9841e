"""Rollouts of turn-based seats: samples of every lane against explicit sums over episodes."""

from dataclasses import dataclass, field

import pytest
import torch

from sparring.agents.policies.memory import Sequences
from sparring.agents.policies.seat_network import SeatNetwork
from sparring.agents.ppo.rollout import Rollout, SequenceSamples
from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import PPOConfig

LANES, MOVES, GAMMA, LAM = 5, 40, 0.9, 0.8


@dataclass
class Lane:
    """History of a lane: episodes of decisions, each [observation, reward], and how each ended."""

    episodes: list = field(default_factory=list)

    def decide(self, obs, fresh):
        if fresh:
            self.episodes.append({"rows": [], "end": ""})
        self.episodes[-1]["rows"].append([obs, 0.0])


class ScriptedEnv:
    """Lanes with random decisions, rewards and ends; observation 0 is the value of the state."""

    lanes = num_envs = LANES
    longest_episode = MOVES

    def __init__(self, seed, memory=0, deciding=0.5):
        self.draw = torch.Generator().manual_seed(seed)
        self.fresh, self.memory = torch.ones(LANES, dtype=torch.bool), torch.zeros(LANES, memory)
        self.obs, self.final_obs = torch.zeros(2, LANES, 3)
        self.history = [Lane() for _ in range(LANES)]
        self.share = deciding
        self._next()

    def _uniform(self):
        return torch.rand(LANES, generator=self.draw)

    def _next(self):
        self.rows = (self._uniform() < self.share).nonzero().squeeze(1)
        self.obs[:, 0] = self._uniform()

    def step(self, actions):
        for row in self.rows.tolist():
            self.history[row].decide(float(self.obs[row, 0]), bool(self.fresh[row]))
        self.fresh[self.rows] = False
        reward, how = self._uniform(), self._uniform()
        terminated, truncated = how < 0.1, (how > 0.9)
        self.final_obs[:, 0] = self._uniform()
        for lane, one in enumerate(self.history):
            if not self.fresh[lane]:
                one.episodes[-1]["rows"][-1][1] += float(reward[lane])
                if terminated[lane] or truncated[lane]:
                    end = float(self.final_obs[lane, 0]) if truncated[lane] else None
                    one.episodes[-1] |= {"end": "over", "last": end}
        self.fresh |= terminated | truncated
        self.memory[terminated | truncated] = 0.0
        self._next()
        return self.obs, reward, terminated, truncated


class CountingNetwork(SeatNetwork):
    """A network that counts the decisions of an episode in memory."""

    obs_dim, action_size = 3, 1  # type: ignore[assignment]

    def __init__(self, memory_size=0):
        torch.nn.Module.__init__(self)
        self.log_std, self._memory = torch.zeros(0), memory_size

    @property
    def memory_size(self):
        return self._memory

    def step(self, obs, memory, *, deterministic=False, generator=None, critic=True):
        return obs[:, :1] * 10, -obs[:, 0], memory + 1


def critic(obs, final_obs, final_rows):
    rows = obs.obs.flatten(0, 1) if isinstance(obs, Sequences) else obs
    return rows[:, 0], final_obs[:, 0]


def expected(env):
    """Return (observation, advantage, return) of every complete decision, from explicit sums."""
    samples = []
    for lane, one in enumerate(env.history):
        for episode in one.episodes:
            rows, over = episode["rows"], episode["end"] == "over"
            values = [value for value, _ in rows]
            if over:
                values.append(0.0 if episode["last"] is None else episode["last"])
            elif lane in env.rows.tolist():
                values.append(float(env.obs[lane, 0]))
            deltas = [r + GAMMA * values[k + 1] - values[k] for k, (_, r) in enumerate(rows) if k + 1 < len(values)]
            for k in range(len(deltas)):
                advantage = sum((GAMMA * LAM) ** j * delta for j, delta in enumerate(deltas[k:]))
                samples.append((values[k], advantage, advantage + values[k]))
    return sorted(samples)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("memory", [0, 2])
def test_samples_equal_sums_over_episodes(seed, memory):
    env, network = ScriptedEnv(seed, memory), CountingNetwork(memory)
    rollout = Rollout(network, MOVES, env, sequence_length=4)
    rollout.collect(env, network, torch.Generator())
    rollout.finish(critic, GAMMA, LAM)
    samples = rollout.flat()
    assert isinstance(samples, SequenceSamples) == bool(memory)
    stacked = torch.stack([samples.value, samples.advantage, samples.returns], dim=1)
    assert sorted(map(tuple, stacked.tolist())) == [pytest.approx(row, abs=1e-5) for row in expected(env)]
    assert torch.allclose(samples.actions[:, 0], samples.value * 10)
    assert torch.allclose(samples.log_prob, -samples.value)
    assert len(rollout.complete(rollout.reward)) == len(samples.value) > 50


def test_sequences_keep_order_memory_and_starts():
    env, network = ScriptedEnv(7, 1), CountingNetwork(1)
    rollout = Rollout(network, MOVES, env, sequence_length=4)
    rollout.collect(env, network, torch.Generator())
    rollout.finish(critic, GAMMA, LAM)
    samples = rollout.flat()
    config = PPOConfig(epochs=2, minibatch_size=16)
    seen = []
    for batch in samples.minibatches(config, torch.Generator().manual_seed(1)):
        sequences = batch.obs
        assert torch.allclose(sequences.obs[..., 0].flatten()[sequences.rows], batch.value)
        # The memory that the network had at each decision, counted again along the sequence.
        count, memory = sequences.memory[:, 0].clone(), []
        for fresh in sequences.fresh:
            count = torch.where(fresh, 0.0, count)
            memory.append(count.clone())
            count = count + 1
        counted = torch.stack(memory).flatten()[sequences.rows]
        seen += zip(batch.value.tolist(), counted.tolist(), strict=True)
        assert batch.size == len(batch.value)
    places = {row[0]: k for one in env.history for e in one.episodes for k, row in enumerate(e["rows"])}
    assert len(seen) == 2 * len(samples.value)
    assert [count for _, count in seen] == [places[value] for value, _ in seen]


def test_second_rollout_continues_where_first_ended():
    env, network = ScriptedEnv(3), CountingNetwork()
    rollout = Rollout(network, MOVES, env, sequence_length=4)
    for _ in range(2):
        env.history = [Lane([{"rows": [], "end": ""}]) for _ in range(LANES)]
        rollout.collect(env, network, torch.Generator())
        rollout.finish(critic, GAMMA, LAM)
    # A lane may wait for others when the rollout begins: its first reward belongs to a decision of the one before.
    assert 50 < len(rollout.flat().value) <= sum(len(e["rows"]) for one in env.history for e in one.episodes)


def test_moves_without_complete_decision_are_rejected():
    env, network = ScriptedEnv(0, deciding=0.0), CountingNetwork()
    rollout = Rollout(network, 2, env, sequence_length=4)
    with pytest.raises(ConfigError, match="no seat acts twice"):
        rollout.collect(env, network, torch.Generator())


@pytest.mark.parametrize(("memory", "copies"), [(0, 2), (2, 1)])
def test_rollout_larger_than_memory_is_rejected(memory, copies, monkeypatch):
    env, network = ScriptedEnv(0, memory), CountingNetwork(memory)
    size = copies * 4 * (MOVES + 1) * env.obs.numel()
    monkeypatch.setattr("sparring.agents.ppo.rollout.memory_bytes", lambda: size)
    Rollout(network, MOVES, env, sequence_length=4)
    monkeypatch.setattr("sparring.agents.ppo.rollout.memory_bytes", lambda: size - 1)
    with pytest.raises(ConfigError, match=r"^env\.num_envs=\d+: a rollout of 5 seats with \d numbers each needs 0 GiB"):
        Rollout(network, MOVES, env, sequence_length=4)
