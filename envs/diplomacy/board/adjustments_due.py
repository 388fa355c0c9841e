"""What is due in winter, for G games at once: the rules of `seasons.py` for those who watch."""

from __future__ import annotations

import torch
from torch import Tensor

from sparring.envs.diplomacy.board.board import NOTHING
from sparring.envs.diplomacy.board.tensors import board_tensors, count_powers, power_of


def due(units: Tensor, owner: Tensor) -> Tensor:
    """How many units each power may build, below zero how many it has to disband: int64 [G, 7].

    `units` [G, 75] and `owner` [G, 34] are those of the games.
    """
    spare = count_powers(owner) - count_powers(power_of(units))
    return torch.minimum(spare, count_powers(free_homes(units, owner)))


def free_homes(units: Tensor, owner: Tensor) -> Tensor:
    """Who could build in each centre, as a power, int64 [G, 34]: nobody (-1) but its own power, where it is empty."""
    board = board_tensors(units.device)
    free = (units[:, board.centres] == 0) & (owner == board.home[board.centres])
    return torch.where(free, owner.long(), NOTHING)
