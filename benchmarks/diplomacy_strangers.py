"""Two scripted players of Diplomacy that no search expects, to measure how it meets strangers.

`Raiders` send every unit to the nearest centre that is not theirs, each to a different one if there are enough. A unit
supports another of its power that already goes there. `Wall` keeps its units within reach of a foreign unit in place,
in support of each other. The rest go to the nearest foreign or neutral centre without a unit. Ties are drawn.

    python eval/run.py --env diplomacy --ckpt search:positions=2000 --opponents benchmarks.diplomacy_strangers:Wall
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.interfaces.opponents import OrderView
from sparring.envs.diplomacy.orders.notation import write_order
from sparring.envs.diplomacy.search.score import moves_to_centres

PROVINCE_OF = np.array(standard_board().province_of)
CENTRES = np.array(standard_board().centres)
MOVES = moves_to_centres()


class Stranger(ABC):
    """Common part of both: random retreats and adjustments, moves towards centres."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)

    def reseed(self, seed: int) -> None:
        """Restart the random numbers."""
        self.random = np.random.default_rng(seed)

    def act(self, view: OrderView) -> list[str]:
        """Return the orders as text."""
        phase, units = int(view.row["phase"]), view.row["units"]
        slots = {place: listed for place, listed in view.slots if len(listed)}
        if phase in (codes.SPRING, codes.FALL):
            orders = self.moves(POWERS.index(view.power), slots, units, view.row["owner"])
        else:
            orders = {place: self._any(listed[listed > 0]) for place, listed in slots.items()}
        if phase == codes.WINTER:
            power = POWERS.index(view.power)
            due = abs(int((view.row["owner"] == power).sum()) - int((codes.power_of(units) == power).sum()))
            orders = dict(list(orders.items())[:due])
        standing = view.row["dislodged"] if phase in codes.RETREATS else units
        return [write_order(order, place, int(standing[place])) for place, order in orders.items() if order]

    @abstractmethod
    def moves(
        self, power: int, slots: Mapping[int, np.ndarray], units: np.ndarray, owner: np.ndarray
    ) -> dict[int, int]:
        """Return the orders of a movement phase by province."""

    def _any(self, orders: np.ndarray) -> int:
        return int(self.random.choice(orders)) if len(orders) else 0

    def _towards(self, unit: int, listed: np.ndarray, goals: np.ndarray, taken: Mapping[int, int]) -> int:
        """Return the move that comes nearest to one of the centres `goals` bool [34], or a support of such a move."""
        plain = listed[(listed & codes.KIND_MASK == codes.MOVE) & (listed >> codes.VIA_SHIFT & 1 == 0)]
        if not len(plain) or not goals.any():
            return codes.HOLD
        to = plain >> codes.TARGET_SHIFT & codes.LOCATION_MASK
        kind = min((unit - 1) // codes.NUM_POWERS, 1)
        left = MOVES[kind, to][:, goals].min(1) + self.random.random(len(plain)) * 0.5
        for at in np.argsort(left):
            goal = int(PROVINCE_OF[to[at]])
            if goal not in taken:
                return int(plain[at])
            if (support := codes.pack(codes.SUPPORT_MOVE, goal, taken[goal])) in listed:
                return support
        return codes.HOLD


class Raiders(Stranger):
    """Every unit to the nearest foreign centre."""

    def moves(
        self, power: int, slots: Mapping[int, np.ndarray], units: np.ndarray, owner: np.ndarray
    ) -> dict[int, int]:
        """See `Stranger`."""
        orders: dict[int, int] = {}
        taken: dict[int, int] = {}
        foreign = owner != power
        for place in self.random.permutation(list(slots)).tolist():
            orders[place] = self._towards(int(units[place]), slots[place], foreign, taken)
            _take(orders[place], place, taken)
        return orders


class Wall(Stranger):
    """Units in reach of others stay together; the rest go to empty centres."""

    def moves(
        self, power: int, slots: Mapping[int, np.ndarray], units: np.ndarray, owner: np.ndarray
    ) -> dict[int, int]:
        """See `Stranger`."""
        holders = codes.power_of(units)
        orders: dict[int, int] = {}
        taken = {place: place for place in slots}  # nobody moves into an own unit's place
        open_centres = (owner != power) & (units[CENTRES] == 0)
        for place in self.random.permutation(list(slots)).tolist():
            listed = slots[place]
            kinds, targets = listed & codes.KIND_MASK, PROVINCE_OF[listed >> codes.TARGET_SHIFT & codes.LOCATION_MASK]
            goals = targets[kinds == codes.MOVE]
            beside = (holders[goals] >= 0) & (holders[goals] != power)
            friends = listed[(kinds == codes.SUPPORT) & (holders[targets] == power)]
            if beside.any():
                orders[place] = self._any(friends) or codes.HOLD
            else:
                orders[place] = self._towards(int(units[place]), listed, open_centres, taken)
            _take(orders[place], place, taken)
        return orders


def _take(order: int, place: int, taken: dict[int, int]) -> None:
    """Add the province that a unit goes to, with its origin, to `taken`."""
    kind, target, _, _ = codes.unpack(order)
    taken.setdefault(int(PROVINCE_OF[target]) if kind == codes.MOVE else place, place)
