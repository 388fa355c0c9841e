"""Enter a power's orders as text into a game. Every line gets an answer; a mistake affects only its line.

A line that cannot be read, or is for a unit the power does not have there, is left out and reported; the unit then
holds. Of several lines for one unit, the first readable one counts, even if it is not legal. In winter, lines count in
the order written, until all due builds or disbands are made; other lines do not use them up. A line with an order of
another phase, or an illegal retreat or build, is left out and reported. A move in a retreat phase counts as the retreat
(DATC 6.H).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, location_name, standard_board
from sparring.envs.diplomacy.orders.notation import (
    Order,
    OrderError,
    as_retreat,
    place_unit,
    reached_from,
    read_order,
    without_army_coasts,
    write_order,
)

MOST_LINES = 500
"""Maximum lines read per power; it has at most 34 units, and a line takes about 100 microseconds."""


_RETREAT = (
    (codes.RETREAT, codes.DISBAND),
    "a retreat phase has only retreats and disbands, as in A PAR R BUR or A PAR D",
)
_KINDS = {
    codes.SPRING_RETREATS: _RETREAT,
    codes.FALL_RETREATS: _RETREAT,
    codes.WINTER: ((codes.BUILD, codes.DISBAND), "winter has only builds and disbands, as in A PAR B or A PAR D"),
}
"""Kinds of orders of each phase, and the problem of any other."""
_MOVEMENT = (
    (codes.HOLD, codes.MOVE, codes.SUPPORT, codes.SUPPORT_MOVE, codes.CONVOY),
    "spring and fall have only holds, moves, supports and convoys, as in A PAR - BUR",
)


@dataclass(frozen=True)
class Line:
    """One line as written, and its problem; empty if it was accepted."""

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
    origin: np.ndarray | None = None,
) -> list[Line]:
    """Write a power's `lines` into `orders` int32 [75]; the other arrays are that game's rows, as in the batch.

    Without `origin` a retreat to the attacker's province or to a contested one has no problem.
    Raises `InputError`, before anything is written, if `lines` is not a list of strings (a single string is refused).
    """
    if isinstance(lines, str) or not isinstance(lines, Sequence):
        raise InputError(f"lines={lines!r}: give a list of orders, one per line")
    for number, line in enumerate(lines):
        if not isinstance(line, str):
            raise InputError(f"lines[{number}]={line!r}: is not text; write an order such as 'A PAR - BUR'")
    marks = np.full_like(units, codes.NOTHING) if origin is None else origin
    ordered, closed = dislodged if phase in codes.RETREATS else units, (units > 0) | (marks == codes.CONTESTED)
    centres = standard_board().centres[owner == power].tolist()
    form = _OrderForm(orders, power, phase, ordered, codes.power_of(ordered), closed, marks, centres)
    due = len(centres) - int((codes.power_of(units) == power).sum()) if phase == codes.WINTER else None
    read = [Line(text, form.take(text, due)) for text in lines[:MOST_LINES]]
    return [
        *read,
        *(Line(text, f"line {MOST_LINES + 1} or later; the rest is cut") for text in lines[MOST_LINES:]),
    ]


@dataclass
class _OrderForm:
    """Checks and enters the lines of one power, one after the other.

    Attributes:
        orders: int32 [75], written into.
        power: power that gives the orders.
        phase: code of the phase.
        units: [75] units that are ordered: dislodged ones in retreats.
        owners: [75] their powers.
        closed: bool [75], provinces closed to retreats.
        origin: [75] provinces of the attackers.
        centres: provinces of the power's centres.
        taken: number of orders entered.

    """

    orders: np.ndarray
    power: int
    phase: int
    units: np.ndarray
    owners: np.ndarray
    closed: np.ndarray
    origin: np.ndarray
    centres: list[int]
    taken: int = 0

    def take(self, text: str, due: int | None) -> str:
        """Enter one line; return its problem, empty if accepted."""
        try:
            order = read_order(text)
            if order is None:
                return "" if due and due > 0 else f"order {text!r}: only builds can be waived, and none is due"
            if self.phase in codes.RETREATS:
                order = replace(order, order=as_retreat(order.order))
            wrong = self._wrong_kind(text, order) or (
                self._wrong_adjustment(text, order, due)
                if due is not None
                else self._wrong(order) or self._wrong_retreat(text, order)
            )
        except OrderError as error:
            return str(error)
        if not wrong:
            self.orders[order.province] = without_army_coasts(order.order, order.province, self.units)
            self.taken += 1
        return wrong

    def _wrong(self, order: Order) -> str:
        name = location_name(order.province)
        if self.owners[order.province] != self.power:
            return f"{POWERS[self.power]} cannot order a unit in {name}: none of its units stands there"
        if self.orders[order.province]:
            return f"the unit in {name} already has an order; the first one counts"
        return ""

    def _wrong_retreat(self, text: str, order: Order) -> str:
        """Return the problem of a retreat that the unit cannot make; of two coasts a fleet names one."""
        kind, target, _, _ = codes.unpack(without_army_coasts(order.order, order.province, self.units))
        if kind != codes.RETREAT:
            return ""
        unit, province_of = int(self.units[order.province]), standard_board().province_of
        reached = reached_from(unit, order.province)
        near = province_of[reached]
        goals = reached[~self.closed[near] & (near != self.origin[order.province])].tolist()
        # The coast that is in reach needs no name, though it is closed (DATC 4.B.2).
        alike = [goal for goal in reached.tolist() if target in (goal, province_of[goal])]
        if len(alike) == 1 and alike[0] in goals:
            return ""
        legal = [codes.pack(codes.DISBAND), *(codes.pack(codes.RETREAT, goal) for goal in goals)]
        words = ", ".join(write_order(choice, order.province, unit) for choice in legal)
        return f"order {text!r} is not legal now; legal there: {words}"

    def _wrong_kind(self, text: str, order: Order) -> str:
        kinds, words = _KINDS.get(self.phase, _MOVEMENT)
        return "" if order.order & codes.KIND_MASK in kinds else f"order {text!r}: {words}"

    def _wrong_adjustment(self, text: str, order: Order, due: int) -> str:
        builds = order.order & codes.KIND_MASK == codes.BUILD
        most = max(due if builds else -due, 0)
        if self.taken >= most:
            extra = "further " if most else ""
            return f"{POWERS[self.power]} has no {extra}{'build' if builds else 'disband'} to make"
        if not builds:
            return self._wrong(order)
        province, home = order.province, standard_board().home
        free = self.owners[province] < 0 and not self.orders[province]
        if home[province] != self.power or province not in self.centres or not free:
            return f"{location_name(province)} is not a free home centre of {POWERS[self.power]}"
        place_unit(text, self.power, order.letter, order.location)
        return ""
