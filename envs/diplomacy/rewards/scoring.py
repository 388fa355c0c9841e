"""Scores of a game for its seven powers, from the owners of its centres: pure functions over G games.

solos           1 with 18 centres or more, else 0
draw size       1 for a solo; without one, 1 / n to each of the n powers that have a centre left
sum of squares  centres^2 / sum of centres^2 over all powers; optionally 1 and 0 for a solo
centres         centres / 34, a solo or not

Owners are [G, 34], torch or numpy, -1 for an unowned centre. Scores are float64 [G, 7], on the device of the owners.
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
    """Count the centres of each power, int64 [G, 7]."""
    return count_powers(torch.as_tensor(owner))


def alive(state: State) -> Tensor:
    """Return whether each power has a centre or a unit, dislodged ones included: bool [G, 7]."""
    units = torch.cat([power_of(state[name]) for name in ("units", "dislodged")], dim=1)
    return (count_powers(units) + count_centres(state["owner"])) > 0


def solos(owner: Any) -> Tensor:
    """Return 1 for each power with 18 centres or more, else 0."""
    return (count_centres(owner) >= SOLO).double()


def draw_size(owner: Any) -> Tensor:
    """Return each power's share of the draw or the solo; the shares of a game sum to 1, or to 0 without any owner."""
    return _solo_takes_all(_share((count_centres(owner) > 0).double()), owner)


def sum_of_squares(owner: Any, *, solo_takes_all: bool = False) -> Tensor:
    """Return each power's share of the squared centres; the shares of a game sum to 1, or to 0 without any owner."""
    shares = _share(count_centres(owner).double().square())
    return _solo_takes_all(shares, owner) if solo_takes_all else shares


def centre_share(owner: Any) -> Tensor:
    """Return the centres of each power as a share of all 34."""
    return count_centres(owner).double() / NUM_CENTRES


FINAL: dict[str, Callable[[Tensor], Tensor]] = {
    "sum_of_squares": partial(sum_of_squares, solo_takes_all=True),
    "draw_size": draw_size,
    "centres": centre_share,
    "solo": solos,
}
"""Scores available as rewards at the end of a game."""


def _share(values: Tensor) -> Tensor:
    return values / values.sum(dim=1, keepdim=True).clamp(min=1.0)


def _solo_takes_all(scores: Tensor, owner: Any) -> Tensor:
    won = solos(owner)
    return torch.where(won.any(dim=1, keepdim=True), won, scores)
