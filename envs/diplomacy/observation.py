"""Observations: the board from the view of one power, float32 [75, 62], one row per province.

Powers are counted from the observer, in alphabetical order and cyclically, so that a policy trained as one power can
play any other. Values of the whole game are repeated in every row. `observe` computes G games at once on their device;
the PettingZoo interface and training use the same function.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate

import torch
from torch import Tensor

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import NOTHING
from sparring.envs.diplomacy.board.positions import FIRST_YEAR
from sparring.envs.diplomacy.board.tensors import (
    FORMS,
    State,
    board_tensors,
    due,
    form_of,
    free_homes,
    one_hot,
    power_of,
)

COLUMNS = (
    ("unit_power", codes.NUM_POWERS),
    ("unit_form", FORMS),
    ("dislodged_power", codes.NUM_POWERS),
    ("dislodged_form", FORMS),
    ("owner", codes.NUM_POWERS + 1),
    ("home", codes.NUM_POWERS),
    ("terrain", 3),
    ("contested", 1),
    ("slot", 1),
    ("phase", len(codes.PHASES)),
    ("years_left", 1),
    ("builds", codes.NUM_POWERS),
    ("disbands", codes.NUM_POWERS),
)
"""Column groups of an observation: name and width."""
SHAPE = (codes.NUM_PROVINCES, sum(size for _, size in COLUMNS))
AT = {
    name: slice(end - size, end)
    for (name, size), end in zip(COLUMNS, accumulate(size for _, size in COLUMNS), strict=True)
}
"""Column slice of each group."""


def observe(state: State, power: Tensor, *, last_year: int) -> Tensor:
    """Return the observation of `power` int64 [G] in each game, float32 [G, 75, 62]; games end after `last_year`."""
    units, dislodged, owner = (
        _seen_from(power, powers)
        for powers in (power_of(state["units"]), power_of(state["dislodged"]), state["owner"].long())
    )
    owed = due(state["units"], state["owner"]).gather(1, _cyclic_powers(power))
    winter = (state["phase"] == codes.WINTER).unsqueeze(1)
    seen = _scenery(power.device)[power]
    seen[..., AT["unit_power"]] = one_hot(units, codes.NUM_POWERS)
    seen[..., AT["unit_form"]] = one_hot(form_of(state["units"]), FORMS)
    seen[..., AT["dislodged_power"]] = one_hot(dislodged, codes.NUM_POWERS)
    seen[..., AT["dislodged_form"]] = one_hot(form_of(state["dislodged"]), FORMS)
    owners = torch.where(owner == NOTHING, codes.NUM_POWERS, owner)
    seen[:, board_tensors(power.device).centres, AT["owner"]] = one_hot(owners, codes.NUM_POWERS + 1).float()
    contested = (state["origin"] == codes.CONTESTED) & (dislodged != NOTHING).any(1, keepdim=True)
    seen[..., AT["contested"]] = contested.unsqueeze(-1)
    own = torch.where(winter, _adjusted(state, power, units == 0, owed[:, :1]), _ordered(state, units, dislodged))
    seen[..., AT["slot"]] = _numbers(own & (state["done"] == 0).unsqueeze(1)).unsqueeze(-1)
    seen[..., AT["phase"].start :] = _whole(state, owed * winter, last_year).unsqueeze(1)
    return seen


@cache
def _scenery(device: torch.device) -> Tensor:
    """Return the constant columns for each observer: home centres and terrain, all others 0, [7, 75, 62]."""
    board, powers = board_tensors(device), torch.arange(codes.NUM_POWERS, device=device)
    seen = torch.zeros(codes.NUM_POWERS, *SHAPE, device=device)
    seen[..., AT["home"]] = one_hot(_seen_from(powers, board.home), codes.NUM_POWERS).float()
    seen[..., AT["terrain"]] = one_hot(board.terrain, 3).float()
    return seen


def _seen_from(power: Tensor, powers: Tensor) -> Tensor:
    """Return `powers` [n] or [G, n] relative to `power` [G], which becomes 0; -1 stays -1."""
    return torch.where(powers == NOTHING, NOTHING, (powers - power.unsqueeze(1)) % codes.NUM_POWERS)


def _cyclic_powers(power: Tensor) -> Tensor:
    """Return all powers [G, 7] in cyclic order from `power` [G] on."""
    return (power.unsqueeze(1) + torch.arange(codes.NUM_POWERS, device=power.device)) % codes.NUM_POWERS


def _ordered(state: State, units: Tensor, dislodged: Tensor) -> Tensor:
    """Return the provinces with an own unit to order, in retreats with an own dislodged one: bool [G, 75]."""
    moving = (state["phase"] == codes.SPRING) | (state["phase"] == codes.FALL)
    return torch.where(moving.unsqueeze(1), units, dislodged) == 0


def _adjusted(state: State, power: Tensor, own: Tensor, owed: Tensor) -> Tensor:
    """Return the provinces to build in, or with a unit of `own` to disband, by `owed` [G, 1]: bool [G, 75]."""
    centres = board_tensors(power.device).centres
    homes = torch.zeros_like(own)
    homes[:, centres] = free_homes(state["units"], state["owner"]) == power.unsqueeze(1)
    return torch.where(owed > 0, homes, own & (owed < 0))


def _numbers(own: Tensor) -> Tensor:
    """Number the slots `own` [G, 75] by province from 1, divided by the largest possible number."""
    return own * own.cumsum(1) / codes.SLOTS


def _whole(state: State, owed: Tensor, last_year: int) -> Tensor:
    """Return the columns that all rows share, [G, 20]: phase, years left, builds and disbands."""
    left = (last_year - state["year"].float()) / max(1, last_year - FIRST_YEAR)
    phase = one_hot(state["phase"], len(codes.PHASES))
    return torch.cat([phase, left.unsqueeze(1), owed.clamp_min(0) / codes.SLOTS, (-owed).clamp_min(0) / codes.SLOTS], 1)
