"""Builds and disbands due in winter, for G games at once.

The rule of `adjudicator/adjustments.py` as torch operations, for observations, rewards and prompts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparring.envs.diplomacy.board.board import NOTHING
from sparring.envs.diplomacy.board.tensors import board_tensors, count_powers, power_of


def due(units: Tensor, owner: Tensor) -> Tensor:
    """Return the builds each power may make, negative: the disbands it owes, int64 [G, 7].

    `units` [G, 75] and `owner` [G, 34] are those of the games.
    """
    spare = count_powers(owner) - count_powers(power_of(units))
    return torch.minimum(spare, count_powers(free_homes(units, owner)))


def free_homes(units: Tensor, owner: Tensor) -> Tensor:
    """Return the power that may build in each centre, int64 [G, 34]: the owner of an empty home centre, else -1."""
    board = board_tensors(units.device)
    free = (units[:, board.centres] == 0) & (owner == board.home[board.centres])
    return torch.where(free, owner.long(), NOTHING)
