"""Rollout storage by lane: of games whose seats act in turn, and of all recurrent networks.

A lane is a seat of a match, and in the dogfight a match; its decisions are stored one after the other. It decides in
some of the T moves of a rollout, in the dogfight in all. Its k-th decision is row k, whatever move that was, so that
advantages, returns and sequences for recurrent networks are those of `rollout.py` on consecutive rows. The reward of a
decision is what reaches its seat until its next decision, or its end; a seat that has ended takes no more samples.

Where a rollout ends, a lane that is to decide has a last row without an action, whose value ends the estimate. A lane
that waits for others has an open decision, whose reward is not known yet: it is that last row instead, and no sample.

The storage is on the host, as most games are; the network has its own device.

L is the number of lanes, K = T + 1 the rows, D, A and M the columns of observations, actions and memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor

from sparring.agents.distributed.processes import Shard, ShardedGenerator
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.memory import Sequences
from sparring.agents.policies.seat_network import SeatNetwork
from sparring.agents.ppo.rollout import BatchEnv, Minibatch, Samples, gae, normalize, parts
from sparring.agents.ppo.tasks.task import TrainingEnv
from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import PPOConfig

SeatCritic = Callable[[Sequences, Tensor, Tensor], tuple[Tensor, Tensor]]
"""V of all decisions of sequences, and of final observations [R2, D] after their rows [R2]."""


class LaneEnv(BatchEnv, Protocol):
    """Environment of L lanes, of which some decide in a move: `SeatsEnv` and `LearnerEnv`."""

    num_envs: int
    lanes: int
    rows: Tensor
    """Lanes that decide next, int64 [R]."""
    memory: Tensor
    """[L, M] of the learner, on the host; the rollout writes it, and the environment empties that of new episodes."""
    fresh: Tensor
    """bool [L], on the host: an episode begins with the lane's next decision."""

    def noise(self, generator: torch.Generator) -> torch.Generator | ShardedGenerator:
        """Return what draws for `rows`, and for those of the other processes, of which it is asked if there are any."""


class SeatRollout:
    """Storage of T = `steps` moves of an environment, reused for every update: `collect`, `finish`, then `flat`."""

    def __init__(self, network: SeatNetwork, steps: int, env: LaneEnv, *, sequence_length: int) -> None:
        rows, lanes = steps + 1, env.lanes
        self.steps, self.num_envs, self.lanes = steps, env.num_envs, lanes
        self.device = network.log_std.device
        self.length = sequence_length if network.memory_size else 1
        _check_memory(env, rows if network.memory_size else 2 * rows)  # `flat` copies the rows of decisions
        # Rows without a decision have their lane's role too: how many rows a network gets changes how its sums round.
        self.obs = env.obs.cpu().repeat(rows, 1, 1)
        self._actions = torch.zeros(rows, lanes, network.action_size)
        self.log_prob, self._reward, self.value = torch.zeros(3, rows, lanes)
        self.fresh, self.terminated, self.truncated = torch.zeros(3, rows, lanes, dtype=torch.bool)
        chunks = -(-rows // self.length) if network.memory_size else 1
        self.memory = torch.zeros(chunks, lanes, network.memory_size)
        self.count = torch.zeros(lanes, dtype=torch.int64)
        self._final: list[tuple[Tensor, Tensor]] = []
        self._complete = torch.zeros_like(self.count)
        self._open = torch.zeros(lanes, dtype=torch.bool)

    @torch.no_grad()
    def collect(
        self, env: TrainingEnv, network: ActorCritic, generator: torch.Generator | ShardedGenerator, *, hold: int = 0
    ) -> None:
        """Play T moves of every match. `generator` is on the network's device; `hold` is of no effect here.

        The bookkeeping is in NumPy, on the tensors' own memory: on so few numbers torch's operations cost more.
        """
        assert isinstance(network, SeatNetwork)
        game = cast(LaneEnv, env)
        for tensor in (self.count, self._reward, self.terminated, self.truncated):
            tensor.zero_()
        self._final.clear()
        unresolved = np.zeros(self.lanes, dtype=bool)  # whose last decision waits for its reward
        for _ in range(self.steps):
            rows, place, obs = self._observe(game)
            unresolved[rows] = True
            actions = self._decide(game, network, generator, rows, place, obs)
            _, *result = game.step(actions)
            self._resolve(game, unresolved, *(one.cpu().numpy() for one in result))
        rows, *_ = self._observe(game)
        waiting = torch.from_numpy(unresolved)
        self._complete = self.count - waiting.index_fill(0, torch.from_numpy(rows), False).long()
        self._open = waiting & (self._complete >= 0)
        if not int(self._complete.sum()):
            raise ConfigError(f"ppo.rollout_steps={self.steps}: no seat decides twice in so few moves; give more")

    def _decide(
        self,
        env: LaneEnv,
        network: SeatNetwork,
        generator: torch.Generator | ShardedGenerator,
        rows: np.ndarray,
        place: np.ndarray,
        obs: np.ndarray,
    ) -> Tensor:
        """Return the actions [R, A] of the lanes `rows` that decide, who see `obs` [R, D], and store them."""
        if isinstance(generator, ShardedGenerator):
            generator = env.noise(generator.generator)  # also without rows: all processes draw alike
        elif not len(rows):
            return self._actions[0, :0]
        given = (torch.from_numpy(obs), env.memory.index_select(0, env.rows))
        decided = network.step(*(one.to(self.device) for one in given), generator=generator)
        actions, log_prob, memory = (one.cpu() for one in decided)
        if memory.shape[1]:
            env.memory.numpy()[rows] = memory.numpy()
        self._actions.flatten(0, 1).numpy()[place] = actions.numpy()
        self.log_prob.view(-1).numpy()[place] = log_prob.numpy()
        self.count.numpy()[rows] += 1
        return actions

    def _observe(self, env: LaneEnv) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Write the observations of the lanes that decide to their next rows.

        Returns these lanes [R], their places in the storage [R] and the observations [R, D].
        """
        rows = env.rows.numpy()
        index = self.count.numpy()[rows]
        place = index * self.lanes + rows
        obs = env.obs.cpu().numpy()[rows]
        self.obs.flatten(0, 1).numpy()[place] = obs
        self.fresh.view(-1).numpy()[place] = env.fresh.numpy()[rows]
        if self.memory.shape[-1]:
            begins = index % self.length == 0
            chunk = (index // self.length * self.lanes + rows)[begins]
            self.memory.flatten(0, 1).numpy()[chunk] = env.memory.numpy()[rows[begins]]
        return rows, place, obs

    def _resolve(
        self, env: LaneEnv, unresolved: np.ndarray, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray
    ) -> None:
        """Add a move's rewards to the decisions that wait for them, and end episodes."""
        lanes = np.flatnonzero(unresolved)
        place = (self.count.numpy()[lanes] - 1) * self.lanes + lanes
        self._reward.view(-1).numpy()[place] += reward[lanes]
        ended = (terminated | truncated)[lanes]
        if not ended.any():
            return
        lanes, place = lanes[ended], place[ended]
        cut = truncated[lanes] & ~terminated[lanes]
        self.terminated.view(-1).numpy()[place] = ~cut
        self.truncated.view(-1).numpy()[place] = cut
        unresolved[lanes] = False
        if cut.any():
            self._final.append((torch.from_numpy(place[cut]), env.final_obs.cpu()[torch.from_numpy(lanes[cut])]))

    @torch.no_grad()
    def finish(self, critic: SeatCritic, gamma: float, lam: float) -> None:
        """Compute values, advantages and returns of all complete decisions."""
        used = self._complete + self._open.long()  # rows with an observation to be judged
        longest = int(used.max())
        final_obs = torch.cat([obs for _, obs in self._final]) if self._final else self.obs[:0, 0]
        final_place = torch.cat([place for place, _ in self._final]) if self._final else self.count[:0]
        index = torch.arange(longest).unsqueeze(1)
        sequences, place = self._sequences(index < used)
        row_of = torch.zeros(len(self.obs) * self.lanes, dtype=torch.int64)
        row_of[place] = torch.arange(len(place))
        device = self.device
        judged = critic(
            Sequences(*(one.to(device) for one in sequences)), final_obs.to(device), row_of[final_place].to(device)
        )
        values, final_values = (one.cpu() for one in judged)
        self.value.view(-1).index_copy_(0, place, values)
        cut = (index == self._complete - 1) & self._open
        after = self.value.new_zeros(longest, self.lanes)
        after[:-1] = self.value[1:longest]
        after.view(-1).index_copy_(0, final_place, final_values)
        self._samples = (index < self._complete).flatten().nonzero().squeeze(1)
        advantage, returns = gae(
            self._reward[:longest],
            self.value[:longest],
            self.terminated[:longest],
            self.truncated[:longest] | cut,
            self.value.new_zeros(self.lanes),
            after,
            gamma=gamma,
            lam=lam,
        )
        self.advantage, self.returns = advantage, returns

    def _sequences(self, used: Tensor) -> tuple[Sequences, Tensor]:
        """Return the rows in `used` [K, L] for the critic, and the place of each of its outputs in the storage."""
        longest = len(used)
        if not self.memory.shape[-1]:
            place = used.flatten().nonzero().squeeze(1)
            obs = self.obs.flatten(0, 1).index_select(0, place)
            ready = torch.ones(1, len(place), dtype=torch.bool)
            return Sequences(obs.unsqueeze(0), obs[:, :0], ready, torch.arange(len(place))), place
        lanes = used.any(0).nonzero().squeeze(1)
        place = (torch.arange(longest).unsqueeze(1) * self.lanes + lanes).flatten()
        parts = (self.obs[:longest, lanes], self.memory[0, lanes], self.fresh[:longest, lanes])
        return Sequences(*parts, torch.arange(len(place))), place

    def flat(self) -> Samples | SequenceSamples:
        """Return all complete decisions; for a recurrent network with their sequences."""
        place = self._samples
        tensors = [self._actions.flatten(0, 1), self.log_prob.view(-1), self.value.view(-1)]
        tensors += [self.advantage.flatten(), self.returns.flatten()]
        chosen = [tensor.index_select(0, place).to(self.device) for tensor in tensors]
        if not self.memory.shape[-1]:
            return Samples(self.obs.flatten(0, 1).index_select(0, place).to(self.device), *chosen)
        return SequenceSamples(self, place, *chosen)

    def key(self, share: Shard) -> Tensor:
        """Return numbers int64 [R] by which the samples of all processes are in the order that one process has."""
        lanes, first, total = (self.lanes // self.num_envs * n for n in (self.num_envs, share.first, share.total))
        return (self._samples // lanes * total + first + self._samples % lanes).to(self.device)

    @property
    def actions(self) -> Tensor:
        """Actions of the complete decisions [R, A]."""
        return self._actions.flatten(0, 1).index_select(0, self._samples)

    @property
    def reward(self) -> Tensor:
        """Rewards of the complete decisions [R]."""
        return self._reward.view(-1).index_select(0, self._samples)


def _check_memory(env: LaneEnv, rows: int) -> None:
    """Raise `ConfigError` if `rows` observations of every lane are more than the machine can hold."""
    needed, there = 4 * rows * env.obs.numel(), memory_bytes()
    if needed > there:
        lanes, columns = env.obs.shape
        raise ConfigError(
            f"env.num_envs={env.num_envs}: a rollout of {lanes} seats that see {columns:,} numbers takes "
            f"{needed / 2**30:.0f} GiB, and this machine has {there / 2**30:.0f}; give fewer matches, a smaller "
            "ppo.rollout_steps, or a function that shrinks what is seen as env.id"
        )


def memory_bytes() -> int:
    """Return the size of this machine's memory; that of any, where the system does not say it."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**63


@dataclass(frozen=True)
class SequenceSamples:
    """Samples of a recurrent network: all tensors [R, ...] in the order of `place`, rows of the storage."""

    rollout: SeatRollout
    place: Tensor
    actions: Tensor
    log_prob: Tensor
    value: Tensor
    advantage: Tensor
    returns: Tensor

    def minibatches(self, config: PPOConfig, generator: torch.Generator) -> Iterator[Minibatch]:
        """Yield the minibatches of `epochs` passes: whole sequences in a new order, in equally many parts."""
        store = self.rollout
        step, lane = self.place // store.lanes, self.place % store.lanes
        sequence = (step // store.length) * store.lanes + lane
        kept = sequence.unique()
        number = torch.full((int(kept.max()) + 1,), -1)
        for _ in range(config.epochs):
            order = torch.randperm(len(kept), generator=generator, device=generator.device).cpu()
            for chosen in kept[order].tensor_split(min(parts(len(self.place), config), len(kept))):
                number.fill_(-1)
                number[chosen] = torch.arange(len(chosen))
                samples = (number[sequence] >= 0).nonzero().squeeze(1)
                # The row of each sample among those of its sequences, [length, chosen].
                rows = step[samples] % store.length * len(chosen) + number[sequence[samples]]
                yield Minibatch(
                    self._cut(chosen, rows),
                    self.actions[samples],
                    self.log_prob[samples],
                    self.value[samples],
                    normalize(self.advantage[samples]),
                    self.returns[samples],
                    len(samples),
                )

    def _cut(self, chosen: Tensor, rows: Tensor) -> Sequences:
        """Return the sequences with these numbers; rows beyond the storage repeat its last and do not count."""
        store = self.rollout
        chunk, lane = chosen // store.lanes, chosen % store.lanes
        steps = (chunk * store.length + torch.arange(store.length).unsqueeze(1)).clamp(max=len(store.obs) - 1)
        parts = (store.obs[steps, lane], store.memory[chunk, lane], store.fresh[steps, lane], rows)
        return Sequences(*(one.to(store.device) for one in parts))
