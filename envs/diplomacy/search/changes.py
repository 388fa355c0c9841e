"""Changes of a power's orders that the ascent tries: other orders of one unit, or of units that belong together.

    one unit    a hold; every move by land or sea; support of an own unit's present order
    two units   a move and an own unit's support of it, where a foreign unit could oppose it
                a hold and an own unit's support of it, where a foreign unit could come
                a move into an own unit's place and that unit's move elsewhere
    or three    an army's move by convoy and the one or two own fleets that carry it

Supports of foreign units are left out. A change is a tuple of (province, packed order).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import torch

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import standard_board
from sparring.envs.diplomacy.board.tensors import board_tensors

Change = tuple[tuple[int, int], ...]


class OwnOrders:
    """Legal orders of one power's units, sorted for the search.

    `listed` are the legal orders of all units by province, `units` uint8 [75] the position's units.
    """

    def __init__(self, listed: Mapping[int, np.ndarray], units: np.ndarray, power: int) -> None:
        owners = codes.power_of(units)
        self.places = [int(province) for province in np.flatnonzero(owners == power) if int(province) in listed]
        self._province_of = standard_board().province_of
        self._alone: dict[int, list[int]] = {}
        self._helpers: dict[tuple[int, int], list[int]] = {}
        """Own units that can support a move (from, to), or a hold (province, province)."""
        self._carried: dict[tuple[int, int], int] = {}
        """Moves by convoy (from, to) with their orders."""
        self._carriers: dict[tuple[int, int], list[tuple[int, int]]] = {}
        """Own fleets and their orders that convoy (from, to)."""
        self._threatened = _in_reach(units, owners, power)
        provinces = set(self.places)
        for province in self.places:
            self._alone[province] = []
            for order in listed[province].tolist():
                self._sort_in(province, order, provinces)

    def changes(self, orders: np.ndarray) -> list[Change]:
        """Return the changes of `orders` int32 [75], each once."""
        single: Iterable[Change] = (
            ((province, order),)
            for province in self.places
            for order in self._single(province, orders)
            if order != orders[province]
        )
        return list(dict.fromkeys([*single, *self._supported(orders), *self._followed(orders), *self._convoys()]))

    def _sort_in(self, province: int, order: int, provinces: set[int]) -> None:
        kind, target, other, via = codes.unpack(order)
        goal = int(self._province_of[target])
        if kind == codes.MOVE and via:
            self._carried[province, goal] = order
        elif kind in (codes.HOLD, codes.MOVE):
            self._alone[province].append(order)
        elif kind == codes.SUPPORT and goal in provinces:
            self._helpers.setdefault((goal, goal), []).append(province)
        elif kind == codes.SUPPORT_MOVE and other in provinces:
            self._helpers.setdefault((other, goal), []).append(province)
        elif kind == codes.CONVOY and other in provinces:
            self._carriers.setdefault((other, goal), []).append((province, order))

    def _goal(self, province: int, order: int) -> int:
        """Return the province an order leads to, the own one unless it moves."""
        kind, target, _, _ = codes.unpack(order)
        return int(self._province_of[target]) if kind == codes.MOVE else province

    def _single(self, province: int, orders: np.ndarray) -> Iterator[int]:
        yield from self._alone[province]
        for friend in self.places:
            if friend != province:
                goal = self._goal(friend, int(orders[friend]))
                if province in self._helpers.get((friend, goal), ()):
                    yield _support(friend, goal)

    def _supported(self, orders: np.ndarray) -> Iterator[Change]:
        for province in self.places:
            for order in self._alone[province]:
                goal = self._goal(province, order)
                if order == orders[province] or not self._threatened[goal]:
                    continue  # supports of the order as it is are changes of one unit
                for helper in self._helpers.get((province, goal), ()):
                    yield (province, order), (helper, _support(province, goal))

    def _followed(self, orders: np.ndarray) -> Iterator[Change]:
        for province in self.places:
            for order in self._alone[province]:
                goal = self._goal(province, order)
                if goal != province and goal in self._alone and self._goal(goal, int(orders[goal])) in (goal, province):
                    for onward in self._alone[goal]:
                        if self._goal(goal, onward) not in (goal, province):
                            yield (province, order), (goal, onward)

    def _convoys(self) -> Iterator[Change]:
        for (army, goal), order in self._carried.items():
            fleets = self._carriers.get((army, goal), [])
            for fleet in fleets:
                yield (army, order), fleet
            for number, fleet in enumerate(fleets):
                for other in fleets[number + 1 :]:
                    yield (army, order), fleet, other


def unions(ranked: Iterable[Change], most: int) -> list[Change]:
    """Return at most `most` unions of the best changes that concern different units: of two, of three and so on."""
    union: dict[int, int] = {}
    joined: list[Change] = []
    for number, change in enumerate(ranked):
        if any(province in union for province, _ in change):
            continue
        union.update(change)
        if number and len(joined) < most:
            joined.append(tuple(union.items()))
    return joined


def apply(orders: np.ndarray, changes: Iterable[Change]) -> np.ndarray:
    """Return copies of `orders` [75], each with one of the changes, int32 [n, 75]."""
    listed = list(changes)
    rows = np.repeat(orders[None], len(listed), axis=0)
    at = [(number, province, order) for number, change in enumerate(listed) for province, order in change]
    number, province, order = np.array(at, dtype=np.int64).reshape(-1, 3).T
    rows[number, province] = order
    return rows


def _support(friend: int, goal: int) -> int:
    """Return the order that supports a unit's move, or its hold if the goal is its own place."""
    if friend == goal:
        return codes.pack(codes.SUPPORT, goal)
    return codes.pack(codes.SUPPORT_MOVE, goal, friend)


def _in_reach(units: np.ndarray, owners: np.ndarray, power: int) -> np.ndarray:
    """Return whether a foreign unit is in a province or could move there without a convoy, bool [75]."""
    board = board_tensors(torch.device("cpu"))
    places = np.flatnonzero((owners != power) & (owners >= 0))
    forms = (units[places].astype(np.int64) - 1) // codes.NUM_POWERS
    reached = np.zeros(codes.NUM_PROVINCES + 1, dtype=bool)  # the padding of neighbours, -1, falls into the last one
    reached[board.reach.numpy()[board.rows.numpy()[places, forms]]] = True
    reached[places] = True
    return reached[: codes.NUM_PROVINCES]
