"""Choices in all phases, for policies that also decide retreats and adjustments, numbered as in `order_choices.py`.

| phase | entries, by province | choice 0 | further choices |
| --- | --- | --- | --- |
| movement | own units | hold | moves and supports as in `order_choices.py` |
| retreats | own dislodged units | disband | 1 to 12: retreat to the place of its row in `Tables.landings` |
| builds | own free home centres | waive | 1 army, 2 fleet or fleet on the first coast, 3 on the second |
| disbands | own units | keep | 1 disband |

Builds are limited to the number due, disbands must equal it (`Due`). Everything is read from the observation `obs`,
float32 [G, 75, 74], of one power a game (`observe(retreats=True)`). U = 17 entries, K = 37 choices.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import INLAND
from sparring.envs.diplomacy.board.tensors import State, board_tensors, count_powers, due, power_of
from sparring.envs.diplomacy.observation import AT, RETREATS
from sparring.envs.diplomacy.orders.order_choices import CHOICES, SIDES, units_of, write_orders

ADJUSTMENTS = 3
"""Maximum choices besides 0 in winter."""


class Due(NamedTuple):
    """Adjustments of an observer: at most `number` int64 [G], or exactly where `exact` bool [G]; -1 outside winter."""

    number: Tensor
    exact: Tensor


def may_decide(state: State) -> Tensor:
    """Return which powers have an order to give, bool [G, 7], whether or not the games are over."""
    units, dislodged = (count_powers(power_of(state[name])) > 0 for name in ("units", "dislodged"))
    phase = state["phase"].unsqueeze(1)
    moving, winter = (phase == codes.SPRING) | (phase == codes.FALL), phase == codes.WINTER
    adjusts = due(state["units"], state["owner"]) != 0
    return torch.where(moving, units, torch.where(winter, adjusts, dislodged))


def deciding_rows(obs: Tensor) -> Tensor:
    """Return the `Tables.landings` rows int64 [G, 75] of the observer's units or homes to order, -1 elsewhere.

    A free home centre has the row of an army.
    """
    retreating = _in_phases(obs, *codes.RETREATS).unsqueeze(1)
    standing, dislodged = (obs[..., AT[name]].argmax(-1) for name in ("unit_form", "dislodged_form"))
    forms = torch.where(retreating, dislodged, standing).unsqueeze(-1)
    rows = board_tensors(obs.device).rows.expand(len(obs), -1, -1).gather(-1, forms).squeeze(-1)
    return torch.where(obs[..., AT["slot"].start] > 0, rows, -1)


def due_of(obs: Tensor) -> Due:
    """Return the adjustments that the observer makes."""
    builds, disbands = ((obs[:, 0, AT[name].start] * codes.SLOTS).round().long() for name in ("builds", "disbands"))
    winter = _in_phases(obs, codes.WINTER)
    return Due(torch.where(winter, builds + disbands, -1), winter & (disbands > 0))


def legal_choices(obs: Tensor, places: Tensor, present: Tensor, movement: Tensor) -> Tensor:
    """Return the mask of legal choices, bool [G, U, K]; choice 0 is always legal. `movement` is the mask of moves.

    Units are in `places` [G, U] where `present`. The mask does not limit the number of adjustments (`Due`).
    """
    board = board_tensors(obs.device)
    retreats = obs[..., RETREATS].gather(1, places.unsqueeze(-1).expand(-1, -1, SIDES)) > 0
    builds = (due_of(obs).exact.logical_not()).unsqueeze(1)
    coasts = board.rows[places]
    fleet = builds & (board.terrain[places] != INLAND)
    adjustments = torch.stack([torch.ones_like(fleet), fleet, fleet & (coasts[..., 2] != coasts[..., 3])], dim=-1)
    retreating, winter = _in_phases(obs, *codes.RETREATS), _in_phases(obs, codes.WINTER)
    legal = torch.where(retreating[:, None, None], _padded(retreats), movement)
    legal = torch.where(winter[:, None, None], _padded(adjustments), legal)
    return torch.cat([torch.ones_like(legal[..., :1]), legal[..., 1:] & present.unsqueeze(-1)], dim=-1)


def write_decisions(choices: Tensor, obs: Tensor, orders: Tensor) -> None:
    """Write the packed orders of `choices` int64 [G, U] into `orders` int32 [G, 75]; other entries stay as they are."""
    rows, board = deciding_rows(obs), board_tensors(obs.device)
    retreating, winter = (_in_phases(obs, *which).unsqueeze(1) for which in (codes.RETREATS, (codes.WINTER,)))
    write_orders(choices, rows.masked_fill(retreating | winter, -1), orders)
    places, present = units_of(rows)
    landings = board.landings[rows.gather(1, places).clamp_min(0)]
    target = landings.gather(2, (choices - 1).clamp(0, SIDES - 1).unsqueeze(-1)).squeeze(-1)
    leaves = (choices > 0) & (choices <= SIDES) & (target >= 0)
    retreat = torch.where(leaves, codes.RETREAT | target.clamp_min(0) << codes.TARGET_SHIFT, codes.DISBAND)
    coast = board.rows[places].gather(2, choices.clamp(0, ADJUSTMENTS).unsqueeze(-1)).squeeze(-1)
    build = torch.where(
        choices == 1,
        codes.BUILD | places << codes.TARGET_SHIFT,
        codes.BUILD | coast - codes.NUM_LOCATIONS << codes.TARGET_SHIFT | 1 << codes.OTHER_SHIFT,
    )
    adjustment = torch.where(due_of(obs).exact.unsqueeze(1), codes.DISBAND, build)
    adjustment = adjustment.masked_fill((choices < 1) | (choices > ADJUSTMENTS), codes.NO_ORDER)
    before = orders.long().gather(1, places)
    packed = torch.where(winter, adjustment, retreat)
    written = orders.long().scatter(1, places, torch.where(present & (retreating | winter), packed, before))
    orders.copy_(written.to(orders.dtype))


def _in_phases(obs: Tensor, *phases: int) -> Tensor:
    """Return which games are in one of the phases, bool [G]."""
    return torch.stack([obs[:, 0, AT["phase"].start + phase] > 0 for phase in phases]).any(0)


def _padded(choices: Tensor) -> Tensor:
    """Return a mask of choices 1 to n, bool [G, U, n], as one of all K, with choice 0."""
    return F.pad(F.pad(choices, (1, 0), value=True), (0, CHOICES - 1 - choices.shape[-1]))
