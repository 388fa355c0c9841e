"""Legal orders of one power in one phase, as lines with exactly one sequence for every joint order.

Orders of different units are independent, so in movement and retreats there is one line for each unit, in alphabetical
order of their provinces. In winter there is a line for each build or disband that is due: the provinces ascend from
line to line, and WAIVE is followed by WAIVE only. The probability of a joint order is the product of its lines'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.board.tensors import due
from sparring.envs.diplomacy.orders.notation import write_order
from sparring.envs.text import Option

WAIVE = "WAIVE"


@dataclass(frozen=True)
class Choices:
    """Options of every slot of one `power`; slots are ascending `provinces`, and an option's value is a packed order.

    `lines` is the number of lines of a complete answer: one a slot, or in winter the builds (`winter` = 1) or disbands
    (`winter` = -1) that are due.
    """

    power: int
    provinces: tuple[int, ...]
    options: tuple[tuple[Option, ...], ...]
    lines: int
    winter: int = 0

    @property
    def independent(self) -> bool:
        """True if lines do not depend on each other, as in movement and retreats."""
        return not self.winter

    @property
    def longest(self) -> int:
        """Number of characters of the longest legal line, at least those of a waived build."""
        return max(len(WAIVE), *(len(option.text) for slot in self.options for option in slot), 0)

    @property
    def name(self) -> str:
        """Name of the power."""
        return POWERS[self.power]

    def menu(self, line: int, last: int = -1) -> tuple[Option, ...]:
        """Return the options of line `line` after a line for slot `last` (-1: none); in movement those of its slot."""
        if not self.winter:
            return self.options[line]
        if self.winter > 0:
            later = self.options[last + 1 :]
            return (*(option for slot in later for option in slot), Option(WAIVE, codes.NO_ORDER, len(self.options)))
        still = self.lines - line - 1
        return tuple(option for slot in self.options[last + 1 : len(self.options) - still] for option in slot)

    def write(self, chosen: Sequence[Option], orders: np.ndarray) -> None:
        """Write the chosen options into a game's `orders` int32 [75]."""
        for option in chosen:
            if option.slot < len(self.provinces):
                orders[self.provinces[option.slot]] = option.value


def choices(row: Mapping[str, np.ndarray], listed: Mapping[int, np.ndarray], power: int) -> Choices:
    """Return the choices of `power`, from a game's rows and its legal orders (`DiplomacyBatch.legal_orders`)."""
    winter = int(row["phase"]) == codes.WINTER
    units = row["dislodged" if int(row["phase"]) in codes.RETREATS else "units"]
    owed = int(due(*(torch.from_numpy(row[name])[None] for name in ("units", "owner")))[0, power]) if winter else 0
    provinces = [province for province in sorted(listed) if _is_for(units, province, power, building=owed > 0)]
    slots = [_options(listed[at], at, int(units[at]), slot, winter) for slot, at in enumerate(provinces)]
    if not winter:
        return Choices(power, tuple(provinces), tuple(slots), len(provinces))
    if not owed:
        return Choices(power, (), (), 0)
    return Choices(power, tuple(provinces), tuple(slots), abs(owed), 1 if owed > 0 else -1)


def _is_for(units: np.ndarray, province: int, power: int, *, building: bool) -> bool:
    """Return whether a listed province is a slot of the power: its unit, or for builds its free home centre."""
    if units[province]:
        return not building and int(units[province] - 1) % codes.NUM_POWERS == power
    return building and int(standard_board().home[province]) == power


@lru_cache(maxsize=1 << 16)
def _option(order: int, province: int, unit: int, slot: int) -> Option:
    return Option(write_order(order, province, unit), order, slot)


def _options(listed: np.ndarray, province: int, unit: int, slot: int, winter: bool) -> tuple[Option, ...]:
    """Return one slot's options, in winter without the empty order."""
    orders = [order for order in listed.tolist() if not (winter and order == codes.NO_ORDER)]
    return tuple(_option(order, province, unit, slot) for order in orders)
