"""What a game was worth to its seven powers, from the owners of its centres: pure functions over G games.

solos           1 with 18 centres or more, else 0
draw size       1 for a solo; without one, 1 / n to each of the n powers that have a centre left
sum of squares  centres^2 / sum of everybody's centres^2; of a solo the same, or 1 and 0, as one asks
centres         centres / 34, a solo or not

Owners are [G, 34], torch or numpy, -1 where a centre is nobody's. Scores are float64 [G, 7], where the owners are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from sparring.envs.diplomacy.board.codes import NUM_CENTRES, SOLO
from sparring.envs.diplomacy.board.tensors import State, count_powers, power_of


def count_centres(owner: Any) -> Tensor:
    """Centres of each power, int64 [G, 7]."""
    return count_powers(torch.as_tensor(owner))


def alive(state: State) -> Tensor:
    """Which powers have a centre or a unit, one that has to retreat included: bool [G, 7]."""
    units = torch.cat([power_of(state[name]) for name in ("units", "dislodged")], dim=1)
    return (count_powers(units) + count_centres(state["owner"])) > 0


def solos(owner: Any) -> Tensor:
    """Whether a power has won alone."""
    return (count_centres(owner) >= SOLO).double()


def draw_size(owner: Any) -> Tensor:
    """Each power's share of the draw or the solo; the shares of a game sum to 1 unless nobody owns anything."""
    return _solo_takes_all(_share((count_centres(owner) > 0).double()), owner)


def sum_of_squares(owner: Any, *, solo_takes_all: bool = False) -> Tensor:
    """Each power's share of the squared centres; the shares of a game sum to 1 unless nobody owns anything."""
    shares = _share(count_centres(owner).double().square())
    return _solo_takes_all(shares, owner) if solo_takes_all else shares


def centre_share(owner: Any) -> Tensor:
    """Centres as a share of all 34."""
    return count_centres(owner).double() / NUM_CENTRES


FINAL: dict[str, Callable[[Tensor], Tensor]] = {
    "sum_of_squares": partial(sum_of_squares, solo_takes_all=True),
    "draw_size": draw_size,
    "centres": centre_share,
    "solo": solos,
}
"""Scores that may be paid at the end of a game."""


def _share(values: Tensor) -> Tensor:
    return values / values.sum(dim=1, keepdim=True).clamp(min=1.0)


def _solo_takes_all(scores: Tensor, owner: Any) -> Tensor:
    won = solos(owner)
    return torch.where(won.any(dim=1, keepdim=True), won, scores)
