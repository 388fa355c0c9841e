"""Related random orders: supports of moves that are ordered, convoys that are used, attacks on both.

Orders drawn uniformly rarely interact: one support in ten fits a move, and convoys hardly occur. Here every unit draws
from all its legal orders with weights that depend on the current orders of the others. A few units at a time are
redrawn until all orders fit (Gibbs sampling). A style holds the weights of each kind of fit.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from functools import cache

import numpy as np

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import SEA, standard_board


@dataclass(frozen=True)
class Style:
    """Weights of an order: first the basic ones, then factors for orders that fit others."""

    hold: float = 1.0
    move: float = 1.0
    support: float = 0.1
    convoy: float = 0.02
    to_sea: float = 1.0
    """a fleet's move to sea"""
    attack: float = 3.0
    """a move into a place where a unit stands"""
    raid: float = 6.0
    """a move into the place of a unit that supports or convoys"""
    fit: float = 20.0
    """a support of what the unit does"""
    ferry: float = 60.0
    """a convoy of an army that goes there"""
    embark: float = 40.0
    """a move for which a fleet has a convoy order"""


STYLES = {
    "moves": Style(move=4.0, fit=4.0),
    "supports": Style(move=0.6, fit=40.0),
    "convoys": Style(move=0.7, to_sea=8.0, raid=12.0, ferry=200.0, embark=120.0),
}


@cache
def fields(order: int) -> tuple[int, int, int, bool]:
    """Return kind, target province, other province and via of an order."""
    kind, target, other, via = codes.unpack(order)
    where = standard_board().province_of
    return kind, int(where[target]), int(where[other]), via


def meaning(order: int) -> tuple[int, int, int, bool]:
    """Return the same key for every spelling of an order: coasts count in moves only, the other province if used."""
    kind, target, other, via = fields(order)
    place = codes.unpack(order)[1] if kind == codes.MOVE else target
    return kind, place, other if kind in (codes.SUPPORT_MOVE, codes.CONVOY) else 0, via


class Weaver:
    """Sampler of orders for one game's movement phase, from `legal`: packed orders by province."""

    def __init__(self, legal: dict[int, list[int]], units: np.ndarray, style: Style, chance: random.Random) -> None:
        self.legal, self.style, self.chance = legal, style, chance
        self.units = {int(place): int(units[place]) for place in np.flatnonzero(units)}
        self.chosen = {place: chance.choice(orders) for place, orders in legal.items()}

    def weave(self, sweeps: int = 3) -> dict[int, int]:
        """Return orders by province after `sweeps` sweeps over all units."""
        for _ in range(sweeps):
            places = list(self.legal)
            self.chance.shuffle(places)
            for place in places:
                self.choose(place)
        return self.chosen

    def choose(self, place: int) -> None:
        """Redraw the order of one unit."""
        ferried = self.wanted(place)
        weights = [self.weight(place, order, ferried) for order in self.legal[place]]
        self.chosen[place] = self.chance.choices(self.legal[place], weights)[0]

    def wanted(self, place: int) -> Counter[int]:
        """Return the goals for which fleets have orders to convoy the army in a place."""
        read = [fields(order) for order in self.chosen.values()]
        return Counter(target for kind, target, other, _ in read if kind == codes.CONVOY and other == place)

    def weight(self, place: int, order: int, ferried: Counter[int]) -> float:
        """Return the weight of an order of the unit in a place."""
        kind, target, other, via = fields(order)
        if kind == codes.HOLD:
            return self.style.hold
        if kind == codes.MOVE:
            return self.weight_of_move(place, target, via, ferried)
        theirs = fields(self.chosen[other if kind != codes.SUPPORT else target])
        if kind == codes.CONVOY:
            fits = theirs[:2] == (codes.MOVE, target) and (theirs[3] or not _marches(other, target))
            return self.style.ferry if fits else self.style.convoy
        fits = theirs[:2] == (codes.MOVE, target) if kind == codes.SUPPORT_MOVE else theirs[0] != codes.MOVE
        return self.style.fit if fits else self.style.support

    def weight_of_move(self, place: int, target: int, via: bool, ferried: Counter[int]) -> float:
        """Return the weight of a move."""
        if via:
            return self.style.embark * ferried[target] if ferried[target] else self.style.convoy
        if target not in self.units:
            fleet_goes_to_sea = standard_board().terrain[target] == SEA
            return self.style.move * (self.style.to_sea if fleet_goes_to_sea else 1.0)
        if self.power(place) == self.power(target):
            return self.style.move
        busy = fields(self.chosen[target])[0] in (codes.SUPPORT, codes.SUPPORT_MOVE, codes.CONVOY)
        return self.style.raid if busy else self.style.attack

    def power(self, place: int) -> int:
        """Return the power of the unit in a place."""
        return (self.units[place] - 1) % codes.NUM_POWERS


def _marches(here: int, there: int) -> bool:
    return bool(standard_board().army_next[here, there])
