"""Random crowded positions around a few seas, with interacting orders: convoys, attacks on fleets, supports.

Drawn like this, one position in a few holds a paradox or a ring, which games hardly ever see.
"""

import random
from functools import cache

import numpy as np

from benchmarks.diplomacy_peers.voyages import sailing, shore
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import SEA, standard_board

BOARD = standard_board()
SEAS = [int(sea) for sea in np.flatnonzero(BOARD.terrain == SEA)]


class Crowd:
    """Units and orders, [75] each, of one position."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.units = np.zeros(codes.NUM_PROVINCES, dtype=np.uint8)
        self.orders = np.zeros(codes.NUM_PROVINCES, dtype=np.int32)
        self.powers = chance.sample(range(codes.NUM_POWERS), chance.randint(2, 5))
        self.gather()
        self.sail(chance.uniform(0.2, 0.8))
        self.march(chance.uniform(0.3, 0.8))
        self.support()

    def gather(self) -> None:
        """Place fleets on a few adjacent seas, and units of both kinds on the land around, 34 at most."""
        seas = {self.chance.choice(SEAS)}
        for _ in range(self.chance.randint(1, 6)):
            seas.add(self.chance.choice(sorted({n for sea in seas for n in neighbours(sea) if n in SEAS} or seas)))
        near = {place for sea in seas for place in neighbours(sea)} - seas
        far = {place for here in near for place in neighbours(here)} - seas - near
        share = self.chance.uniform(0.5, 1.0)
        ring = self.chance.sample(sorted(near), len(near)) + self.chance.sample(sorted(far), len(far))
        for place in [*sorted(seas), *(place for place in ring if self.chance.random() < share)][: codes.MAX_UNITS]:
            self.units[place] = codes.unit_code(self.chance.choice(self.powers), self.form(place))

    def form(self, place: int) -> int:
        """Place an army, or a fleet on one of its coasts."""
        terrain, coasts = BOARD.terrain[place], BOARD.coasts_of[place]
        if terrain == SEA:
            return codes.FLEET_FORM
        if terrain == 0 or self.chance.random() < 0.7:
            return codes.ARMY_FORM
        return codes.FLEET_FORM + (self.chance.randint(1, 2) if coasts else 0)

    def sail(self, eager: float) -> None:
        """Order armies on the shore to move by convoy, and (most of) the fleets along one route to convoy them."""
        armies = [place for place in self.places() if self.units[place] <= codes.NUM_POWERS and shore(place)]
        for army in self.chance.sample(armies, len(armies)):
            way = self.voyage(army) if self.chance.random() < eager else []
            goals = [coast for coast in shores(way[-1]) if coast != army] if way else []
            if not goals:
                continue
            goal = self.chance.choice([coast for coast in goals if self.is_foreign(coast, army)] or goals)
            self.orders[army] = codes.pack(codes.MOVE, goal, via=self.chance.random() < 0.9)
            for sea in way:
                if self.chance.random() < 0.97:
                    self.orders[sea] = codes.pack(codes.CONVOY, goal, army)

    def voyage(self, army: int) -> list[int]:
        """Return fleets without orders, forming a route from an army's shore."""
        way: list[int] = []
        near = set(shore(army))
        while free := [s for s in sorted(near) if s in SEAS and self.units[s] and not self.orders[s] and s not in way]:
            way.append(self.chance.choice(free))
            if self.chance.random() < 0.6:
                break
            near = neighbours(way[-1])
        return way

    def march(self, eager: float) -> None:
        """Order some of the others to attack occupied provinces, preferably fleets at sea."""
        for place in self.places():
            goals = self.reach(place)
            if self.orders[place] or not goals or self.chance.random() > eager:
                continue
            busy = [goal for goal in goals if self.is_foreign(int(BOARD.province_of[goal]), place)]
            carrying = [goal for goal in busy if self.carries(int(BOARD.province_of[goal]))]
            draw = self.chance.random()
            choices = carrying if draw < 0.5 and carrying else busy if draw < 0.8 and busy else goals
            self.orders[place] = codes.pack(codes.MOVE, self.chance.choice(choices))

    def support(self) -> None:
        """Order the rest to support orders nearby, moves rather than holds."""
        for place in self.places():
            if self.orders[place]:
                continue
            near = {int(BOARD.province_of[goal]) for goal in self.reach(place)}
            moves = [(who, goal) for who in self.places() if (goal := self.goal(who)) in near and who != place]
            raids = [(who, goal) for who, goal in moves if self.carries(goal)]
            draw = self.chance.random()
            choices = raids if raids and draw < 0.5 else moves if draw < 0.75 else []
            holds = [who for who in sorted(near) if self.units[who]]
            if choices:
                who, goal = self.chance.choice(choices)
                self.orders[place] = codes.pack(codes.SUPPORT_MOVE, goal, who)
            else:
                self.orders[place] = codes.pack(codes.SUPPORT, self.chance.choice(holds)) if holds else codes.HOLD

    def goal(self, who: int) -> int | None:
        """Return the goal of a unit's move."""
        kind, target, _, _ = codes.unpack(int(self.orders[who]))
        return int(BOARD.province_of[target]) if kind == codes.MOVE else None

    def carries(self, place: int) -> bool:
        """Return whether the unit there has orders to convoy."""
        return int(self.orders[place]) & codes.KIND_MASK == codes.CONVOY

    def is_foreign(self, place: int, other: int) -> bool:
        """Return whether a unit of another power than the one in `other` stands in a place."""
        return bool(self.units[place]) and (int(self.units[place]) - int(self.units[other])) % codes.NUM_POWERS != 0

    def places(self) -> list[int]:
        return [int(place) for place in np.flatnonzero(self.units)]

    def reach(self, place: int) -> list[int]:
        """Return the locations a unit can move to without a convoy."""
        unit = int(self.units[place])
        if unit <= codes.NUM_POWERS:
            return marching(place)
        form = (unit - 1) // codes.NUM_POWERS
        return sorted(sailing(place if form < 2 else BOARD.coasts_of[place][form - 2]))


@cache
def marching(place: int) -> list[int]:
    """Return the provinces adjacent to one, for an army."""
    return [int(goal) for goal in np.flatnonzero(BOARD.army_next[place])]


@cache
def neighbours(place: int) -> set[int]:
    """Return the provinces adjacent to one, for any unit."""
    by_sea = {int(BOARD.province_of[near]) for part in (place, *BOARD.coasts_of[place]) for near in sailing(part)}
    return by_sea | set(marching(place))


@cache
def shores(sea: int) -> list[int]:
    """Return the coasts of a sea."""
    return sorted(place for place in neighbours(sea) if BOARD.terrain[place] != SEA)


def crowds(number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return units uint8 and orders int32 [number, 75]."""
    chance = random.Random(seed)
    found = [Crowd(chance) for _ in range(number)]
    return np.stack([crowd.units for crowd in found]), np.stack([crowd.orders for crowd in found])
