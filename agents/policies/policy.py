"""Policy: a checkpoint loaded for playing, which maps observations to actions.

A policy has the contract it was trained under and refuses matches with other rules, another step length or unknown
observations. One difference is allowed: matches may append columns that a policy was trained without, in the dogfight
the physics parameters, in air combat the ground. The policy then uses the columns before them.

A policy with styles draws one for every match, even if its actions are deterministic. It keeps the style's number in a
memory of one column, so callers that carry memories carry it too.

A recurrent policy has M columns of memory for each seat that it plays, zeros where a match begins. The caller carries
it with `step`; `act` refuses such a policy.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparring.agents.policies.actor_critic import alternatives
from sparring.agents.policies.checkpoint import (
    game_of_policy,
    in_todays_version,
    is_old,
    load_checkpoint,
    old_version_message,
)
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.policies.styles import MIXTURE, draw_styles, style_columns
from sparring.configs.core.errors import InputError
from sparring.configs.games import APPENDED
from sparring.envs.game import load

OBSERVATION_KEYS = ("obs_dim", *APPENDED)
ACTION_KEYS = ("continuous", "binary")
"""Numbers of actions of each kind; matches constrain only their sum."""


def action_columns(contract: Mapping[str, Any]) -> int:
    """Return the number of columns of an action: continuous ones, switches, choices."""
    return sum(contract[key] for key in ACTION_KEYS) + len(alternatives(contract.get("categorical", 0)))


def appended_columns(trained: Mapping[str, Any], needed: Mapping[str, Any]) -> int:
    """Return how many columns matches of contract `needed` append to what a policy observes; 0 if they differ else."""
    appends = any(needed.get(key) and not trained.get(key) for key in APPENDED)
    return max(needed["obs_dim"] - trained["obs_dim"], 0) if appends else 0


class PolicyError(InputError):
    """Policy that cannot play these matches; the message is one line with its name and the difference."""


class Policy:
    """Network that plays under `contract`; `name` identifies it in messages and tables.

    Deterministic actions are the Gaussian's mean and the likelier side of the Bernoulli; otherwise actions are sampled
    with the policy's own generator, seeded with `seed`. `encode` converts observations [B, D] to those that the network
    takes, `decode` its actions [B, A] to those of the matches.
    """

    def __init__(
        self,
        network: PolicyNetwork,
        contract: Mapping[str, Any],
        *,
        name: str = "policy",
        deterministic: bool = True,
        seed: int = 0,
        encode: Callable[[Tensor], Tensor] = Tensor.float,
        decode: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.network, self._encode, self._decode = network, encode, decode
        self.contract = dict(contract)
        self.name = name
        self.deterministic = deterministic
        self.device = network.log_std.device
        self.styles: int = network.config.styles if self.learned else 0
        self.memory_size = network.memory_size or min(self.styles, 1)
        game = game_of_policy(self.contract) if self.contract.get("mirror", False) else None
        self._mirror = load(game.mirror)(self.contract["rules"], network.obs_dim, self.device) if game else None
        self._generator = torch.Generator(self.device)
        self.reseed(seed)

    @property
    def learned(self) -> bool:
        """True if it plays by weights, not by a model or an object of another program."""
        return isinstance(self.network, PolicyNetwork)

    @classmethod
    def load(cls, path: str | Path, device: str | torch.device = "cpu", *, deterministic: bool = True) -> Policy:
        """Read a checkpoint; raises `CheckpointError` if it cannot be used. The policy is named after its file."""
        checkpoint = load_checkpoint(path, device)
        contract, _ = in_todays_version(checkpoint.contract, str(path))
        return cls(checkpoint.network, contract, name=str(path), deterministic=deterministic)

    def sampling(self) -> Policy:
        """Return the same policy with its own generator, which samples its actions."""
        other = copy.copy(self)
        other.deterministic, other._generator = False, torch.Generator(self.device)
        other.reseed(0)
        return other

    def reseed(self, seed: int) -> None:
        """Restart the sequence of sampled actions."""
        self._generator.manual_seed(seed)

    def check(self, contract: Mapping[str, Any]) -> None:
        """Raise `PolicyError`, with the difference, unless the policy can play matches of this contract."""
        if is_old(self.contract):
            raise PolicyError(old_version_message(self.name, self.contract))
        for key, needed in contract.items():
            value = self.contract.get(key)
            if key not in (*OBSERVATION_KEYS, *ACTION_KEYS) and value != needed:
                had, has = told_apart(key, self.contract, contract)
                raise PolicyError(f"{self.name} was trained with {had} and cannot play with {has}")
        value, needed = (sum(part[key] for key in ACTION_KEYS) for part in (self.contract, contract))
        if value != needed and "layout" in contract:
            had, has = told_apart(ACTION_KEYS[0], self.contract, contract)
            raise PolicyError(f"{self.name} was trained with {had} and cannot play with {has}")
        if value != needed:
            raise PolicyError(f"{self.name} returns {value} numbers per action; the game needs {needed}")
        alike = all(self.contract.get(key) == contract.get(key) for key in OBSERVATION_KEYS)
        if not alike and not appended_columns(self.contract, contract):
            value, needed = self.contract["obs_dim"], contract["obs_dim"]
            raise PolicyError(f"{self.name} observes {value} floats and cannot play matches with {needed}")

    @torch.no_grad()
    def act(self, obs: Tensor, *, deterministic: bool | None = None) -> Tensor:
        """Return actions [B, A] for observations [B, D] of matches that passed `check`.

        `deterministic` defaults to the policy's own setting. Raises `PolicyError` for a policy with memory.
        """
        self.refuse_memory("which is not supported here")
        return self.step(obs, obs[:, :0], deterministic=deterministic)[0]

    def refuse_memory(self, reason: str) -> None:
        """Raise `PolicyError` with the `reason` for a policy with memory."""
        if self.memory_size:
            config = self.network.config
            kind, fix = f"network.memory={config.memory}", "name a policy without one"
            if self.styles:
                kind, fix = f"network.styles={self.styles}", "name one of its styles, such as RUN/styles/style_0.pt"
            raise PolicyError(f"{self.name}: has a memory ({kind}), {reason}; {fix}")

    @torch.no_grad()
    def step(self, obs: Tensor, memory: Tensor, *, deterministic: bool | None = None) -> tuple[Tensor, Tensor]:
        """Return what `act` does, and the memory [B, M] after it, from the memory [B, M] after the last decisions."""
        columns = self._encode(obs[:, : self.network.obs_dim])
        deterministic = self.deterministic if deterministic is None else deterministic
        if self._mirror is None:
            return self._answer(columns, memory, deterministic=deterministic)
        mirrored, side = self._mirror.show(columns)
        actions, after = self._answer(mirrored, memory, deterministic=deterministic)
        return self._mirror.back(actions, side), after

    @torch.no_grad()
    def value(self, obs: Tensor) -> Tensor | None:
        """Return V(s), float32 [B], for observations as in `act`; None without a critic, and with memory."""
        if not self.learned or self.memory_size:
            return None
        columns = self._encode(obs[:, : self.network.obs_dim])
        return self.network.value(columns if self._mirror is None else self._mirror.show(columns)[0])

    def _answer(self, obs: Tensor, memory: Tensor, *, deterministic: bool) -> tuple[Tensor, Tensor]:
        how: dict[str, Any] = {"deterministic": deterministic, "generator": self._generator}
        if self.styles:
            memory = draw_styles(memory, self.network.get_buffer(MIXTURE), self._generator)
            return self.network.act(torch.cat([obs, style_columns(memory, self.styles)], dim=1), **how)[0], memory
        if not self.memory_size:
            actions = self.network.act(obs, **how)[0]
            return (self._decode(actions) if self._decode else actions), memory
        actions, _, after = self.network.step(obs, memory, critic=False, **how)
        return actions, after


DERIVED = (*OBSERVATION_KEYS, *ACTION_KEYS, "layout", "categorical")
"""Keys of a contract that follow from options of the game."""


def told_apart(key: str, trained: Mapping[str, Any], needed: Mapping[str, Any]) -> tuple[str, str]:
    """Describe the difference of two contracts in `key`: what was trained, what is needed.

    A layout stands for options of the game. Contracts with a layout are therefore described by the options that differ,
    not by layout or sizes. A different `network.all_phases` is named alone, because sizes and version follow from it.
    """
    if trained.get("all_phases", False) != needed.get("all_phases", False):
        had, has = (f"network.all_phases={str(part.get('all_phases', False)).lower()}" for part in (trained, needed))
        return had, has
    options = [k for k in dict.fromkeys([*trained, *needed]) if k not in DERIVED and trained.get(k) != needed.get(k)]
    if key not in DERIVED or "layout" not in needed or not options:
        return f"{key}={trained.get(key)}", f"{key}={needed.get(key)}"
    had, has = (", ".join(f"{k}={part[k]}" if k in part else f"no {k}" for k in options) for part in (trained, needed))
    return had, has
