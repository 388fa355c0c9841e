"""A game of the `diplomacy` package in parallel to one of ours: same position, same orders, comparable views.

The package (https://github.com/diplomacy/diplomacy, AGPL) is called and never copied: it is a dependency of tests and
measurements only. A `View` is compared, in notation that both share: units such as "F STP/SC", provinces, phases
such as "S1901M".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.orders.notation import write_order, write_unit

Units = frozenset[tuple[str, str]]  # a power and its unit


@dataclass(frozen=True)
class View:
    """Result of a phase."""

    dislodged: Units
    """dislodged in the movement phase just over"""
    units: Units
    retreating: Units
    """dislodged units with a legal retreat"""
    centres: frozenset[tuple[str, str]]
    phase: str
    """the next phase; "over" after a solo"""

    def differs(self, other: View) -> list[str]:
        """Return the names of differing fields."""
        names = [field.name for field in fields(self)]
        return [name for name in names if getattr(self, name) != getattr(other, name)]


def owned(row: np.ndarray) -> Units:
    """Return the units in a row of unit codes [75]."""
    found = [(int(province), int(row[province])) for province in np.flatnonzero(row)]
    return frozenset((POWERS[(code - 1) % codes.NUM_POWERS], write_unit(code, place)) for place, code in found)


def written(orders: np.ndarray, units: np.ndarray, dislodged: np.ndarray, phase: np.ndarray) -> dict[str, list[str]]:
    """Return a row of orders [75] as text, by power."""
    lines: dict[str, list[str]] = {}
    for place in map(int, np.flatnonzero(orders)):
        order = int(orders[place])
        unit = int((dislodged if int(phase) in codes.RETREATS else units)[place])
        builds = order & codes.KIND_MASK == codes.BUILD
        power = int(standard_board().home[place]) if builds else (unit - 1) % codes.NUM_POWERS
        lines.setdefault(POWERS[power], []).append(write_order(order, place, unit))
    return lines


class Games:
    """Rows of a batch as numpy arrays that share its memory, and their views."""

    def __init__(self, batch: DiplomacyBatch) -> None:
        self.batch = batch
        names = ("units", "dislodged", "origin", "owner", "year", "phase", "winner", "done", "orders", "results")
        self.rows: dict[str, np.ndarray] = {name: getattr(batch, name).numpy() for name in names}

    def phase(self, game: int) -> str:
        """Return the name of the next phase."""
        if self.rows["winner"][game] >= 0:
            return "over"
        return codes.phase_name(int(self.rows["year"][game]), int(self.rows["phase"][game]))

    def standing(self, game: int) -> Units:
        """Return the units on the board."""
        return owned(self.rows["units"][game])

    def written(self, game: int) -> dict[str, list[str]]:
        """Return the orders as text, by power."""
        return written(*(self.rows[name][game] for name in ("orders", "units", "dislodged", "phase")))

    def view(self, game: int, before: np.ndarray, moved: bool) -> View:
        """Return the view after a phase that began with the units `before` [75]; tells movement from other phases."""
        lost = np.where((self.rows["results"][game] >= codes.DISLODGED_FLAG) & moved, before, 0)
        return View(
            dislodged=owned(lost),
            units=owned(self.rows["units"][game]),
            retreating=owned(self.rows["dislodged"][game]),
            centres=self.centres(game),
            phase=self.phase(game),
        )

    def centres(self, game: int) -> frozenset[tuple[str, str]]:
        """Return the centres of each power."""
        board, owner = standard_board(), self.rows["owner"][game]
        names = [board.provinces[province] for province in board.centres]
        return frozenset((POWERS[power], name) for power, name in zip(owner, names, strict=True) if power >= 0)


class Peer:
    """One game of the package."""

    def __init__(self) -> None:
        from diplomacy import Game

        self.game: Any = Game()

    def place(self, units: Units, centres: Iterable[tuple[str, str]], phase: str) -> None:
        """Start a movement or adjustment phase with this position."""
        self.game.clear_units()
        self.game.clear_centers()
        self.game.set_current_phase(phase)
        for power in POWERS:
            self.game.set_units(power, [unit for owner, unit in units if owner == power], reset=True)
            self.game.set_centers(power, [place for owner, place in centres if owner == power], reset=True)
        self.game.clear_orders()
        self.game.build_caches()

    def legal(self) -> dict[str, list[str]]:
        """Return the legal orders by the location of the unit."""
        return {place: orders for place, orders in self.game.get_all_possible_orders().items() if orders}

    def order(self, written: dict[str, list[str]]) -> list[str]:
        """Set the orders of all powers; return the complaints."""
        for power, lines in written.items():
            self.game.set_orders(power, lines)
        complaints = [str(error) for error in self.game.error]
        self.game.error = []
        return complaints

    def process(self) -> View:
        """Process the phase; return its view."""
        results = self.game.process().results
        powers = self.game.powers
        owners = {unit: power for power in POWERS for unit in self._stood(power)}
        dislodged = [unit for unit, marks in results.items() if any(str(mark) == "dislodged" for mark in marks)]
        return View(
            dislodged=frozenset((owners[unit], unit) for unit in dislodged),
            units=frozenset((power, unit) for power in POWERS for unit in powers[power].units),
            retreating=frozenset((power, unit) for power in POWERS for unit in powers[power].retreats),
            centres=frozenset((power, place) for power in POWERS for place in powers[power].centers),
            phase="over" if self.game.is_game_done else self.game.current_short_phase,
        )

    def _stood(self, power: str) -> list[str]:
        """Return the units of a power before the last phase."""
        return self.game.state_history.last_value()["units"][power]
