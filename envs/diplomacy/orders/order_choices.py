"""A fixed set of K = 37 order choices per unit, for policies that choose by number.

Choice 0 holds; 1 to 12 move to the places of the unit's row in `Tables.landings`; 13 to 24 support the own unit that
stays in a province of its row in `Tables.reach`; 25 to 36 support an own unit's move into such a province. Units are
counted by province, at most U = 17. A support whose unit chose otherwise becomes a hold.
Convoys and supports of other powers are left out.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.tensors import board_tensors
from sparring.envs.diplomacy.observation import AT

SIDES = 12
CHOICES = 1 + 3 * SIDES


def write_orders(choices: Tensor, rows: Tensor, orders: Tensor) -> None:
    """Write the packed orders of `choices` int64 [G, U] into `orders` int32 [G, 75], for the units of one power a game.

    `rows` int64 [G, 75] are the `Tables.landings` rows of its units, -1 elsewhere. Other entries stay as they are.
    """
    places, present = units_of(rows)
    board = board_tensors(orders.device)
    standing = rows.gather(1, places).clamp_min(0)
    landings, reach = board.landings[standing], board.reach[standing]
    kind, side = (choices - 1) // SIDES, (choices - 1) % SIDES
    target = torch.where(choices == 0, -1, landings.gather(2, side.clamp_min(0).unsqueeze(-1)).squeeze(-1))
    moves = present & (choices > 0) & (kind == 0) & (target >= 0)
    goal = torch.where(moves, board.province_of[target.clamp_min(0)], -1)
    helped = reach.gather(2, side.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    packed = torch.full_like(choices, codes.HOLD)
    packed = torch.where(moves, codes.MOVE | target.clamp_min(0) << codes.TARGET_SHIFT, packed)
    stays = torch.zeros_like(rows, dtype=torch.bool).scatter_(1, places, present & ~moves)
    supports = present & (kind == 1) & (choices > 0) & (helped >= 0) & stays.gather(1, helped.clamp_min(0))
    packed = torch.where(supports, codes.SUPPORT | helped.clamp_min(0) << codes.TARGET_SHIFT, packed)
    mover = _mover(goal, places, helped)
    joined = present & (kind == 2) & (choices > 0) & (mover >= 0)
    move = codes.SUPPORT_MOVE | helped.clamp_min(0) << codes.TARGET_SHIFT | mover.clamp_min(0) << codes.OTHER_SHIFT
    packed = torch.where(joined, move, packed)
    # Unused entries of `places` write back the old value, so one scatter works for any number of units.
    written = orders.long().scatter(1, places, torch.where(present, packed, orders.long().gather(1, places)))
    orders.copy_(written.to(orders.dtype))


def read_choices(orders: Tensor, rows: Tensor) -> Tensor:
    """Return the choices int64 [G, U] that `write_orders` writes as `orders` [G, 75], -1 for orders it cannot write.

    Those are convoys, moves by convoy, and supports of other powers. Unused entries are 0.
    """
    places, present = units_of(rows)
    board = board_tensors(orders.device)
    standing = rows.gather(1, places).clamp_min(0)
    packed = orders.long().gather(1, places)
    kind, target = packed & codes.KIND_MASK, packed >> codes.TARGET_SHIFT & codes.LOCATION_MASK
    other, via = packed >> codes.OTHER_SHIFT & codes.LOCATION_MASK, packed >> codes.VIA_SHIFT & 1
    landing = board.landings[standing] == target.unsqueeze(-1)
    side = (board.reach[standing] == board.province_of[target].unsqueeze(-1)).int()  # supports name no coast
    ours = rows >= 0
    moves = (kind == codes.MOVE) & (via == 0) & landing.any(-1)
    supports = (kind == codes.SUPPORT) & side.any(-1) & ours.gather(1, board.province_of[target])
    joined = (kind == codes.SUPPORT_MOVE) & side.any(-1) & ours.gather(1, other.clamp_max(codes.NUM_PROVINCES - 1))
    choices = torch.where(kind == codes.HOLD, 0, -1)
    choices = torch.where(moves, 1 + landing.int().argmax(-1), choices)
    choices = torch.where(supports, 1 + SIDES + side.argmax(-1), choices)
    choices = torch.where(joined, 1 + 2 * SIDES + side.argmax(-1), choices)
    return torch.where(present, choices, 0)


def rows_of(obs: Tensor) -> Tensor:
    """Return the `Tables.landings` rows int64 [G, 75] of the observer's units, -1 elsewhere; `obs`: observations."""
    forms = obs[..., AT["unit_form"]].argmax(-1, keepdim=True)
    rows = board_tensors(obs.device).rows.expand(len(obs), -1, -1).gather(-1, forms).squeeze(-1)
    return torch.where(obs[..., AT["unit_power"].start] > 0, rows, -1)


def units_of(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the provinces [G, U] of a power's units in order, and the mask [G, U] of entries in use."""
    order = (rows < 0).sort(dim=-1, stable=True)
    return order.indices[:, : codes.SLOTS], ~order.values[:, : codes.SLOTS]


def _mover(goal: Tensor, places: Tensor, helped: Tensor) -> Tensor:
    """Return the province of the first own unit that moves into `helped`, -1 for none; all [G, U]."""
    same = (goal.unsqueeze(1) == helped.unsqueeze(2)) & (helped >= 0).unsqueeze(2)  # [G, supporter, mover]
    first = same.float().argmax(-1)
    return torch.where(same.any(-1), places.gather(1, first), -1)
