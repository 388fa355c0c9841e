"""Decisions in PettingZoo games with the methods of OpenSpiel states: a seat's observation and legal actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from sparring.agents.policies.actor_critic import alternatives
from sparring.configs.core.errors import InputError
from sparring.envs.imported.training.opponents import legal_actions, row_sizes

SHOWN = 8
"""Numbers of an observation in a message."""


class RowGame:
    """A game of numbered actions, by the contract of its matches, with the methods of OpenSpiel's."""

    provides_information_state_tensor = provides_information_state_string = False
    provides_observation_tensor = True

    def __init__(self, contract: Mapping[str, Any]) -> None:
        sizes = alternatives(contract["categorical"])
        self._contract, self._name = contract, str(contract["id"])
        if len(sizes) != 1 or contract["continuous"] or contract["binary"]:
            raise InputError(
                f"{self._name}: its players do not choose one of numbered actions; in such a game only a Python "
                "object with act(obs, mask) can be attacked"
            )
        self._features, self._actions = row_sizes(contract)[0], sizes[0]

    def __str__(self) -> str:
        return self._name

    def get_type(self) -> RowGame:
        """Return the object that tells which tensors the game has."""
        return self

    def observation_tensor_shape(self) -> Sequence[int]:
        """Return the shape of an observation, which is flat."""
        return [self._features]

    def num_distinct_actions(self) -> int:
        """Return the number of actions."""
        return self._actions

    def num_players(self) -> int:
        """Return the number of seats."""
        return len(self._contract["roles"])

    def states(self, batch: Any, rows: Tensor) -> list[RowState]:
        """Return the decisions of `rows` [R] of the N * S seats of a batch."""
        shown = batch.obs.flatten(0, 1)[rows]
        legal = legal_actions(shown, self._contract)
        allowed = torch.ones(len(rows), self._actions, dtype=torch.bool) if legal is None else legal
        seats = (rows % self.num_players()).tolist()
        features = shown[:, : self._features].numpy()
        return [
            RowState(row, np.flatnonzero(mask).tolist(), seat)
            for row, mask, seat in zip(features, allowed.numpy(), seats, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class RowState:
    """A decision, with the methods of a state of OpenSpiel."""

    features: np.ndarray
    legal: list[int]
    seat: int

    def current_player(self) -> int:
        """Return who decides."""
        return self.seat

    def legal_actions(self) -> list[int]:
        """Return the legal actions."""
        return self.legal

    def observation_tensor(self, player: int) -> list[float]:
        """Return the observation."""
        numbers: list[float] = self.features.tolist()
        return numbers

    def information_state_string(self, player: int) -> str:
        """Return the beginning of the observation and a checksum."""
        numbers = " ".join(f"{value:g}" for value in self.features[:SHOWN])
        return f"seat {player}: {numbers} ... ({crc32(self.features.tobytes()):08x})"
