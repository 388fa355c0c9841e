"""Orders a power has written, put into a game: every line is answered, and a mistake in one spoils no other.

A line that cannot be read, or is for a unit the power does not have there, is left out and reported; the unit then has
no order and holds. Of several lines for one unit the first that can be read counts, even where it is not legal. In
winter lines count in the order written, until all builds or disbands that are due are made; one that builds or disbands
nothing takes up none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, location_name, standard_board
from sparring.envs.diplomacy.orders.notation import Order, OrderError, place_unit, read_order


@dataclass(frozen=True)
class Line:
    """One line as it was written, and what was wrong with it; empty where nothing was."""

    text: str
    problem: str


def submit(
    orders: np.ndarray,
    lines: Sequence[str],
    *,
    power: int,
    units: np.ndarray,
    dislodged: np.ndarray,
    owner: np.ndarray,
    phase: int,
) -> list[Line]:
    """Write a power's `lines` into `orders` int32 [75]; the other arrays are that game's rows, as in the batch.

    Raises `InputError` where `lines` is no list of texts, such as one text, and then has written nothing.
    """
    if isinstance(lines, str) or not isinstance(lines, Sequence):
        raise InputError(f"lines={lines!r}: give a list of orders, one a line")
    for number, line in enumerate(lines):
        if not isinstance(line, str):
            raise InputError(f"lines[{number}]={line!r}: is no text; write an order such as 'A PAR - BUR'")
    desk = _Desk(orders, power, {codes.SPRING: units, codes.FALL: units, codes.WINTER: units}.get(phase, dislodged))
    due = _due(power, units, owner) if phase == codes.WINTER else None
    return [Line(text, desk.take(text, due)) for text in lines]


def _due(power: int, units: np.ndarray, owner: np.ndarray) -> int:
    """Builds due in winter; below zero, disbands."""
    return int((owner == power).sum() - (codes.power_of(units) == power).sum())


class _Desk:
    """Takes lines one after the other."""

    def __init__(self, orders: np.ndarray, power: int, units: np.ndarray) -> None:
        self.orders, self.power, self.owners = orders, power, codes.power_of(units)
        self.taken = 0

    def take(self, text: str, due: int | None) -> str:
        """Write an order down; returns what is wrong with it."""
        try:
            order = read_order(text)
            if order is None:
                return ""
            wrong = self._wrong(order) if due is None else self._wrong_in_winter(text, order, due)
        except OrderError as error:
            return str(error)
        if not wrong:
            self.orders[order.province] = order.order
            self.taken += 1
        return wrong

    def _wrong(self, order: Order) -> str:
        here = location_name(order.province)
        if self.owners[order.province] != self.power:
            return f"{POWERS[self.power]} has no unit in {here} that could be ordered"
        if self.orders[order.province]:
            return f"the unit in {here} has an order already; the first one counts"
        return ""

    def _wrong_in_winter(self, text: str, order: Order, due: int) -> str:
        kind = order.order & codes.KIND_MASK
        if kind not in (codes.BUILD, codes.DISBAND):
            return f"order {text!r}: winter has builds and disbands alone, as in A PAR B or A PAR D"
        builds = kind == codes.BUILD
        most = max(due if builds else -due, 0)
        if self.taken >= most:
            further = "further " if most else ""
            return f"{POWERS[self.power]} has no {further}{'build' if builds else 'disband'} to make"
        if not builds:
            return self._wrong(order)
        here, board = order.province, standard_board()
        if board.home[here] != self.power or self.owners[here] >= 0 or self.orders[here]:
            return f"{location_name(here)} is no free home centre of {POWERS[self.power]}"
        place_unit(text, self.power, order.letter, order.location)
        return ""
