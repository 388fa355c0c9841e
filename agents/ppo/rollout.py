"""Rollout storage: T moves of L lanes in preallocated tensors, then values, advantages, returns and minibatches.

A lane is a match of the learner, or a seat of a match whose seats act in turn. Row k has the k-th decision of every
lane. Where all lanes decide in every move (`env.rows` is None), row and move agree, and every index is a slice. In a
game with gaps the reward of a decision is what reaches its lane until its next decision, or its end. There a lane that
is to decide when the rollout ends has a last row without an action, whose value ends the estimate. So has a lane that
waits for others, whose last decision is not a sample: its reward is not known yet.

The tensors are on the environment's device; the network of a game on the host may be on another one.

Collecting runs the actor only. Values are computed afterwards, all at once, which costs far less than T small forwards.
An environment's `final_obs` is needed only at a time limit, so instead of [T, L, D] a few rows per lane are kept, and
each step stores its row index. On an accelerator that is a scatter, without readback.

Generalized advantage estimation (Schulman et al. 2016, arXiv:1506.02438) treats time limits as truncation:

    delta_t = r_t + gamma V(s'_t) - V(s_t)
    A_t     = delta_t + gamma lambda A_{t+1}      (cut where an episode ends)

s'_t is the state after step t. With same-step autoreset the next stored observation already belongs to the next
episode. So at a time limit (truncation) V(s'_t) must be the value of the final observation, and at a true ending
(termination) it is zero. Bootstrapping at neither or at both gives the critic a wrong horizon.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from sparring.agents.distributed.processes import Shard, ShardedGenerator
from sparring.agents.policies.memory import Sequences
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.ppo.captured import Captured
from sparring.agents.ppo.losses import Joint, Minibatch, Samples, normalize, parts
from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import PPOConfig

Act = Callable[[Tensor], tuple[Tensor, ...]]
"""Actions [R, A] and log-probabilities [R] for observations [R, D]."""
Critic = Callable[[Tensor | Sequences, Tensor, Tensor], tuple[Tensor, Tensor]]
"""V of observations [..., D] or of all decisions of sequences, and of final observations [..., D] after rows [R2]."""
Index = Any
"""Index of lanes, or of their rows: a slice and a number where all lanes decide, otherwise tensors."""


class BatchEnv(Protocol):
    """L lanes stepped together, with same-step autoreset. Its tensors may be overwritten by the next step."""

    num_envs: int
    lanes: int
    rows: Tensor | None
    """Lanes that decide next, int64 [R] on the host; None if all lanes decide in every step."""
    memory: Tensor
    """[L, M], for a recurrent network; the rollout writes it, and the environment resets it where an episode begins."""
    fresh: Tensor
    """bool [L], for a recurrent network: an episode begins with the lane's next decision."""

    @property
    def obs(self) -> Tensor:
        """Current observations [L, D]."""

    @property
    def final_obs(self) -> Tensor:
        """Last observations [L, D] of the episodes that were just truncated; other rows are undefined."""

    @property
    def longest_episode(self) -> int:
        """Maximum number of steps of an episode."""

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Take the actions [R, A] of the lanes that decide; return obs, reward, terminated and truncated of all."""

    def noise(self, generator: torch.Generator) -> torch.Generator | ShardedGenerator:
        """Return a generator that draws for the rows of all processes and returns the draws of `rows`."""


class Rollout:
    """Storage of T = `steps` moves of `env`, reused for every update: `collect`, then `finish`, then `flat`.

    A lane has room for the truncations that `env.longest_episode` allows. On a CPU it grows where a lane is truncated
    earlier. On a GPU the network acts by a CUDA graph where it draws from a plain generator at every step. Recurrent
    networks learn from sequences of `sequence_length` decisions.
    """

    def __init__(self, network: PolicyNetwork, steps: int, env: BatchEnv, *, sequence_length: int = 1) -> None:
        T, L, device = steps, env.lanes, env.obs.device
        self.gaps, self.recurrent = env.rows is not None, network.memory_size > 0
        self.steps, self.num_envs, self.lanes, self.device = steps, env.num_envs, L, device
        self.learner_device = network.log_std.device
        self._captures = device.type == "cuda" and not (self.gaps or self.recurrent)
        self.length = sequence_length if self.recurrent else 1
        _check_memory(env, (1 + (self.gaps and not self.recurrent)) * (T + 1))  # `flat` copies the rows of decisions
        # Row T is the state after the last move. In a game with gaps, rows without a decision have their lane's role
        # too: how many rows a network gets changes how its sums round.
        self.obs = env.obs.repeat(T + 1, 1, 1) if self.gaps else torch.zeros(T + 1, *env.obs.shape, device=device)
        self.actions = torch.zeros(T, L, network.action_size, device=device)
        self.log_prob, self.reward, self.advantage, self.returns = torch.zeros(4, T, L, device=device)
        self._values = torch.zeros(T + 1, L, device=device)
        self.value = self._values[:-1]
        self.terminated, self.truncated = torch.zeros(2, T, L, dtype=torch.bool, device=device)
        self.fresh = torch.zeros(T + 1, L, dtype=torch.bool, device=device)
        self.memory = torch.zeros(T // self.length + 1, L, network.memory_size, device=device)
        # Row `max_truncations` is spare: it receives unneeded rows, and surplus rows until `collect` raises.
        self.max_truncations = -(-steps // env.longest_episode)
        self.final_obs = torch.zeros(self.max_truncations + 1, *env.obs.shape, device=device)
        self.final_row = torch.zeros(T, L, dtype=torch.int64, device=device)
        self.truncations, self.count = torch.zeros(2, L, dtype=torch.int64, device=device)
        self._complete = torch.full_like(self.count, T)
        self._waiting = torch.ones(L, dtype=torch.bool, device=device)  # the last decision waits for what follows
        self._place: Tensor | None = None  # of the complete decisions among T * L, None if all are complete
        self._graphs: dict[tuple[object, ...], Captured[tuple[Tensor, ...]]] = {}

    @torch.no_grad()
    def collect(
        self,
        env: BatchEnv,
        network: PolicyNetwork,
        generator: torch.Generator | ShardedGenerator,
        *,
        hold: int = 0,
    ) -> None:
        """Play T moves. `generator` must be on the network's device.

        With `hold` > 0, gSDE's noise is a function of the state that is drawn again every `hold` steps.
        Raises `RuntimeError` if a lane was truncated more than `max_truncations` times, except on a CPU, and
        `ConfigError` if no decision is complete.
        """
        self.truncations.zero_()
        self.final_row.fill_(self.max_truncations)
        if self.gaps:
            for tensor in (self.count, self.reward, self.terminated, self.truncated, self._waiting):
                tensor.zero_()
        act: Act = partial(network.act, generator=generator)
        if self._captures and not hold and isinstance(generator, torch.Generator):
            act = self._capture(act, network, generator)
        for t in range(self.steps):
            lanes, rows, obs = self._observe(env, t)
            if hold and t % hold == 0:
                act = partial(network.act, generator=generator, noise=network.draw_noise(self.lanes, generator))
            if self.gaps or self.recurrent:
                actions = self._step(env, network, generator, lanes, rows, obs)
            else:
                actions, self.log_prob[t] = act(obs)  # a_t ~ pi(. | s_t)
            self.actions[rows] = actions
            _, *result = env.step(actions)
            self._resolve(env, t, *result)
        lanes, *_ = self._observe(env, self.steps)
        if self.gaps:
            self._find_complete(lanes)
        most = int(self.truncations.max())
        if most > self.max_truncations:
            raise RuntimeError(
                f"max_truncations={self.max_truncations} but an environment was truncated {most} times in "
                f"{self.steps} steps; make the rollout with max_truncations >= {most}"
            )

    def _capture(self, act: Act, network: PolicyNetwork, generator: torch.Generator) -> Act:
        """Return `act` as a CUDA graph, recorded once for a network, a generator and a precision."""
        key = (network, generator, torch.is_autocast_enabled(self.device.type))
        if key not in self._graphs:
            self._graphs[key] = Captured(act, self.obs[0], generators=[generator])
        return self._graphs[key]

    def _observe(self, env: BatchEnv, t: int) -> tuple[Index, Index, Tensor]:
        """Store the observations of the lanes that decide; return these lanes, their places and the observations."""
        if env.rows is None:
            self.obs[t].copy_(env.obs)
            if self.recurrent:
                self.fresh[t].copy_(env.fresh)
                if t % self.length == 0:
                    self.memory[t // self.length].copy_(env.memory)
            return slice(None), t, self.obs[t]
        lanes, index = env.rows, self.count[env.rows]
        obs = env.obs.index_select(0, lanes)
        self.obs[index, lanes] = obs
        if self.recurrent:
            self.fresh[index, lanes] = env.fresh[lanes]
            begins = index % self.length == 0
            self.memory[index[begins] // self.length, lanes[begins]] = env.memory[lanes[begins]]
        return lanes, (index, lanes), obs

    def _step(
        self,
        env: BatchEnv,
        network: PolicyNetwork,
        generator: torch.Generator | ShardedGenerator,
        lanes: Index,
        rows: Index,
        obs: Tensor,
    ) -> Tensor:
        """Return the actions [R, A] of `lanes` that see `obs` [R, D], and carry their memory."""
        if self.gaps:
            self.count[lanes] += 1
            self._waiting[lanes] = True
            if isinstance(generator, ShardedGenerator):
                generator = env.noise(generator.generator)  # also without lanes: all processes draw alike
            elif not len(lanes):
                return self.actions[0, :0]
        obs = obs.to(self.learner_device)
        if self.recurrent:
            actions, log_prob, memory = network.step(obs, env.memory[lanes].to(obs.device), generator=generator)
            env.memory[lanes] = memory.to(self.device)
        else:
            actions, log_prob = network.act(obs, generator=generator)
        self.log_prob[rows] = log_prob.to(self.device)
        return actions.to(self.device)

    def _resolve(self, env: BatchEnv, t: int, reward: Tensor, terminated: Tensor, truncated: Tensor) -> None:
        """Add a move's rewards to the decisions that wait for them, and end episodes."""
        if not self.gaps:
            self.reward[t], self.terminated[t], self.truncated[t] = reward, terminated, truncated
            self._keep_final_obs(self.truncated[t], t, env.final_obs)
            return
        last, columns = self.count - 1, torch.arange(self.lanes)
        self.reward[last, columns] += reward * self._waiting
        ended = (terminated | truncated) & self._waiting
        if ended.any():
            cut, lanes = ended & ~terminated, columns[ended]
            self.terminated[last[ended], lanes], self.truncated[last[ended], lanes] = ~cut[ended], cut[ended]
            self._waiting &= ~ended
            self._keep_final_obs(cut, last, env.final_obs)

    def _keep_final_obs(self, cut: Tensor, last: int | Tensor, final_obs: Tensor) -> None:
        """Keep the final observations of the lanes in `cut` [L], whose last decisions are in the rows `last`."""
        if self.device.type == "cpu":  # elsewhere the tests would synchronize
            if not cut.any():
                return
            lanes = cut.nonzero().squeeze(1)
            row = self.truncations[lanes]
            if int(row.max()) == self.max_truncations:
                self._grow()
            self.final_obs[row, lanes] = final_obs[lanes]
            self.final_row[last if isinstance(last, int) else last[lanes], lanes] = row
        else:
            row = self.truncations.clamp(max=self.max_truncations).masked_fill(~cut, self.max_truncations)
            self.final_obs.scatter_(0, row.view(1, -1, 1).expand(1, *final_obs.shape), final_obs.unsqueeze(0))
            self.final_row[last] = row
        self.truncations += cut

    def _grow(self) -> None:
        """Make room for twice as many truncations of one lane; the spare row stays the last."""
        rows = torch.zeros(self.max_truncations, *self.final_obs.shape[1:], device=self.device)
        self.final_obs = torch.cat([self.final_obs[:-1], rows, self.final_obs[-1:]])
        self.final_row[self.final_row == self.max_truncations] *= 2
        self.max_truncations *= 2

    def _find_complete(self, deciding: Tensor) -> None:
        """Find the decisions whose reward is known, if the lanes `deciding` [R] would decide next."""
        self._complete = self.count - self._waiting.index_fill(0, deciding, False).long()
        self._place = (torch.arange(self.steps).unsqueeze(1) < self._complete).flatten().nonzero().squeeze(1)
        if not len(self._place):
            raise ConfigError(f"ppo.rollout_steps={self.steps}: no seat acts twice in so few moves; use more")

    @torch.no_grad()
    def finish(self, critic: Critic, gamma: float, lam: float) -> None:
        """Compute `value`, `advantage` and `returns` of all complete decisions."""
        rows, cut = self.steps, self.truncated
        truncation_value = self._judge(critic)
        if self.gaps:
            rows = int(self._complete.max())
            last = torch.arange(self.steps).unsqueeze(1) == self._complete - 1
            cut = cut | (last & self._waiting)
        stored = (self.reward, self.value, self.terminated, cut)
        columns = (*(tensor[:rows] for tensor in stored), self._values[rows], truncation_value[:rows])
        estimate: Callable[..., tuple[Tensor, ...]] = partial(gae, gamma=gamma, lam=lam)
        if self._captures:  # one launch for all rows
            if (gamma, lam) not in self._graphs:
                self._graphs[gamma, lam] = Captured(estimate, *columns)
            estimate = self._graphs[gamma, lam]
        advantage, returns = estimate(*columns)
        self.advantage[:rows].copy_(advantage)
        self.returns[:rows].copy_(returns)

    def _judge(self, critic: Critic) -> Tensor:
        """Compute the values of all states; return the value after each decision [T, L], of truncated ones at least."""
        if not (self.gaps or self.recurrent):
            values, final_values = critic(self.obs, self.final_obs, self.final_row)
            self._values.copy_(values)
            return final_values.gather(0, self.final_row)
        row, lane = (self.truncated & ~self.terminated).nonzero(as_tuple=True)
        final_obs = self.final_obs[self.final_row[row, lane], lane].to(self.learner_device)
        obs, index = self._states()
        number = torch.zeros(self._values.numel(), dtype=torch.int64, device=self.device)
        number[index] = torch.arange(len(index), device=self.device)
        before = number[row * self.lanes + lane].to(self.learner_device)
        values, final_values = (part.to(self.device) for part in critic(obs, final_obs, before))
        self._values.view(-1).index_copy_(0, index, values)
        after = self._values[1:].clone()
        after[row, lane] = final_values
        return after

    def _states(self) -> tuple[Tensor | Sequences, Tensor]:
        """Return the observations to judge, for a recurrent network as sequences, and their places in the storage."""
        used = torch.arange(self.steps + 1, device=self.device).unsqueeze(1) < self._complete + self._waiting
        if not self.recurrent:
            index = used.flatten().nonzero().squeeze(1)
            return self.obs.flatten(0, 1).index_select(0, index).to(self.learner_device), index
        longest, lanes = int(used.sum(0).max()), used.any(0).nonzero().squeeze(1)
        index = (torch.arange(longest, device=self.device).unsqueeze(1) * self.lanes + lanes).flatten()
        parts = (self.obs[:longest, lanes], self.memory[0, lanes], self.fresh[:longest, lanes])
        rows = torch.arange(len(index), device=self.device)
        return Sequences(*(part.to(self.learner_device) for part in (*parts, rows))), index

    def flat(self) -> Samples | SequenceSamples:
        """Return all complete decisions in the order of their rows, views of the storage where all are complete.

        Those of a recurrent network come with their sequences.
        """
        stored = (self.actions, self.log_prob, self.value, self.advantage, self.returns)
        chosen = map(self.complete, stored)
        if self.recurrent:
            return SequenceSamples(self, self._places(), *chosen)
        return Samples(self.complete(self.obs), *chosen)

    def complete(self, stored: Tensor) -> Tensor:
        """Return what is stored of all complete decisions, [R, ...] of [T, L, ...]."""
        flat = stored[: self.steps].flatten(0, 1)
        return flat if self._place is None else flat.index_select(0, self._place).to(self.learner_device)

    def sequences(self, chosen: Tensor, rows: Tensor) -> Sequences:
        """Return the sequences with the numbers `chosen` [B]; of their flattened rows, only `rows` count.

        Rows beyond the storage repeat its last row.
        """
        chunk, lane = chosen // self.lanes, chosen % self.lanes
        steps = chunk * self.length + torch.arange(self.length, device=self.device).unsqueeze(1)
        steps = steps.clamp(max=self.steps)
        parts = (self.obs[steps, lane], self.memory[chunk, lane], self.fresh[steps, lane], rows)
        return Sequences(*(part.to(self.learner_device) for part in parts))

    def key(self, share: Shard) -> Tensor:
        """Return numbers int64 [R] that put the samples of all processes in the order of a single process."""
        index = self._places()
        lanes, first, total = (self.lanes // self.num_envs * n for n in (self.num_envs, share.first, share.total))
        return (index // lanes * total + first + index % lanes).to(self.learner_device)

    def _places(self) -> Tensor:
        total = self.steps * self.lanes
        return torch.arange(total, device=self.device) if self._place is None else self._place


def _check_memory(env: BatchEnv, rows: int) -> None:
    """Raise `ConfigError` if `rows` observations of every lane are more than the machine can hold."""
    needed, available = 4 * rows * env.obs.numel(), memory_bytes()
    if needed > available and env.obs.device.type == "cpu":
        lanes, columns = env.obs.shape
        raise ConfigError(
            f"env.num_envs={env.num_envs}: a rollout of {lanes} seats with {columns:,} numbers each needs "
            f"{needed / 2**30:.0f} GiB, and this machine has {available / 2**30:.0f}; use fewer matches, a smaller "
            "ppo.rollout_steps, or a function that shrinks the observation as env.id"
        )


def memory_bytes() -> int:
    """Return the size of this machine's memory in bytes, 2^63 if the system does not report it."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**63


@torch.no_grad()
def gae(
    reward: Tensor,
    value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    last_value: Tensor,
    truncation_value: Tensor,
    *,
    gamma: float,
    lam: float,
) -> tuple[Tensor, Tensor]:
    """Compute advantages and returns, each [T, N].

    `reward`, `value` = V(s_t), `terminated`, `truncated` (bool) are [T, N]; `last_value` [N] is V of the observation
    after the last step; `truncation_value` [T, N] is V(final observation) where truncated and ignored elsewhere, even
    if NaN. A step both terminated and truncated counts as terminated.
    """
    # V(s_{t+1}) of the stored observations; after an ending that is the first state of the next episode.
    next_value = torch.cat([value[1:], last_value.unsqueeze(0)])
    # A time limit is not a property of the state, so the value of the interrupted state is used.
    next_value = torch.where(truncated, truncation_value, next_value)
    next_value = next_value.masked_fill(terminated, 0.0)  # no reward follows a true ending
    advantage = reward + gamma * next_value - value  # delta_t
    decay = gamma * lam * (~(terminated | truncated)).to(value.dtype)
    for t in range(len(reward) - 2, -1, -1):
        advantage[t].addcmul_(decay[t], advantage[t + 1])  # A_t = delta_t + gamma lambda A_{t+1}
    return advantage, advantage + value


@dataclass(frozen=True)
class SequenceSamples:
    """Samples of a recurrent network: all tensors [R, ...] in the order of `position`, rows of the storage of T * L."""

    rollout: Rollout
    position: Tensor
    actions: Tensor
    log_prob: Tensor
    value: Tensor
    advantage: Tensor
    returns: Tensor

    def minibatches(
        self, config: PPOConfig, generator: torch.Generator, joint: Joint | None = None
    ) -> Iterator[Minibatch]:
        """Yield the minibatches of `epochs` passes: complete sequences in a new order, in equally many parts."""
        store = self.rollout
        step, lane = self.position // store.lanes, self.position % store.lanes
        sequence = (step // store.length) * store.lanes + lane
        numbers = sequence.unique()
        number = torch.full((int(numbers.max()) + 1,), -1, device=numbers.device)
        for _ in range(config.epochs):
            order = torch.randperm(len(numbers), generator=generator, device=generator.device).to(numbers.device)
            for chosen in numbers[order].tensor_split(min(parts(len(self.position), config), len(numbers))):
                number.fill_(-1)
                number[chosen] = torch.arange(len(chosen), device=numbers.device)
                samples = (number[sequence] >= 0).nonzero().squeeze(1)
                # The row of each sample among those of its sequences, [length, chosen].
                rows = step[samples] % store.length * len(chosen) + number[sequence[samples]]
                tensors = (self.actions, self.log_prob, self.value, self.advantage, self.returns)
                actions, log_prob, value, advantage, returns = (tensor[samples] for tensor in tensors)
                batch = store.sequences(chosen, rows)
                yield Minibatch(batch, actions, log_prob, value, normalize(advantage), returns, len(samples))
