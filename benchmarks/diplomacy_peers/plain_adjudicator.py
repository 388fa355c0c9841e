"""An independent adjudicator of movement in plain Python, by recursion, as a reference for the kernels.

The kernels tighten bounds pass by pass and break the remaining cycles. Here a question (does this move succeed, is that
support given) is answered by recursion to the questions it depends on. Arrivals of convoys are assumed instead: for
every combination of arrivals the rest is decided, and the consistent combinations are kept.

    ring      a question that depends on itself is a ring of moves; it succeeds if assuming its success is consistent
    paradox   armies whose arrival depends on itself, the smallest such group first: if exactly one combination of their
              arrivals is consistent it is the result, otherwise none of the group arrives (Szykman)

Written from the rules and not from the kernels; both share only the tables of the board. `voyages.py` has the chains of
seas and the groups of armies that depend on each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.diplomacy_peers.voyages import Ways, consistent, linked, sailing, smallest_circle
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import SEA, standard_board


@dataclass(frozen=True)
class Outcome:
    """Result of a movement phase; everything by province."""

    units: dict[int, tuple[int, bool, int]]
    """positions: power, whether a fleet, location"""
    dislodged: dict[int, int | None]
    """origin of the attacker, None if by convoy"""
    contested: frozenset[int]
    """left empty by a standoff"""
    cut: frozenset[int]
    """supports that were not given"""
    stranded: frozenset[int]
    """armies whose convoy did not hold"""
    paradoxes: int
    rings: int


class Phase:
    """A movement phase of one game: units [75] as in `codes.py`, and packed orders [75]."""

    def __init__(self, units: np.ndarray, orders: np.ndarray) -> None:
        self.codes = {int(place): int(units[place]) for place in np.flatnonzero(units)}
        self.orders = {place: codes.unpack(int(orders[place])) for place in self.codes}
        self.fleets = frozenset(p for p in self.codes if self.is_fleet(p) and standard_board().terrain[p] == SEA)
        self.landing: dict[int, int] = {}
        self.at_sea: set[int] = set()
        for place in self.codes:
            self.read_move(place)
        self.helpers: dict[int, list[int]] = {place: [] for place in self.codes}
        self.supports: dict[int, tuple[int, int]] = {}
        for place in self.codes:
            self.read_support(place)
        self.carriers = {army: self.read_convoys(army) for army in self.at_sea}
        self.known: dict[int, bool] = {}
        self.asking: list[int] = []
        self.leaned_on, self.ring_of = len(self.codes), 0
        self.ways: Ways = {}

    # Who and where

    def power(self, place: int) -> int:
        return (self.codes[place] - 1) % codes.NUM_POWERS

    def is_fleet(self, place: int) -> bool:
        return self.codes[place] > codes.NUM_POWERS

    def location(self, place: int) -> int:
        form = (self.codes[place] - 1) // codes.NUM_POWERS
        return place if form < 2 else standard_board().coasts_of[place][form - 2]

    def goal(self, place: int) -> int | None:
        """Return the goal of a unit's move, None for other orders."""
        return int(standard_board().province_of[self.landing[place]]) if place in self.landing else None

    def comers(self, place: int) -> list[int]:
        """Return the units that move to a place."""
        return [unit for unit in self.landing if self.goal(unit) == place]

    # Reading orders

    def walk(self, place: int, target: int) -> int | None:
        """Return the location a unit reaches by moving to `target` without a convoy, else None."""
        board = standard_board()
        province = int(board.province_of[target])
        if not self.is_fleet(place):
            return province if board.army_next[place, province] else None
        choices = [target] if target != province else [province, *board.coasts_of[province]]
        found = [choice for choice in choices if choice in sailing(self.location(place))]
        return found[0] if len(found) == 1 else None

    def borders(self, place: int, province: int) -> bool:
        """Return whether a unit could go to some part of a province by itself."""
        places = (province, *standard_board().coasts_of[province])
        return any(self.walk(place, part) is not None for part in places)

    def read_move(self, place: int) -> None:
        kind, target, _, via = self.orders[place]
        if kind != codes.MOVE:
            return
        province, alone = int(standard_board().province_of[target]), self.walk(place, target)
        sails = not self.is_fleet(place) and province != place and (via or alone is None)
        if sails and linked(self.fleets, place, province):
            self.at_sea.add(place)
            self.landing[place] = province
        elif alone is not None:
            self.landing[place] = alone

    def read_support(self, place: int) -> None:
        kind, target, other, _ = self.orders[place]
        if kind not in (codes.SUPPORT, codes.SUPPORT_MOVE):
            return
        where = standard_board().province_of
        goal = int(where[target])
        helped = goal if kind == codes.SUPPORT else int(where[other])
        if helped not in self.codes or place in (helped, goal) or not self.borders(place, goal):
            return
        if kind == codes.SUPPORT_MOVE and not self.could_come(helped, goal, without=place):
            return
        fits = self.goal(helped) == (None if kind == codes.SUPPORT else goal)
        named = kind == codes.SUPPORT_MOVE and target != goal
        if fits and (not named or self.landing[helped] == target):
            self.supports[place] = (helped, goal)
            self.helpers[helped].append(place)

    def could_come(self, place: int, goal: int, without: int) -> bool:
        """Return whether a unit could go to a province by itself, or by sea without the fleet that supports it."""
        return self.borders(place, goal) or (not self.is_fleet(place) and linked(self.fleets - {without}, place, goal))

    def read_convoys(self, army: int) -> frozenset[int]:
        """Return the fleets ordered to convoy an army to its goal."""
        where = standard_board().province_of
        wanted = (codes.CONVOY, self.goal(army), army)
        found = {sea: self.orders[sea] for sea in self.fleets}
        return frozenset(sea for sea, (kind, to, who, _) in found.items() if (kind, where[to], where[who]) == wanted)

    # Questions, under the assumed arrivals `ways`

    def arrives(self, place: int) -> bool:
        """Return whether a move has a route, by land or by a convoy that is assumed to hold."""
        return place not in self.at_sea or self.ways[place]

    def opposite(self, place: int) -> int | None:
        """Return the unit that moves the opposite way, both by land."""
        other = self.goal(place)
        if other is None or self.goal(other) != place or {place, other} & self.at_sea:
            return None
        return other

    def given(self, place: int) -> bool:
        """Return whether a support is given."""
        for attacker in self.comers(place):
            foreign = self.power(attacker) != self.power(place) and attacker != self.supports[place][1]
            if self.arrives(attacker) and (foreign or self.succeeds(attacker)):
                return False
        return True

    def strength(self, place: int, but_not: int | None = None) -> int:
        """Return 1 + the supports given to a unit, without those of the power `but_not`."""
        return 1 + sum(self.power(helper) != but_not and self.given(helper) for helper in self.helpers[place])

    def attack(self, place: int) -> int:
        goal = self.goal(place)
        assert goal is not None
        if not self.arrives(place):
            return 0
        stays = goal in self.codes and (
            goal not in self.landing or self.opposite(place) is not None or not self.succeeds(goal)
        )
        if not stays:
            return self.strength(place)
        owner = self.power(goal)
        return 0 if owner == self.power(place) else self.strength(place, but_not=owner)

    def hold(self, place: int) -> int:
        if place not in self.codes:
            return 0
        if place in self.landing:
            return 0 if self.succeeds(place) else 1
        return self.strength(place)

    def prevent(self, place: int) -> int:
        if not self.arrives(place):
            return 0
        other = self.opposite(place)
        return 0 if other is not None and self.succeeds(other) else self.strength(place)

    def prevails(self, place: int) -> bool:
        """Return whether a move succeeds by the rules."""
        attack, goal, other = self.attack(place), self.goal(place), self.opposite(place)
        assert goal is not None
        if attack <= (self.hold(goal) if other is None else self.strength(other)):
            return False
        return all(attack > self.prevent(rival) for rival in self.comers(goal) if rival != place)

    def succeeds(self, place: int) -> bool:
        """Return the memoized answer; a question that depends on itself is assumed to have the answer yes."""
        if place in self.known:
            return self.known[place]
        if place in self.asking:
            self.leaned_on = min(self.leaned_on, self.asking.index(place))
            return True
        depth, before = len(self.asking), self.leaned_on
        self.asking.append(place)
        self.leaned_on = len(self.codes)
        answer = self.prevails(place)
        self.asking.pop()
        if self.leaned_on >= depth:
            self.known[place] = answer
            self.ring_of += self.leaned_on == depth and answer
            self.leaned_on = before
        self.leaned_on = min(self.leaned_on, before)
        return answer

    def dislodged(self, place: int) -> bool:
        moved = place in self.landing and self.succeeds(place)
        return not moved and any(self.succeeds(unit) for unit in self.comers(place))

    # Convoys

    def came_true(self, ways: Ways) -> Ways:
        """Return the armies that arrive under these assumptions."""
        self.ways, self.known, self.ring_of = ways, {}, 0
        return {army: self.ferried(army) for army in ways}

    def ferried(self, army: int) -> bool:
        goal = self.goal(army)
        assert goal is not None
        return linked(frozenset(sea for sea in self.carriers[army] if not self.dislodged(sea)), army, goal)

    def settled(self) -> Ways:
        """Return the armies whose route cannot be cut, or is not offered."""
        found: Ways = {}
        for army, carriers in self.carriers.items():
            goal = self.goal(army)
            assert goal is not None
            if linked(frozenset(sea for sea in carriers if not self.comers(sea)), army, goal):
                found[army] = True
            elif not linked(carriers, army, goal):
                found[army] = False
        return found

    def decide(self) -> int:
        """Find the armies that arrive, store them in `ways`, and return the number of paradoxes."""
        fixed, paradoxes = self.settled(), 0
        while open_ := [army for army in self.carriers if army not in fixed]:
            table = self.table(open_, fixed)
            group = smallest_circle(open_, table)
            answer = consistent(group, open_, table)
            paradoxes += answer is None
            fixed.update(answer or dict.fromkeys(group, False))
        self.came_true(fixed)
        return paradoxes

    def table(self, armies: list[int], fixed: Ways) -> dict[tuple[bool, ...], tuple[bool, ...]]:
        """Return the consistent combinations of assumed arrivals of `armies`."""
        found = {}
        for combination in product((False, True), repeat=len(armies)):
            truth = self.came_true({**fixed, **dict(zip(armies, combination, strict=True))})
            found[combination] = tuple(truth[army] for army in armies)
        return found

    # The outcome

    def outcome(self) -> Outcome:
        return self.summary(paradoxes=self.decide())

    def supposing(self, ways: Ways) -> Outcome:
        """Return the outcome if these armies arrive."""
        self.came_true(ways)
        return self.summary(paradoxes=0)

    def summary(self, paradoxes: int) -> Outcome:
        moved = {place for place in self.landing if self.succeeds(place)}
        lost = {place for place in self.codes if self.dislodged(place)}
        units = {place: self.standing(place, self.location(place)) for place in self.codes if place not in moved | lost}
        units.update({int(self.goal(place) or 0): self.standing(place, self.landing[place]) for place in moved})
        attackers = {self.goal(place): place for place in moved}
        failed = {place for place in self.landing if place not in moved and self.prevent(place) > 0}
        return Outcome(
            units=units,
            dislodged={place: None if attackers[place] in self.at_sea else attackers[place] for place in lost},
            contested=frozenset(
                goal for place in failed if (goal := self.goal(place)) is not None and goal not in units
            ),
            cut=frozenset(place for place in self.supports if not self.given(place)),
            stranded=frozenset(army for army, arrived in self.ways.items() if not arrived),
            paradoxes=paradoxes,
            rings=self.ring_of,
        )

    def standing(self, place: int, location: int) -> tuple[int, bool, int]:
        return self.power(place), self.is_fleet(place), location
