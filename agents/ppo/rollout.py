"""Rollout storage: T steps of N environments in preallocated tensors, then values, advantages, returns and minibatches.

Collecting runs the actor only. Values are computed afterwards, all T x N at once, which costs far less than T small
forwards. An environment's `final_obs` is needed only at a time limit, so instead of [T, N, D] a few rows per
environment are kept, and each step stores its row index. On an accelerator that is a scatter, without readback.

Generalized advantage estimation (Schulman et al. 2016, arXiv:1506.02438) treats time limits as truncation:

    delta_t = r_t + gamma V(s'_t) - V(s_t)
    A_t     = delta_t + gamma lambda A_{t+1}      (cut where an episode ends)

s'_t is the state after step t. With same-step autoreset the next stored observation already belongs to the next
episode. So at a time limit (truncation) V(s'_t) must be the value of the final observation, and at a true ending
(termination) it is zero. Bootstrapping at neither or at both gives the critic a wrong horizon.

The order of an epoch covers the samples of all processes and is drawn identically in each; a process gets the samples
of a minibatch that it holds. Advantages are normalized over the whole minibatch, and `Minibatch.mean` divides by its
whole size, so gradients and statistics of the processes add up to those of a single process with all samples. There N
is all matches, n those of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from sparring.agents.distributed.processes import Processes, Shard, ShardedGenerator
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.memory import Sequences
from sparring.agents.ppo.captured import Captured
from sparring.configs.schema import PPOConfig

Act = Callable[[Tensor], tuple[Tensor, ...]]
"""Actions [N, A] and log-probabilities [N] for observations [N, D]."""


class BatchEnv(Protocol):
    """N environments stepped together, with same-step autoreset. Its tensors may be overwritten by the next step."""

    @property
    def obs(self) -> Tensor:
        """Current observations [N, D]."""

    @property
    def final_obs(self) -> Tensor:
        """Last observations [N, D] of the episodes that were just truncated; other rows are undefined."""

    def step(self, actions: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Take actions [N, A]; return obs [N, D], reward [N], terminated [N], truncated [N]."""


class Samples(NamedTuple):
    """Training samples of one update; the first dimension of every tensor is the sample index."""

    obs: Tensor
    actions: Tensor
    log_prob: Tensor
    value: Tensor
    advantage: Tensor
    returns: Tensor


class Rollout:
    """Storage of T = `steps` of N = `num_envs`, reused for every update: `collect`, then `finish`, then `flat`.

    `max_truncations` is the maximum number of truncations of one environment within T steps. On a CPU it grows where an
    environment truncates earlier than expected. With `capture` the network acts by a CUDA graph, on a GPU, where it
    draws from a plain generator at every step.
    """

    @classmethod
    def of(
        cls, network: ActorCritic, steps: int, num_envs: int, *, longest_episode: int, capture: bool = False
    ) -> Rollout:
        """Create storage for a network's spaces; an episode takes at most `longest_episode` steps."""
        truncations = -(-steps // longest_episode)
        sizes = (steps, num_envs, network.obs_dim, network.action_size)
        return cls(*sizes, device=network.log_std.device, max_truncations=truncations, capture=capture)

    def __init__(
        self,
        steps: int,
        num_envs: int,
        obs_dim: int,
        action_dim: int,
        *,
        device: torch.device | str,
        max_truncations: int,
        capture: bool = False,
    ) -> None:
        T, N = steps, num_envs
        self.capture = capture
        self.steps, self.num_envs, self.max_truncations = steps, num_envs, max_truncations
        self.device = torch.device(device)
        self.obs = torch.zeros(T + 1, N, obs_dim, device=device)  # one more: the state after the last step
        self.actions = torch.zeros(T, N, action_dim, device=device)
        self.log_prob, self.reward, self.value, self.advantage, self.returns = torch.zeros(5, T, N, device=device)
        self.terminated, self.truncated = torch.zeros(2, T, N, dtype=torch.bool, device=device)
        # Row `max_truncations` is spare: it receives unneeded rows, and surplus rows until `collect` raises.
        self.final_obs = torch.zeros(max_truncations + 1, N, obs_dim, device=device)
        self.final_row = torch.zeros(T, N, dtype=torch.int64, device=device)
        self.truncations = torch.zeros(N, dtype=torch.int64, device=device)
        self._captured: dict[tuple[object, ...], Captured[tuple[Tensor, ...]]] = {}

    @torch.no_grad()
    def collect(
        self,
        env: BatchEnv,
        network: ActorCritic,
        generator: torch.Generator | ShardedGenerator,
        *,
        hold: int = 0,
    ) -> None:
        """Play T steps. `generator` must be on the rollout's device.

        With `hold` > 0, gSDE's noise is a function of the state that is drawn again every `hold` steps.
        Raises `RuntimeError` if an environment was truncated more than `max_truncations` times, except on a CPU.
        """
        self.truncations.zero_()
        self.final_row.fill_(self.max_truncations)
        self.obs[0].copy_(env.obs)
        act: Act = partial(network.act, generator=generator)
        if self.capture and not hold and self.device.type == "cuda" and isinstance(generator, torch.Generator):
            act = self._capture(act, network, generator)
        for t in range(self.steps):
            if hold and t % hold == 0:
                act = partial(network.act, generator=generator, noise=network.draw_noise(self.num_envs, generator))
            actions, log_prob = act(self.obs[t])  # a_t ~ pi(. | s_t)
            obs, reward, terminated, truncated = env.step(actions)
            self.actions[t].copy_(actions)
            self.log_prob[t].copy_(log_prob)
            self.obs[t + 1].copy_(obs)
            self.reward[t].copy_(reward)
            self.terminated[t].copy_(terminated)
            self.truncated[t].copy_(truncated)
            self._keep_final_obs(t, env.final_obs)
        self._check_truncations()

    def _capture(self, act: Act, network: ActorCritic, generator: torch.Generator) -> Act:
        """Return `act` as a CUDA graph, recorded once for a network, a generator and a precision."""
        key = (network, generator, torch.is_autocast_enabled(self.device.type))
        if key not in self._captured:
            self._captured[key] = Captured(act, self.obs[0], generators=[generator])
        return self._captured[key]

    def _keep_final_obs(self, t: int, final_obs: Tensor) -> None:
        truncated = self.truncated[t]
        if self.device.type == "cpu":  # elsewhere the tests would synchronize
            if not truncated.any():
                return
            if int(self.truncations[truncated].max()) == self.max_truncations:
                self._grow()
        row = self.truncations.clamp(max=self.max_truncations).masked_fill(~truncated, self.max_truncations)
        self.final_obs.scatter_(0, row.view(1, -1, 1).expand(1, *final_obs.shape), final_obs.unsqueeze(0))
        self.final_row[t].copy_(row)
        self.truncations += truncated

    def _grow(self) -> None:
        """Make room for twice as many truncations of one environment; the spare row stays the last."""
        rows = torch.zeros(self.max_truncations, *self.final_obs.shape[1:], device=self.device)
        self.final_obs = torch.cat([self.final_obs[:-1], rows, self.final_obs[-1:]])
        self.final_row[self.final_row == self.max_truncations] *= 2
        self.max_truncations *= 2

    def _check_truncations(self) -> None:
        most = int(self.truncations.max())
        if most > self.max_truncations:
            raise RuntimeError(
                f"max_truncations={self.max_truncations} but an environment was truncated {most} times in "
                f"{self.steps} steps; make the rollout with max_truncations >= {most}"
            )

    @torch.no_grad()
    def finish(self, critic: Callable[[Tensor], Tensor], gamma: float, lam: float) -> None:
        """Compute `value`, `advantage` and `returns`; `critic` gives V(s) [T, N] of observations [T, N, D]."""
        values = critic(self.obs)
        final_values = critic(self.final_obs)
        self.value.copy_(values[:-1])
        advantage, returns = gae(
            self.reward,
            self.value,
            self.terminated,
            self.truncated,
            values[-1],
            final_values.gather(0, self.final_row),
            gamma=gamma,
            lam=lam,
        )
        self.advantage.copy_(advantage)
        self.returns.copy_(returns)

    def flat(self) -> Samples:
        """Return all T * N samples, in the order of steps, as views of the storage."""
        tensors = (self.obs[:-1], self.actions, self.log_prob, self.value, self.advantage, self.returns)
        return Samples(*(tensor.flatten(0, 1) for tensor in tensors))


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
    # A time limit is no property of the state, so the value of the interrupted state is used.
    next_value = torch.where(truncated, truncation_value, next_value)
    next_value = next_value.masked_fill(terminated, 0.0)  # no reward follows a true ending
    advantage = reward + gamma * next_value - value  # delta_t
    decay = gamma * lam * (~(terminated | truncated)).to(value.dtype)
    for t in range(len(reward) - 2, -1, -1):
        advantage[t].addcmul_(decay[t], advantage[t + 1])  # A_t = delta_t + gamma lambda A_{t+1}
    return advantage, advantage + value


ADVANTAGE_EPSILON = 1e-5
"""Added to the standard deviation, so that advantages that differ only by rounding are not scaled up to size 1."""


class Minibatch(NamedTuple):
    """`Samples` of this process, with advantages normalized over all `size` samples of all processes."""

    obs: Tensor | Sequences
    actions: Tensor
    log_prob: Tensor
    value: Tensor
    advantage: Tensor
    returns: Tensor
    size: int

    def mean(self, x: Tensor) -> Tensor:
        """Return this process's part of the mean of x over the minibatch; the mean itself in a single process."""
        return x.mean() if len(x) == self.size else x.sum() / self.size

    def pieces(self, rows: int) -> Iterator[Minibatch]:
        """Yield the minibatch in pieces of at most `rows` samples, whose gradients and means add up to its own."""
        obs = self.obs
        if isinstance(obs, Sequences):  # which cannot be cut
            yield self
            return
        whole = (obs, self.actions, self.log_prob, self.value, self.advantage, self.returns)
        for first in range(0, max(1, len(obs)), rows):
            yield Minibatch(*Samples(*(tensor[first : first + rows] for tensor in whole)), self.size)


class Joint(NamedTuple):
    """Tensors [T * N] over the samples of all processes, in the order of steps."""

    share: Shard
    advantage: Tensor
    value: Tensor
    returns: Tensor

    @classmethod
    def gather(cls, samples: Samples, share: Shard, processes: Processes) -> Joint:
        """Gather the T * n samples of every process."""
        mine = torch.stack([samples.advantage, samples.value, samples.returns])
        joint = processes.gather(mine.view(3, -1, share.count), dim=2)
        return cls(share, *joint.flatten(1))

    def mine(self, order: Tensor) -> tuple[Tensor, Tensor]:
        """Return a mask of the samples in `order` that this process holds, and their rows among its T * n."""
        share = self.share
        step, match = order // share.total, order % share.total - share.first
        held = (match >= 0) & (match < share.count)
        return held, (step * share.count + match)[held]


class KeyedJoint(NamedTuple):
    """Tensors [R] over the samples of all processes, of which each has any number, in the order of their keys."""

    row: Tensor
    """Row of each among the samples of this process, int64; -1 for those of others."""
    advantage: Tensor
    value: Tensor
    returns: Tensor

    @classmethod
    def gather(cls, samples: Samples, key: Tensor, processes: Processes) -> KeyedJoint:
        """Gather the samples of every process, with their keys, int64 and all different."""
        counts = processes.gather(torch.tensor([len(key)])).tolist()
        before, own = sum(counts[: processes.rank]), len(key)

        def everyone(mine: Tensor) -> Tensor:
            padded = mine.new_zeros(len(mine), max(counts))
            padded[:, :own] = mine
            parts = processes.gather(padded, dim=1).split(max(counts), dim=1)
            return torch.cat([part[:, :count] for part, count in zip(parts, counts, strict=True)], dim=1)

        order = everyone(key.unsqueeze(0))[0].argsort()
        row = torch.full_like(order, -1)
        row[before : before + own] = torch.arange(own, device=row.device)
        joint = everyone(torch.stack([samples.advantage, samples.value, samples.returns]))
        return cls(row[order], *joint[:, order])

    def mine(self, order: Tensor) -> tuple[Tensor, Tensor]:
        """See `Joint.mine`."""
        rows = self.row[order]
        return rows >= 0, rows[rows >= 0]


def minibatches(
    samples: Samples, config: PPOConfig, generator: torch.Generator, joint: Joint | KeyedJoint | None = None
) -> Iterator[Minibatch]:
    """Yield the minibatches of `epochs` passes, each in a new order, in equal parts of at most `minibatch_size`.

    With `joint`, the parts are of all processes' samples; `samples` are those of this process.
    """
    for order, chunks in orders(len((joint or samples).advantage), config, generator):
        for index, rows in zip(chunks, chunks if joint is None else _own(joint, order, chunks), strict=True):
            yield gathered(samples, rows, None if joint is None else joint.advantage.index_select(0, index))


def orders(total: int, config: PPOConfig, generator: torch.Generator) -> Iterator[tuple[Tensor, tuple[Tensor, ...]]]:
    """Yield a new order of `total` samples for each epoch, and its equal parts of at most `minibatch_size`."""
    for _ in range(config.epochs):
        order = torch.randperm(total, generator=generator, device=generator.device)
        yield order, order.tensor_split(parts(total, config))


def gathered(samples: Samples, rows: Tensor, everyone: Tensor | None = None) -> Minibatch:
    """Return the minibatch of the samples in `rows`; `everyone` are the advantages of all processes' part of it."""
    chosen = Samples(*(tensor.index_select(0, rows) for tensor in samples))
    size = len(rows) if everyone is None else len(everyone)
    return Minibatch(*chosen._replace(advantage=normalize(chosen.advantage, everyone)), size)


def normalize(advantage: Tensor, everyone: Tensor | None = None) -> Tensor:
    """Normalize advantages by the mean and standard deviation of `everyone`, by default of themselves."""
    std, mean = torch.std_mean(advantage if everyone is None else everyone, correction=0)
    return (advantage - mean) / (std + ADVANTAGE_EPSILON)


def parts(total: int, config: PPOConfig) -> int:
    """Return the number of minibatches in an epoch over `total` samples."""
    return -(-total // config.minibatch_size)


def _own(joint: Joint | KeyedJoint, order: Tensor, chunks: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the rows of every chunk of the order that this process holds."""
    held, rows = joint.mine(order)
    counts = torch.stack([chunk.sum() for chunk in held.tensor_split(len(chunks))])
    return rows.split(counts.tolist())
