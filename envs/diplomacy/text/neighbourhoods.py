"""Surroundings of a power's units: places each could move to by itself, their occupants, and possible attackers.

Support and convoys are left out: a window combines the board's adjacency with the position. `prompts.py` writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import NOTHING, POWERS, location_name, standard_board
from sparring.envs.diplomacy.board.codes import RETREATS
from sparring.envs.diplomacy.orders.notation import LETTERS, unit_location

NO_CENTRE = -2
"""Owner of a place without a supply centre."""


@dataclass(frozen=True)
class Neighbour:
    """A place next to a unit: its location, the owner of its centre, and the unit there, such as "A GERMANY"."""

    location: int
    owner: int
    unit: str

    @property
    def owner_name(self) -> str:
        """The power, "nobody" for an unowned centre, or an empty string without a centre."""
        if self.owner == NO_CENTRE:
            return ""
        return POWERS[self.owner] if self.owner >= 0 else "nobody"


@dataclass(frozen=True)
class Window:
    """Surroundings of a unit: locations it could move to by itself, ascending, and provinces of possible attackers.

    The neighbours of a dislodged unit include all its retreats, and its threats are those to its former province.
    """

    province: int
    neighbours: tuple[Neighbour, ...]
    threats: tuple[int, ...]


def windows(row: Mapping[str, np.ndarray], power: int) -> tuple[Window, ...]:
    """Return the windows of the units of `power` with orders in this phase, by province, from a game's rows."""
    mine = row["dislodged" if int(row["phase"]) in RETREATS else "units"]
    places = np.flatnonzero(codes.power_of(mine) == power).tolist()
    return tuple(
        Window(place, _neighbours(row, int(mine[place]), place), _threats(row["units"], place, power))
        for place in places
    )


def _neighbours(row: Mapping[str, np.ndarray], unit: int, place: int) -> tuple[Neighbour, ...]:
    board, units = standard_board(), row["units"]
    found = []
    for location in _reach(unit, place):
        province = int(board.province_of[location])
        centre = int(board.centre_of[province])
        owner = NO_CENTRE if centre == NOTHING else int(row["owner"][centre])
        found.append(Neighbour(location, owner, _occupant(int(units[province]))))
    return tuple(found)


def _reach(unit: int, place: int) -> list[int]:
    """Return the locations that the unit with this code, in a province, can move to by itself."""
    board, army = standard_board(), (unit - 1) // codes.NUM_POWERS == codes.ARMY_FORM
    row = board.army_neighbours[place] if army else board.fleet_neighbours[unit_location(unit, place)]
    return [location for location in row.tolist() if location != NOTHING]


def _occupant(unit: int) -> str:
    if not unit:
        return ""
    form, power = divmod(unit - 1, codes.NUM_POWERS)
    return f"{LETTERS[min(form, 1)]} {POWERS[power]}"


def _threats(units: np.ndarray, place: int, power: int) -> tuple[int, ...]:
    """Return the provinces of other powers' units that could move to a province."""
    board, found = standard_board(), []
    for other in np.flatnonzero(units).tolist():
        unit = int(units[other])
        hostile = (unit - 1) % codes.NUM_POWERS != power
        if hostile and any(int(board.province_of[location]) == place for location in _reach(unit, other)):
            found.append(other)
    return tuple(found)


def window_words(window: Window, *, compact: bool) -> str:
    """Return a window as text: "PIC, BRE (FRANCE), BUR (A GERMANY); threatened from BUR", or its shortest form."""
    threats = " ".join(location_name(place) for place in window.threats)
    if compact:
        words = [" ".join(_facts(neighbour)) for neighbour in window.neighbours]
        return " ".join([*words, *(["by", threats] if threats else [])])
    places = []
    for neighbour in window.neighbours:
        name, *facts = _facts(neighbour)
        places.append(f"{name} ({', '.join(facts)})" if facts else name)
    return ", ".join(places) + (f"; threatened from {threats}" if threats else "")


def _facts(neighbour: Neighbour) -> list[str]:
    return [word for word in (location_name(neighbour.location), neighbour.owner_name, neighbour.unit) if word]
