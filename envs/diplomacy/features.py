"""What one power sees of a game as numbers, the same for every power: its own things are "ours", the others' "theirs".

An observation is P x FEATURES numbers, province by province, and then GLOBALS for the whole: 75 x 9 + 9 = 684.

| per province | |
| --- | --- |
| 0 | 1 + the row of our unit in `Tables.landings` (its location, 81 more for a fleet); 0 where we have none |
| 1 to 4 | our army, our fleet, their army, their fleet |
| 5 to 8 | a centre of ours, of theirs, of nobody; a home centre of ours |

| whole | |
| --- | --- |
| 0 to 6 | which power we are |
| 7 | whether it is fall |
| 8 | years gone, of ten |
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from envs.diplomacy import codes
from envs.diplomacy.board import standard_board
from envs.diplomacy.state import board_tables

FEATURES, GLOBALS = 9, 9
OBS_DIM = codes.NUM_PROVINCES * FEATURES + GLOBALS


@cache
def board_arrays() -> dict[str, Tensor]:
    """The board as tensors: `near` [P, P] takes means over neighbours, `province_of` [L].

    `landings` and `reach` [162, 12] are those of `Tables`; `goals` are the provinces of the landings.
    """
    tables = board_tables(standard_board())
    fleets = torch.as_tensor(tables["fleet_next"]).bool()
    province_of = torch.as_tensor(tables["province_of"]).long()
    near = torch.as_tensor(tables["army_next"]).bool().clone()
    here, there = fleets.nonzero(as_tuple=True)
    near[province_of[here], province_of[there]] = True
    landings = torch.as_tensor(tables["landings"]).long()
    return {
        "near": near.float() / near.sum(-1, keepdim=True),
        "landings": landings,
        "goals": torch.where(landings >= 0, province_of[landings.clamp_min(0)], -1),
        "reach": torch.as_tensor(tables["reach"]).long(),
        "province_of": province_of,
    }


def observe(units: Tensor, owner: Tensor, year: Tensor, phase: Tensor, power: Tensor) -> Tensor:
    """Observations [G, D] of games with `units` [G, 75], `owner` [G, 34], as the `power` [G] sees each of them."""
    games, device = len(units), units.device
    code = units.long()
    whose, form = (code - 1) % codes.NUM_POWERS, (code - 1) // codes.NUM_POWERS
    there, mine = code > 0, (code > 0) & ((code - 1) % codes.NUM_POWERS == power.unsqueeze(1))
    seen = torch.zeros(games, codes.NUM_PROVINCES, FEATURES, device=device)
    seen[:, :, 0] = torch.where(mine, 1 + _rows(form), 0).float()
    theirs = there & (whose != power.unsqueeze(1))
    for column, (side, fleet) in enumerate([(mine, False), (mine, True), (theirs, False), (theirs, True)], start=1):
        seen[:, :, column] = (side & ((form > 0) == fleet)).float()
    _see_centres(seen, owner.long(), power)
    whole = torch.zeros(games, GLOBALS, device=device)
    whole.scatter_(1, power.unsqueeze(1), 1.0)
    whole[:, 7] = (phase == codes.FALL).float()
    whole[:, 8] = (year.float() - 1901.0) / 10.0
    return torch.cat([seen.flatten(1), whole], dim=1)


def _rows(form: Tensor) -> Tensor:
    """Rows [G, 75] in `Tables.landings` of units of these forms, each in its province."""
    board = standard_board()
    provinces = torch.arange(codes.NUM_PROVINCES, device=form.device)
    first = torch.tensor([min(coasts, default=0) for coasts in board.coasts_of], device=form.device)
    location = torch.where(form < 2, provinces, first + form - 2)
    return torch.where(form > 0, location + codes.NUM_LOCATIONS, location)


def _see_centres(seen: Tensor, owner: Tensor, power: Tensor) -> None:
    board = standard_board()
    centres = torch.as_tensor(board.centres.copy(), device=seen.device).long()
    home = torch.as_tensor(board.home.copy(), device=seen.device).long()
    ours = owner == power.unsqueeze(1)
    seen[:, centres, 5] = ours.float()
    seen[:, centres, 6] = ((owner >= 0) & ~ours).float()
    seen[:, centres, 7] = (owner < 0).float()
    seen[:, :, 8] = (home.unsqueeze(0) == power.unsqueeze(1)).float()
