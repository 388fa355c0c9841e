"""Province values of the DumbBot of the seed's system, which differ from David Norman's.

    valued      the 34 centres and every occupied province; all others count 0 throughout
    base        100 x units of the largest power with a unit next to a centre of its own; 100 x units of the owner of
                another centre; 500 for an unowned one; 0 for the rest
    nine passes value += mean over the neighbours of their values * w / 100, w = 1000, 30, 10, 6, 5, 4, 3, 2, 1
    at the end  + 1000 for each own unit next to it, - 1000 x the most such units of any one other power

Neighbours are as the package `diplomacy` lists them, in mixed case, and only names in capitals are found again. A
coastal neighbour that only an army can enter, a neighbour named with its coast, and Switzerland count in the number of
neighbours, never in the sum.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import warp as wp

from sparring.envs.diplomacy.adjudicator.adjustments import units_of
from sparring.envs.diplomacy.board.board import INLAND, Board, padded, standard_board
from sparring.envs.diplomacy.board.state import POWERS, PROVINCES, SIDES, Games, Tables, power_of

SWISS = ("BUR", "MAR", "MUN", "PIE", "TYR")
"""Provinces next to Switzerland, which no unit can enter."""
PASSES = wp.constant(9)
Passes = wp.types.vector(length=9, dtype=wp.float64)
WEIGHTS = wp.constant(Passes(1000.0, 30.0, 10.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0))
HUNDRED, THOUSAND = (wp.constant(wp.float64(number)) for number in (100.0, 1000.0))
UNOWNED = wp.constant(5)


@wp.struct
class SeedNeighbours:
    """Neighbour lists of the provinces, limited to counted neighbours."""

    named: wp.array2d[int]
    """[P, 12] neighbours named in capitals and without a coast; padded with -1"""
    number: wp.array[int]
    """[P] number of all neighbours"""


@wp.struct
class SeedValues:
    """Values of the provinces to one power."""

    value: wp.array[wp.float64]
    """[P] unitless; 0 where `valued` is 0"""
    last: wp.array[wp.float64]
    """[P] values before a pass"""
    valued: wp.array[wp.uint8]
    """[P] 1 for a centre or an occupied province"""


@cache
def seed_neighbours(device: str) -> SeedNeighbours:
    """Return the neighbour lists on a device, the same struct at every call."""
    matrix, number = neighbour_lists(standard_board())
    neighbours = SeedNeighbours()
    neighbours.named = wp.array(padded(matrix, SIDES + 1), device=device)
    neighbours.number = wp.array(number, device=device)
    return neighbours


def neighbour_lists(board: Board) -> tuple[np.ndarray, np.ndarray]:
    """Return the neighbours found again, bool [P, P], and the number of all, int32 [P]."""
    size = len(board.provinces)
    matrix, number = np.zeros((size, size), dtype=bool), np.zeros(size, dtype=np.int32)
    for province in range(size):
        touching = board.fleet_next[[province, *board.coasts_of[province]]].any(axis=0)  # bool [L]
        for other in range(size):
            coasts = int(touching[list(board.coasts_of[other])].sum())
            if coasts and not board.coasts_of[province]:
                number[province] += coasts  # BUL/EC and BUL/SC, two neighbours, neither of them found.
            elif coasts or touching[other] or board.army_next[province, other]:
                by_land = INLAND in (board.terrain[province], board.terrain[other])
                number[province] += 1
                matrix[province, other] = coasts or touching[other] or by_land
        number[province] += board.provinces[province] in SWISS
    return matrix, number


@wp.func
def units_near(games: Games, near: SeedNeighbours, game: int, province: int, power: int) -> int:
    """Count a power's units in the neighbours of a province."""
    count, side = int(0), int(0)
    while near.named[province, side] >= 0:
        unit = games.units[game, near.named[province, side]]
        if unit != wp.uint8(0):
            if power_of(unit) == power:
                count += 1
        side += 1
    return count


@wp.func
def base_value(games: Games, tables: Tables, near: SeedNeighbours, game: int, power: int, province: int) -> int:
    """Return the base value of a province in hundreds."""
    centre = tables.centre_of[province]
    if centre < 0:
        return 0
    owner = int(games.owner[game, centre])
    if owner < 0:
        return UNOWNED
    if owner != power:
        return units_of(games, game, owner)
    most = int(0)
    for other in range(POWERS):
        if other != power and units_near(games, near, game, province, other) > 0:
            most = wp.max(most, units_of(games, game, other))
    return most


@wp.func
def blur(near: SeedNeighbours, values: SeedValues, weight: wp.float64) -> None:
    """Add the neighbours' mean to every valued province, all at once."""
    for province in range(PROVINCES):
        values.last[province] = values.value[province]
    for province in range(PROVINCES):
        if values.valued[province] != wp.uint8(0):
            total, side = wp.float64(0.0), int(0)
            while near.named[province, side] >= 0:
                total += values.last[near.named[province, side]]
                side += 1
            mean = total / wp.float64(near.number[province])
            values.value[province] = values.last[province] + mean * weight / HUNDRED


@wp.func
def evaluate_provinces(
    games: Games, tables: Tables, near: SeedNeighbours, game: int, power: int, values: SeedValues
) -> None:
    """Fill `values` for a power."""
    for province in range(PROVINCES):
        counts = tables.centre_of[province] >= 0 or games.units[game, province] != wp.uint8(0)
        values.valued[province] = wp.uint8(wp.where(counts, 1, 0))
        base = base_value(games, tables, near, game, power, province)
        values.value[province] = HUNDRED * wp.float64(base)
    for number in range(PASSES):
        blur(near, values, WEIGHTS[number])
    for province in range(PROVINCES):
        if values.valued[province] != wp.uint8(0):
            friends, rivals = units_near(games, near, game, province, power), int(0)
            for other in range(POWERS):
                if other != power:
                    rivals = wp.max(rivals, units_near(games, near, game, province, other))
            values.value[province] = values.value[province] + THOUSAND * wp.float64(friends - rivals)
