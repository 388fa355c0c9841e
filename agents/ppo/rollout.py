"""Rollout storage: T steps of N environments in preallocated tensors, then values, advantages and returns.

Collecting runs the actor only. Values are computed afterwards, all T x N at once, which costs far less than T small
forwards. An environment's `final_obs` is needed only at a time limit, so instead of [T, N, D] a few rows per
environment are kept, and each step stores its row index. On an accelerator that is a scatter, without readback.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from sparring.agents.distributed.shards import ShardedGenerator
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.gae import gae


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
    environment truncates earlier than expected.
    """

    @classmethod
    def of(cls, network: ActorCritic, steps: int, num_envs: int, *, longest_episode: int) -> Rollout:
        """Create storage for a network's spaces; an episode takes at most `longest_episode` steps."""
        truncations = -(-steps // longest_episode)
        sizes = (steps, num_envs, network.obs_dim, network.action_size)
        return cls(*sizes, device=network.log_std.device, max_truncations=truncations)

    def __init__(
        self,
        steps: int,
        num_envs: int,
        obs_dim: int,
        action_dim: int,
        *,
        device: torch.device | str,
        max_truncations: int,
    ) -> None:
        T, N = steps, num_envs
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

    @torch.no_grad()
    def collect(
        self, env: BatchEnv, network: ActorCritic, generator: torch.Generator | ShardedGenerator, *, hold: int = 0
    ) -> None:
        """Play T steps. `generator` must be on the rollout's device.

        With `hold` > 0, gSDE's noise is a function of the state that is drawn again every `hold` steps.
        Raises `RuntimeError` if an environment was truncated more than `max_truncations` times, except on a CPU.
        """
        self.truncations.zero_()
        self.final_row.fill_(self.max_truncations)
        self.obs[0].copy_(env.obs)
        act = partial(network.act, generator=generator)
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
