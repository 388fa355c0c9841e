"""Reasons why the `diplomacy` package differs from our adjudicator.

A reason is a rewritten phase for which our adjudicator reproduces the package's result of the original. It is an
explanation only if units, dislodged units, retreats, centres and next phase are then all equal. Reasons with a number
are choices left open by the rules, with the numbers of the DATC; the others are faults of the package.

For differences that orders cannot express, the plain adjudicator is given the arrivals of armies, or the supports that
count. Its units and dislodged units must then equal the package's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from benchmarks.diplomacy_peers.orders import fields
from benchmarks.diplomacy_peers.plain_adjudicator import Outcome, Phase
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import SEA, standard_board

VIA = 1 << codes.VIA_SHIFT
MOST_CHOICES = 5

NO_FLEET = "4.A.3: VIA, and no fleet ordered to convoy: goes by land"
INTENT = "4.A.3: no VIA, but a fleet of the army's power convoys: goes by sea"
OWN_SUPPORT = "package: support of a VIA move counts against a unit of the supporter's own power"
OWN_ATTACK = "package: a convoy fails under an attack that its own power's support cannot let succeed"
HEAD_ON = "package: in a head-on battle, support against a unit of one's own power does not defend either"
SIEGE = "package: a convoy fails under an undecided attack in which the unit at its goal takes part"
RETREAT = "package: dislodged by a convoyed army, any place at all counts as a retreat"
ROUTES = "package: a convoy with several routes counts as whole, or as broken, when it is not"
PARADOX = "4.A.2: another rule for convoy paradoxes"


@dataclass(frozen=True)
class Reading:
    """A rewritten phase: its orders [75], and whether support of a VIA move counts against any unit."""

    reasons: tuple[str, ...]
    orders: np.ndarray
    lenient: bool = False


class Lenient(Phase):
    """The plain adjudicator with one fault of the package."""

    def strength(self, place: int, but_not: int | None = None) -> int:
        """Return the strength; for a VIA move it includes the supports of its victim's power."""
        return super().strength(place, None if self.orders[place][3] else but_not)


def readings(units: np.ndarray, orders: np.ndarray) -> list[Reading]:
    """Yield the phase as the package may have understood it, the fewest reasons first."""
    found = [
        Reading((*base.reasons, *fault.reasons), fault.orders, fault.lenient)
        for base in by_land_or_sea(units, orders)
        for fault in faults(units, base.orders)
    ]
    return sorted((reading for reading in found if reading.reasons), key=lambda reading: len(reading.reasons))


def by_land_or_sea(units: np.ndarray, orders: np.ndarray) -> Iterator[Reading]:
    """Yield moves between neighbours that the package routes differently; first the orders as they are."""
    by_land, meant = orders.copy(), []
    for army in map(int, np.flatnonzero(units)):
        kind, goal, _, via = fields(int(orders[army]))
        if kind != codes.MOVE or units[army] > codes.NUM_POWERS or not standard_board().army_next[army, goal]:
            continue
        fleets = ferries(orders, army, goal)
        if via and not fleets:
            by_land[army] &= ~VIA
        if not via and any(same_power(units, fleet, army) for fleet in fleets):
            meant.append(army)
    yield Reading((), orders)
    for marks in product((0, VIA), repeat=min(len(meant), MOST_CHOICES)):
        changed = by_land.copy()
        changed[meant[:MOST_CHOICES]] |= np.array(marks, dtype=changed.dtype)
        reasons = ((NO_FLEET, (by_land != orders).any()), (INTENT, any(marks)))
        yield Reading(tuple(name for name, holds in reasons if holds), changed)


def faults(units: np.ndarray, orders: np.ndarray) -> Iterator[Reading]:
    """Yield every combination of the package's faults that could matter here; first none."""
    against = self_supports(units, orders)
    crossing = [place for place, goal, attacker in against if fields(int(orders[goal]))[:2] == (codes.MOVE, attacker)]
    carrying = [goal for _, goal, _ in against if fields(int(orders[goal]))[0] == codes.CONVOY]
    by_sea = any(fields(int(orders[attacker]))[3] for _, _, attacker in against)
    choices = (
        {False, by_sea},
        {False, bool(carrying)},
        {False, bool(crossing)},
        {False, bool(beset := besieged(orders))},
    )
    for lenient, attack, cross, siege in product(*choices):
        changed = orders.copy()
        for places, chosen in ((carrying, attack), (crossing, cross), (beset, siege)):
            changed[places if chosen else []] = codes.HOLD
        reasons = ((OWN_SUPPORT, lenient), (OWN_ATTACK, attack), (HEAD_ON, cross), (SIEGE, siege))
        yield Reading(tuple(name for name, holds in reasons if holds), changed, lenient)


def besieged(orders: np.ndarray) -> list[int]:
    """Return the fleets that convoy to a place from which a unit takes part in an attack on them."""
    read = {place: fields(int(orders[place])) for place in map(int, np.flatnonzero(orders))}
    attacks = {place: goal for place, (kind, goal, _, _) in read.items() if kind in (codes.MOVE, codes.SUPPORT_MOVE)}
    return [fleet for fleet, (kind, goal, _, _) in read.items() if kind == codes.CONVOY and attacks.get(goal) == fleet]


def self_supports(units: np.ndarray, orders: np.ndarray) -> list[tuple[int, int, int]]:
    """Return supports of attacks on a unit of the supporter's own power: supporter, attacked unit, attacker."""
    read = [(place, *fields(int(orders[place]))) for place in map(int, np.flatnonzero(units))]
    return [
        (place, goal, attacker)
        for place, kind, goal, attacker, _ in read
        if kind == codes.SUPPORT_MOVE and units[goal] and same_power(units, place, goal)
    ]


def supposed(units: np.ndarray, reading: Reading) -> Iterator[tuple[tuple[str, ...], Outcome]]:
    """Yield the plain adjudicator's results for a reading; then for other arrivals by sea where these are in doubt."""
    phase = (Lenient if reading.lenient else Phase)(units, reading.orders)
    paradox, ruled = phase.decide() > 0, dict(phase.ways)
    yield reading.reasons, phase.supposing(ruled)
    doubtful = [army for army in ruled if paradox or len(phase.carriers[army]) > 1][:MOST_CHOICES]
    for other in product((False, True), repeat=len(doubtful)):
        ways = {**ruled, **dict(zip(doubtful, other, strict=True))}
        if ways != ruled:
            yield (*reading.reasons, PARADOX if paradox else ROUTES), phase.supposing(ways)


def same_power(units: np.ndarray, one: int, other: int) -> bool:
    """Return whether the units in two places belong to one power."""
    return (int(units[one]) - int(units[other])) % codes.NUM_POWERS == 0


def ferries(orders: np.ndarray, army: int, goal: int) -> list[int]:
    """Return the seas whose fleets are ordered to convoy an army to a goal, if they form a chain."""
    board = standard_board()
    ordered = [int(sea) for sea in np.flatnonzero(orders) if fields(int(orders[sea]))[:3] == (codes.CONVOY, goal, army)]
    reached: list[int] = []
    fresh = [sea for sea in ordered if _touch(sea, army)]
    while fresh:
        reached += fresh
        fresh = [sea for sea in ordered if sea not in reached and any(board.fleet_next[sea, near] for near in fresh)]
    return reached if any(_touch(sea, goal) for sea in reached) else []


def _touch(sea: int, coast: int) -> bool:
    board = standard_board()
    places = (coast, *board.coasts_of[coast])
    return board.terrain[sea] == SEA and any(board.fleet_next[sea, place] for place in places)
