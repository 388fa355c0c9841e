"""A policy: observations in, actions out. It is what a checkpoint becomes when it is to play, not to learn.

A policy carries the contract it was trained under and refuses matches it does not fit: other rules, another length of a
step, observations it has never seen. One difference is harmless. The 46 floats of a policy trained without the physics
parameters are the first 46 of the 59, so it plays among policies that see all 59 by looking at the first 46.

A policy of an old version of the environment plays only where that was asked for (`agents.policies.env_version`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.policies.env_version import game_of_policy, is_old, old_version_message
from sparring.configs.core.errors import InputError
from sparring.envs.game import load

OBSERVATION_KEYS = ("obs_dim", "observe_physics")
ACTION_KEYS = ("continuous", "binary")
"""How a policy draws its actions; the game only asks how many there are."""


class PolicyError(InputError):
    """A policy that cannot play these matches; the message is one line naming it and what differs."""


class Policy:
    """A network that plays under `contract`; `name` is what messages and tables call it.

    Deterministic actions are the Gaussian's mean and the likelier side of the Bernoulli; otherwise actions are sampled
    with a generator of the policy's own, seeded with `seed`.
    """

    def __init__(
        self,
        network: ActorCritic,
        contract: Mapping[str, Any],
        *,
        name: str = "policy",
        deterministic: bool = True,
        seed: int = 0,
    ) -> None:
        self.network = network
        self.contract = dict(contract)
        self.name = name
        self.deterministic = deterministic
        self.device = network.log_std.device
        game = game_of_policy(self.contract) if self.contract.get("mirror", False) else None
        self._mirror = load(game.mirror)(self.contract["rules"], network.obs_dim, self.device) if game else None
        self._generator = torch.Generator(self.device)
        self.reseed(seed)

    @classmethod
    def load(cls, path: Path, device: str | torch.device = "cpu", *, deterministic: bool = True) -> Policy:
        """Read a checkpoint; raises `CheckpointError` if it cannot be used. The policy is named after its file."""
        checkpoint = load_checkpoint(path, device)
        return cls(checkpoint.network, checkpoint.contract, name=str(path), deterministic=deterministic)

    def reseed(self, seed: int) -> None:
        """Restart the sequence of sampled actions."""
        self._generator.manual_seed(seed)

    def check(self, contract: Mapping[str, Any]) -> None:
        """Return if the policy can play matches of this contract, else raise `PolicyError` naming what differs."""
        if is_old(self.contract):
            raise PolicyError(old_version_message(self.name, self.contract))
        for key, wanted in contract.items():
            mine = self.contract.get(key)
            if key not in (*OBSERVATION_KEYS, *ACTION_KEYS) and mine != wanted:
                raise PolicyError(f"{self.name} was trained with {key}={mine} and cannot play with {key}={wanted}")
        mine, wanted = (sum(found[key] for key in ACTION_KEYS) for found in (self.contract, contract))
        if mine != wanted:
            raise PolicyError(f"{self.name} gives {mine} numbers an action and cannot play where it takes {wanted}")
        if not (self._sees(contract) or self._sees_less(contract)):
            mine, wanted = self.contract["obs_dim"], contract["obs_dim"]
            raise PolicyError(f"{self.name} observes {mine} floats and cannot play matches that show {wanted}")

    @torch.no_grad()
    def act(self, obs: Tensor) -> Tensor:
        """Actions [B, A] for observations [B, D] of matches that passed `check`."""
        seen = obs[:, : self.network.obs_dim]
        if self._mirror is None:
            return self._answer(seen)
        shown, side = self._mirror.show(seen)
        return self._mirror.back(self._answer(shown), side)

    def _answer(self, obs: Tensor) -> Tensor:
        actions, _ = self.network.act(obs, deterministic=self.deterministic, generator=self._generator)
        return actions

    def _sees(self, contract: Mapping[str, Any]) -> bool:
        return all(self.contract[key] == contract[key] for key in OBSERVATION_KEYS)

    def _sees_less(self, contract: Mapping[str, Any]) -> bool:
        """Whether the matches show what this policy sees, and the physics parameters after it."""
        fewer = self.contract["obs_dim"] < contract["obs_dim"]
        return fewer and contract["observe_physics"] and not self.contract["observe_physics"]
