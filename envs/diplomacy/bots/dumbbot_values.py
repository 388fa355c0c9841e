"""What every place is worth to a power, as David Norman's DumbBot sees it. A node is a kind of unit at a location.

    size of a power with n centres   n^2 + 4 n + 16; unowned centres together count as one such power
    prox_0(node)    attack * size of the owner of a centre there that is another's, or nobody's; at a centre of its own
                    defence * threat, the size of the largest power with a unit that could move in
    prox_k(node)    (prox_k-1(node) + sum over the provinces its unit can move to of the best prox_k-1 there) / 5
    value(node)     sum over k = 0 ... 9 of w_k prox_k(node), and
                    in winter 1000 * threat, where the centre is its own;
                    else 1000 * (own units that can move there or are there - the most of one other power that do)

attack and defence are 600 and 400 in fall, 700 and 300 otherwise; w is 100, 1000, 30, 10, 6, 5, 4, 3, 2, 1 in spring
and 1000, 100, 30, ... otherwise. Retreats see the board as their season does.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.adjudicator.seasons import SPRING_RETREATS, WINTER, centres_of
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
Weights = wp.types.vector(length=10, dtype=float)
SPRING_WEIGHTS = wp.constant(Weights(100.0, 1000.0, 30.0, 10.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0))
OTHER_WEIGHTS = wp.constant(Weights(1000.0, 100.0, 30.0, 10.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0))
UNIT_WEIGHT = wp.constant(1000.0)


@wp.struct
class Appraisal:
    """One game as a power sees it; rows of nodes are those of `Tables.landings`."""

    near: wp.array[wp.uint8]
    """[7 P] units of a power that can move to a province by themselves, province by province"""
    size: wp.array[float]
    """[8] of the powers, and of all unowned centres"""
    value: wp.array[float]
    """[2 L]"""
    last: wp.array[float]
    """[2 L] prox_k-1"""
    fresh: wp.array[float]
    """[2 L] prox_k"""
    rivals: wp.array[int]
    """[75] the most units of one other power that can move to a province, or are there"""


@wp.func
def row_of(tables: Tables, unit: wp.uint8, province: int) -> int:
    """The node where a unit stands."""
    return location_of(tables, unit, province) + wp.where(form_of(unit) > 0, LOCATIONS, 0)


@wp.func
def province_at(tables: Tables, row: int) -> int:
    """The province of a node."""
    return tables.province_of[row % LOCATIONS]


@wp.func
def count_near(games: Games, tables: Tables, game: int, sight: Appraisal) -> None:
    """Fill `near` and `size`, which are the same for all powers."""
    for entry in range(POWERS * PROVINCES):
        sight.near[entry] = wp.uint8(0)
    for power in range(POWERS + 1):
        centres = centres_of(games, game, wp.where(power < POWERS, power, -1))
        sight.size[power] = float(centres * centres + 4 * centres + 16)
    for province in range(PROVINCES):
        unit = games.units[game, province]
        if unit != wp.uint8(0):
            row, side = row_of(tables, unit, province), int(0)
            while tables.reach[row, side] >= 0:
                entry = POWERS * tables.reach[row, side] + power_of(unit)
                sight.near[entry] = sight.near[entry] + wp.uint8(1)
                side += 1


@wp.func
def threat(sight: Appraisal, province: int, power: int) -> float:
    """Size of the largest other power with a unit that could move to a province."""
    found = float(0.0)
    for other in range(POWERS):
        if other != power and sight.near[POWERS * province + other] > wp.uint8(0):
            found = wp.max(found, sight.size[other])
    return found


@wp.func
def presence(games: Games, game: int, sight: Appraisal, province: int, power: int) -> int:
    """Units of a power that can move to a province, or are there."""
    found = int(sight.near[POWERS * province + power])
    unit = games.units[game, province]
    if unit != wp.uint8(0):
        if power_of(unit) == power:
            found += 1
    return found


@wp.func
def competition(games: Games, game: int, sight: Appraisal, province: int, power: int) -> int:
    """The most units of one other power that can move to a province, or are there."""
    found = int(0)
    for other in range(POWERS):
        if other != power:
            found = wp.max(found, presence(games, game, sight, province, other))
    return found


@wp.func
def worth(games: Games, tables: Tables, game: int, sight: Appraisal, power: int, province: int) -> wp.vec2:
    """What there is to attack, and what to defend, in a province."""
    centre = tables.centre_of[province]
    if centre < 0:
        return wp.vec2(0.0, 0.0)
    owner = int(games.owner[game, centre])
    if owner == power:
        return wp.vec2(0.0, threat(sight, province, power))
    return wp.vec2(sight.size[wp.where(owner < 0, POWERS, owner)], 0.0)


@wp.func
def around(tables: Tables, sight: Appraisal, row: int) -> float:
    """prox_k of a node; of the two coasts of a province, which follow each other in `landings`, the better counts."""
    total, first = float(sight.last[row]), wp.where(row >= LOCATIONS, LOCATIONS, 0)
    before, side = int(-1), int(0)
    landing = int(tables.landings[row, 0])
    while landing >= 0:
        value = float(sight.last[first + landing])
        total += value
        if before >= PROVINCES and landing == before + 1 and (before - PROVINCES) % 2 == 0:
            total -= wp.min(value, sight.last[first + before])
        before = landing
        side += 1
        landing = tables.landings[row, side]
    return total / 5.0


@wp.func
def spread_value(tables: Tables, sight: Appraisal, weights: Weights) -> None:
    """From prox_0 in `last` to the sum of w_k prox_k in `value`."""
    for row in range(NODES):
        sight.value[row] = weights[0] * sight.last[row]
    for depth in range(1, DEPTH):
        for row in range(NODES):
            if tables.landings[row, 0] >= 0:
                sight.fresh[row] = around(tables, sight, row)
        for row in range(NODES):
            if tables.landings[row, 0] >= 0:
                sight.last[row] = sight.fresh[row]
                sight.value[row] = sight.value[row] + weights[depth] * sight.fresh[row]


@wp.func
def appraise(games: Games, tables: Tables, game: int, sight: Appraisal, power: int) -> None:
    """Fill `value` and `rivals`; the near units have been counted."""
    phase = int(games.phase[game])
    spring, winter = phase <= SPRING_RETREATS, phase == WINTER
    attack, defence = wp.where(spring or winter, 700.0, 600.0), wp.where(spring or winter, 300.0, 400.0)
    for province in range(PROVINCES):
        sight.rivals[province] = competition(games, game, sight, province, power)
    for row in range(NODES):
        sight.last[row] = 0.0
        if tables.landings[row, 0] >= 0:
            found = worth(games, tables, game, sight, power, province_at(tables, row))
            sight.last[row] = attack * found[0] + defence * found[1]
    if spring:
        spread_value(tables, sight, SPRING_WEIGHTS)
    else:
        spread_value(tables, sight, OTHER_WEIGHTS)
    for row in range(NODES):
        if tables.landings[row, 0] >= 0:
            sight.value[row] = sight.value[row] + UNIT_WEIGHT * bonus(
                games, tables, game, sight, power, province_at(tables, row), winter
            )


@wp.func
def bonus(games: Games, tables: Tables, game: int, sight: Appraisal, power: int, province: int, winter: bool) -> float:
    """What units count for a place, beside its surroundings."""
    if winter:
        found = worth(games, tables, game, sight, power, province)
        return found[1]
    return float(presence(games, game, sight, province, power) - sight.rivals[province])
