"""DumbBot's value of every node to a power (D. Norman's measure). A node is a kind of unit at a location.

    size of a power with n centres   n^2 + 4 n + 16; unowned centres together count as one such power
    prox_0(node)    attack * size of the owner of a centre there, another power or none; at a centre of its own
                    defence * threat, the size of the largest power with a unit that could move in
    prox_k(node)    (prox_k-1(node) + sum over the provinces its unit can move to of the best prox_k-1 there) / 5
    value(node)     sum over k = 0 ... 9 of w_k prox_k(node), and
                    in winter 1000 * threat, where the centre is its own;
                    else 1000 * (own units that can move there or are there - the most of one other power that do)

attack and defence are 600 and 400 in fall, 700 and 300 otherwise. The weights w are `SPRING_WEIGHTS` in spring and
`OTHER_WEIGHTS` otherwise. Retreat phases use the numbers of their season.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.adjudicator.adjustments import centres_of
from sparring.envs.diplomacy.adjudicator.calendar import SPRING_RETREATS, WINTER
from sparring.envs.diplomacy.board.state import (
    LOCATIONS,
    POWERS,
    PROVINCES,
    Games,
    Tables,
    form_of,
    location_of,
    power_of,
)

DEPTH = wp.constant(10)
NODES = wp.constant(162)
Lanes = wp.types.vector(length=8, dtype=float)
"""A number for each of the seven powers; the last one is unused. One vector instruction then serves several powers."""
Weights = wp.types.vector(length=10, dtype=float)
# w_0 to w_9. In spring centres one move away count most, since they can be reached by fall, when they change hands.
SPRING_WEIGHTS = wp.constant(Weights(100.0, 1000.0, 30.0, 10.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0))
OTHER_WEIGHTS = wp.constant(Weights(1000.0, 100.0, 30.0, 10.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0))
UNIT_WEIGHT = wp.constant(1000.0)


@wp.struct
class NodeValues:
    """Node values of one game; rows of nodes are those of `Tables.landings`."""

    near: wp.array[wp.uint8]
    """[7 P] number of units of a power that can move to a province without a convoy, province by province"""
    present: wp.array[wp.uint8]
    """[7 P] the same with the unit that is there"""
    ranks: wp.array[int]
    """[3 P] per province: the power with the most units `present`, their number, and the most of any other power"""
    size: wp.array[float]
    """[8] sizes of the powers, and of all unowned centres together"""
    total: wp.array[Lanes]
    """[2 L] sum of w_k prox_k, for all powers"""
    prox: wp.array[Lanes]
    """[4 L] prox_k-1 and prox_k for all powers, in turns in the first and the second half"""
    value: wp.array[float]
    """[2 L] value of a node to the power that decides, unitless"""
    rivals: wp.array[int]
    """[75] competition: the most units of one other power that can move to a province, or are there"""


@wp.func
def row_of(tables: Tables, unit: wp.uint8, province: int) -> int:
    """Return the node of a unit."""
    return location_of(tables, unit, province) + wp.where(form_of(unit) > 0, LOCATIONS, 0)


@wp.func
def province_at(tables: Tables, row: int) -> int:
    """Return the province of a node."""
    return tables.province_of[row % LOCATIONS]


@wp.func
def rank_presence(games: Games, game: int, nodes: NodeValues) -> None:
    """Fill `present` and `ranks`; expects `near`."""
    for province in range(PROVINCES):
        unit = games.units[game, province]
        leader, most, second = int(-1), int(0), int(0)
        for power in range(POWERS):
            entry = POWERS * province + power
            units = int(nodes.near[entry])
            if unit != wp.uint8(0):
                if power_of(unit) == power:
                    units += 1
            nodes.present[entry] = wp.uint8(units)
            if units > most:
                leader, second, most = power, most, units
            elif units > second:
                second = units
        nodes.ranks[3 * province] = leader
        nodes.ranks[3 * province + 1] = most
        nodes.ranks[3 * province + 2] = second


@wp.func
def count_near(games: Games, tables: Tables, game: int, nodes: NodeValues) -> None:
    """Fill `near`, `present`, `ranks` and `size`, which are the same for all powers."""
    for entry in range(POWERS * PROVINCES):
        nodes.near[entry] = wp.uint8(0)
    for power in range(POWERS + 1):
        centres = centres_of(games, game, wp.where(power < POWERS, power, -1))
        nodes.size[power] = float(centres * centres + 4 * centres + 16)
    for province in range(PROVINCES):
        unit = games.units[game, province]
        if unit != wp.uint8(0):
            row, side = row_of(tables, unit, province), int(0)
            while tables.reach[row, side] >= 0:
                entry = POWERS * tables.reach[row, side] + power_of(unit)
                nodes.near[entry] = nodes.near[entry] + wp.uint8(1)
                side += 1
    rank_presence(games, game, nodes)


@wp.func
def threat(nodes: NodeValues, province: int, power: int) -> float:
    """Return the size of the largest other power with a unit that could move to a province."""
    largest = float(0.0)
    for other in range(POWERS):
        if other != power and nodes.near[POWERS * province + other] > wp.uint8(0):
            largest = wp.max(largest, nodes.size[other])
    return largest


@wp.func
def competition(nodes: NodeValues, province: int, power: int) -> int:
    """Return the most units of one other power that can move to a province, or are there."""
    return nodes.ranks[3 * province + wp.where(nodes.ranks[3 * province] == power, 2, 1)]


@wp.func
def worth(
    games: Games, tables: Tables, game: int, nodes: NodeValues, province: int, attack: float, defence: float
) -> Lanes:
    """Return prox_0 of a province with a centre, for all powers."""
    owner = int(games.owner[game, tables.centre_of[province]])
    values = Lanes(attack * nodes.size[wp.where(owner < 0, POWERS, owner)])
    if owner >= 0:
        values[owner] = defence * threat(nodes, province, owner)
    return values


@wp.func
def around(tables: Tables, nodes: NodeValues, row: int, half: int) -> Lanes:
    """Return prox_k of a node from the prox_k-1 in a half; of the two coasts of a province only the better counts."""
    total = Lanes(nodes.prox[half + row])
    first = half + wp.where(row >= LOCATIONS, LOCATIONS, 0)
    before, side = int(-1), int(0)
    landing = int(tables.landings[row, 0])
    while landing >= 0:
        value = nodes.prox[first + landing]
        total += value
        # Coasts are numbered in pairs from PROVINCES on: an even offset is a first coast, its second one follows.
        if before >= PROVINCES and landing == before + 1 and (before - PROVINCES) % 2 == 0:
            total -= wp.min(value, nodes.prox[first + before])
        before = landing
        side += 1
        landing = tables.landings[row, side]
    return total / 5.0


@wp.func
def spread_value(tables: Tables, nodes: NodeValues, weights: Weights) -> None:
    """Write the sum of w_k prox_k to `total`, given prox_0 in the first half of `prox`."""
    for row in range(NODES):
        nodes.total[row] = weights[0] * nodes.prox[row]
    last, fresh = int(0), int(NODES)
    for depth in range(1, DEPTH):
        # Two halves in turns: prox_k of a node depends on prox_k-1 of all its neighbours.
        for row in range(NODES):
            if tables.landings[row, 0] >= 0:
                prox = around(tables, nodes, row, last)
                nodes.prox[fresh + row] = prox
                nodes.total[row] = nodes.total[row] + weights[depth] * prox
        last, fresh = NODES - last, NODES - fresh


@wp.func
def evaluate_all(games: Games, tables: Tables, game: int, nodes: NodeValues) -> None:
    """Fill `total` for all powers at once; expects `count_near` to have been called."""
    phase = int(games.phase[game])
    spring, winter = phase <= SPRING_RETREATS, phase == WINTER
    attack, defence = wp.where(spring or winter, 700.0, 600.0), wp.where(spring or winter, 300.0, 400.0)
    for row in range(NODES):
        nodes.prox[row] = Lanes(0.0)
        if tables.landings[row, 0] >= 0:
            province = province_at(tables, row)
            if tables.centre_of[province] >= 0:
                nodes.prox[row] = worth(games, tables, game, nodes, province, attack, defence)
    if spring:
        spread_value(tables, nodes, SPRING_WEIGHTS)
    else:
        spread_value(tables, nodes, OTHER_WEIGHTS)


@wp.func
def evaluate_nodes(games: Games, tables: Tables, game: int, nodes: NodeValues, power: int) -> None:
    """Fill `value` and `rivals` for a power; expects `evaluate_all` to have been called."""
    winter = int(games.phase[game]) == WINTER
    for province in range(PROVINCES):
        nodes.rivals[province] = competition(nodes, province, power)
    for row in range(NODES):
        if tables.landings[row, 0] >= 0:
            total, province = nodes.total[row], province_at(tables, row)
            nodes.value[row] = total[power] + UNIT_WEIGHT * bonus(games, tables, game, nodes, power, province, winter)


@wp.func
def bonus(games: Games, tables: Tables, game: int, nodes: NodeValues, power: int, province: int, winter: bool) -> float:
    """Return the term of the value that depends on units, before its weight of 1000."""
    if not winter:
        return float(int(nodes.present[POWERS * province + power]) - nodes.rivals[province])
    centre = tables.centre_of[province]
    if centre >= 0:
        if int(games.owner[game, centre]) == power:
            return threat(nodes, province, power)
    return 0.0
