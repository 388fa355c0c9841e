"""A trained policy in a script: `predict` on observations of its environment as numpy, `act` on tensors.

`predict` has the signature of Stable-Baselines3: its helpers (`evaluate_policy`, video wrappers) accept such a policy.
For a recurrent policy, pass `state` from call to call; `episode_start` resets it. Without memory both are accepted and
ignored. B is a batch of observations, D the size of a flattened one, A of a network's action, M of the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Space, Tuple, flatdim, flatten
from gymnasium.vector.utils import batch_space, iterate
from torch import Tensor

from sparring.agents.policies.policy import Policy, PolicyError


@dataclass(frozen=True)
class PolicySpaces:
    """Spaces in which a policy is used, and the conversion of its inputs and outputs."""

    observation: Space[Any]
    action: Space[Any]
    to_actions: Callable[[np.ndarray], np.ndarray]
    """Converts a network's actions [B, A] to a batch of actions of the space."""
    encode: Callable[[Tensor], Tensor] = Tensor.float
    """Converts flattened observations [B, D] to the network's, float32, such as by normalizing them."""


@dataclass(frozen=True)
class LoadedPolicy:
    """Policy loaded by `sparring.load`."""

    name: str
    """Name in tables: a run, or a path."""
    path: Path
    policy: Policy
    spaces: PolicySpaces
    training: Mapping[str, Any] = field(default_factory=dict)
    """Summary of the training: run, seed, env_steps, config; empty for files of other projects."""
    vecnormalize: Path | None = None
    """Statistics given to `sparring.load`."""

    @property
    def env_id(self) -> str:
        """Id of the environment it was trained in."""
        return str(self.policy.contract["id"])

    @property
    def observation_space(self) -> Space[Any]:
        """Space of one observation."""
        return self.spaces.observation

    @property
    def action_space(self) -> Space[Any]:
        """Space of one action of `predict`."""
        return self.spaces.action

    def predict(
        self,
        observation: Any,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = True,
    ) -> tuple[Any, tuple[np.ndarray, ...] | None]:
        """Return the action for an observation of `observation_space`, or a batch of both, and `state` as given.

        With memory, `state` (float32 [B, M],) is what the last call returned, or None where all episodes begin;
        `episode_start` bool [B] marks those that begin. Raises `PolicyError` for an observation of another shape, and
        for a state of another one.
        """
        rows, single = self._rows(observation)
        if not self.policy.memory_size:
            actions = self.act(torch.from_numpy(rows).to(self.policy.device), deterministic=deterministic)
        else:
            memory = self._memory(len(rows), state, episode_start)
            obs = self.spaces.encode(torch.from_numpy(rows).to(self.policy.device))
            actions, after = self.policy.step(obs, memory, deterministic=deterministic)
            state = (after.cpu().numpy(),)
        taken = self.spaces.to_actions(actions.cpu().numpy())
        return (taken[0] if single else taken), state

    def act(self, obs: Tensor, *, deterministic: bool = True) -> Tensor:
        """Return actions float32 [B, A] of the network for flattened observations [B, D], on its device.

        These are the actions of native batches, such as `DogfightBatch`, which clamps them. Sampled actions come from
        a generator of the policy; `seed` restarts it.
        """
        if obs.dim() != 2:
            raise PolicyError(f"{self.name}: obs has shape {list(obs.shape)}; pass a batch [B, D]")
        return self.policy.act(self.spaces.encode(obs), deterministic=deterministic)

    def seed(self, seed: int) -> None:
        """Restart the sequence of sampled actions."""
        self.policy.reseed(seed)

    def _memory(self, count: int, state: tuple[np.ndarray, ...] | None, begins: np.ndarray | None) -> Tensor:
        """Return the memory [B, M] before a decision."""
        shape = (count, self.policy.memory_size)
        memory = np.zeros(shape, np.float32) if state is None else np.array(state[0], np.float32)
        if memory.shape != shape:
            raise PolicyError(
                f"{self.name}: the state has shape {memory.shape}; pass the state from the last call, {shape}"
            )
        if begins is not None:
            memory[np.asarray(begins, dtype=bool).reshape(count)] = 0.0
        return torch.from_numpy(memory).to(self.policy.device)

    def _rows(self, observation: Any) -> tuple[np.ndarray, bool]:
        """Return flattened observations [B, D], and whether there is a single one."""
        space = self.spaces.observation
        try:
            single, entry = _is_single(space, observation), observation
            if not isinstance(space, Box):
                many = [entry] if single else list(iterate(batch_space(space, _length(entry)), entry))
                rows = np.stack([np.asarray(flatten(space, item)) for item in many])
            else:
                rows = np.asarray(entry, dtype=np.float64)
                rows = rows.reshape(1 if single else len(rows), -1)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise self._refusal(observation) from error
        if rows.shape[1] != flatdim(space):
            raise self._refusal(observation)
        return rows.astype(np.float64), single

    def _refusal(self, observation: Any) -> PolicyError:
        shape = f"shape {np.shape(observation)}" if not isinstance(observation, Mapping) else f"keys {[*observation]}"
        return PolicyError(f"{self.name}: the observation has {shape}; {self.env_id} has {self.observation_space}")


def _is_single(space: Space[Any], observation: Any) -> bool:
    """Return whether `observation` is one of `space`, and not a batch of them."""
    if isinstance(space, Dict):
        key, inner = next(iter(space.spaces.items()))
        return _is_single(inner, observation[key])
    if isinstance(space, Tuple):
        return _is_single(space.spaces[0], observation[0])
    return np.ndim(observation) == len(space.shape or ())


def _length(observation: Any) -> int:
    """Return the number of observations in a batch."""
    if isinstance(observation, Mapping):
        return _length(next(iter(observation.values())))
    return _length(observation[0]) if isinstance(observation, tuple) else len(observation)
