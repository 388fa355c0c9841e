"""What one power may order in one phase, as a sequence of lines with exactly one sequence for every joint order.

A unit's orders do not depend on each other, so in movement and retreats there is one line for each unit, in the order
of the alphabet of their provinces. In winter as many lines as builds or disbands are due: the provinces rise from line
to line, and WAIVE is followed by nothing but WAIVE. The probability of a joint order is then the product of its lines'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.adjustments_due import due
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.board.codes import RETREATS
from sparring.envs.diplomacy.orders.notation import write_order
from sparring.envs.text import Option

WAIVE = "WAIVE"


@dataclass(frozen=True)
class Choices:
    """The options of every slot of one `power`; slots are `provinces`, rising, and an option's value is a packed order.

    `lines` says how many lines a complete answer has: one a slot, or in winter the builds (`winter` = 1) or disbands
    (`winter` = -1) that are due.
    """

    power: int
    provinces: tuple[int, ...]
    options: tuple[tuple[Option, ...], ...]
    lines: int
    winter: int = 0

    @property
    def independent(self) -> bool:
        """Whether lines do not depend on each other, as in movement and retreats."""
        return not self.winter

    @property
    def longest(self) -> int:
        """Characters of the longest line that may be written, at least those of a waived build."""
        return max(len(WAIVE), *(len(option.text) for slot in self.options for option in slot), 0)

    @property
    def name(self) -> str:
        """The power."""
        return POWERS[self.power]

    def menu(self, line: int, last: int = -1) -> tuple[Option, ...]:
        """The options of line number `line` after one for slot `last` (-1: none yet); in movement just its slot's."""
        if not self.winter:
            return self.options[line]
        if self.winter > 0:
            later = self.options[last + 1 :]
            return (*(option for slot in later for option in slot), Option(WAIVE, codes.NO_ORDER, len(self.options)))
        still = self.lines - line - 1
        return tuple(option for slot in self.options[last + 1 : len(self.options) - still] for option in slot)

    def write(self, chosen: Sequence[Option], orders: np.ndarray) -> None:
        """Put the chosen lines into a game's `orders` int32 [75]."""
        for option in chosen:
            if option.slot < len(self.provinces):
                orders[self.provinces[option.slot]] = option.value


def choices(row: Mapping[str, np.ndarray], listed: Mapping[int, np.ndarray], power: int) -> Choices:
    """What `power` may order, from a game's rows and its legal orders (`DiplomacyBatch.legal_orders`)."""
    winter = int(row["phase"]) == codes.WINTER
    units = row["dislodged" if int(row["phase"]) in RETREATS else "units"]
    owed = int(due(*(torch.from_numpy(row[name])[None] for name in ("units", "owner")))[0, power]) if winter else 0
    own = [place for place in sorted(listed) if _is_for(row, units, place, power, building=owed > 0)]
    slots = [_options(listed[place], place, int(units[place]), slot, winter) for slot, place in enumerate(own)]
    if not winter:
        return Choices(power, tuple(own), tuple(slots), len(own))
    if not owed:
        return Choices(power, (), (), 0)
    return Choices(power, tuple(own), tuple(slots), abs(owed), 1 if owed > 0 else -1)


def _is_for(row: Mapping[str, np.ndarray], units: np.ndarray, place: int, power: int, *, building: bool) -> bool:
    """Whether a listed province is one of the power's slots: its unit, or its free home centre where it builds."""
    if units[place]:
        return not building and int(units[place] - 1) % codes.NUM_POWERS == power
    return building and int(standard_board().home[place]) == power


@lru_cache(maxsize=1 << 16)
def _option(order: int, place: int, unit: int, slot: int) -> Option:
    return Option(write_order(order, place, unit), order, slot)


def _options(listed: np.ndarray, place: int, unit: int, slot: int, winter: bool) -> tuple[Option, ...]:
    """One slot's options; in winter without the one that does nothing."""
    orders = [order for order in listed.tolist() if not (winter and order == codes.NO_ORDER)]
    return tuple(_option(order, place, unit, slot) for order in orders)
