"""A Python object as a `Policy`: `act(obs [N, D]) -> actions [N, A]` for a whole batch, in NumPy or torch.

The object is a function, an object with a method `act`, or a class of such objects, which is instantiated without
arguments. It gets NumPy arrays, or tensors on the batch's device if it is a `torch.nn.Module` or if the parameter of
`act` is annotated as a tensor. Its observations are a copy, those that the matches show its seat, whatever the rules.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from torch import Tensor

from sparring.agents.opponents.players import OpponentError, act_function, reseed_source
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.policies.policy import Policy, action_columns

EVERYTHING = 1 << 30
"""Observation size of an object that takes any."""


class PythonActor:
    """Subset of `PolicyNetwork` used by `Policy`, which asks `source` for actions of `size` numbers."""

    obs_dim, memory_size = EVERYTHING, 0

    def __init__(self, source: Any, *, name: str, device: str | torch.device = "cpu") -> None:
        self.name, self.size = name, 0
        self.log_std = torch.zeros(0, device=device)  # Policy reads its device from here.
        self.ask = act_function(source, name)
        self._tensors = takes_tensors(source, self.ask)

    def act(self, obs: Tensor, *, deterministic: bool = True, generator: object = None) -> tuple[Tensor, Tensor]:
        """Return actions [B, A] for observations [B, D], and zeros [B]; raises `OpponentError` for another shape."""
        returned = self.ask(obs if self._tensors else obs.cpu().numpy())
        try:
            actions = torch.as_tensor(returned, dtype=torch.float32, device=obs.device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise self._wrong(f"a {type(returned).__name__}, not an array of numbers", obs) from error
        if actions.shape != (len(obs), self.size):
            raise self._wrong(f"shape {tuple(actions.shape)}", obs)
        return actions.detach(), torch.zeros(len(obs), device=obs.device)

    def _wrong(self, returned: str, obs: Tensor) -> OpponentError:
        call = f"opponent {self.name}: act(obs of shape {tuple(obs.shape)}) returned {returned}"
        expected = f"({len(obs)}, {self.size}), a row of {self.size} numbers for every observation"
        return OpponentError(f"{call}; expected is shape {expected}")


class PythonPolicy(Policy):
    """Policy of a Python object, which plays matches of every contract."""

    def __init__(self, source: Any, *, name: str, device: str | torch.device = "cpu") -> None:
        self.actor = PythonActor(source, name=name, device=device)
        super().__init__(cast(PolicyNetwork, self.actor), {"observe_physics": True}, name=name)

    def reseed(self, seed: int) -> None:
        """Restart the random numbers of the object."""
        reseed_source(self.actor.ask, seed)

    def check(self, contract: Mapping[str, Any]) -> None:
        """Accept all matches, and learn the size of their actions."""
        self.actor.size = action_columns(contract)


def takes_tensors(source: Any, ask: Callable[[Any], Any]) -> bool:
    """Return True if observations are given as torch tensors."""
    if isinstance(source, torch.nn.Module) or (inspect.isclass(source) and issubclass(source, torch.nn.Module)):
        return True
    try:
        parameters = list(inspect.signature(ask).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    return bool(parameters) and "Tensor" in str(parameters[0].annotation)
