"""Builds and disbands: the adjustment phase in winter.

Where a power orders too few disbands, civil disorder removes the units furthest from its home centres, fleets before
armies, then in alphabetical order of province (DATC 4.D.8). If a power orders too many builds, the first in
alphabetical order are carried out.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.adjudicator.parse_orders import (
    BUILD,
    DISBAND,
    DONE,
    UNORDERED,
    VOID,
    kind_of,
    other_of,
    target_of,
)
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import FLEET, INLAND
from sparring.envs.diplomacy.board.state import (
    CENTRES,
    LOCATIONS,
    POWERS,
    PROVINCES,
    Games,
    Tables,
    form_of,
    location_of,
    power_of,
    unit_at,
)

FIRST_FLEET = wp.constant(1 + codes.NUM_POWERS)


@wp.func
def centres_of(games: Games, game: int, power: int) -> int:
    """Count the centres a power owns; power -1 counts the unowned ones."""
    count = int(0)
    for centre in range(CENTRES):
        if int(games.owner[game, centre]) == power:
            count += 1
    return count


@wp.func
def units_of(games: Games, game: int, power: int) -> int:
    """Count the units a power has on the board."""
    count = int(0)
    for province in range(PROVINCES):
        unit = games.units[game, province]
        if unit != wp.uint8(0):
            if power_of(unit) == power:
                count += 1
    return count


@wp.func
def is_free_home(games: Games, tables: Tables, game: int, power: int, province: int) -> bool:
    """Return whether `province` is an owned, empty home centre of `power`, where it may build."""
    if tables.home[province] != power or games.units[game, province] != wp.uint8(0):
        return False
    return int(games.owner[game, tables.centre_of[province]]) == power


@wp.func
def build_limit(games: Games, tables: Tables, game: int, power: int) -> int:
    """Return the number of units a power may build; negative: the number it must disband."""
    spare = centres_of(games, game, power) - units_of(games, game, power)
    if spare <= 0:
        return spare
    free = int(0)
    for province in range(PROVINCES):
        if is_free_home(games, tables, game, power, province):
            free += 1
    return wp.min(spare, free)


@wp.func
def built_unit(tables: Tables, power: int, province: int, order: int) -> wp.uint8:
    """Return the unit code that a build order creates in a home centre, or 0 for an illegal build."""
    location, fleet = target_of(order), other_of(order) == FLEET
    if location >= LOCATIONS or other_of(order) > FLEET:
        return wp.uint8(0)
    if kind_of(order) != BUILD or tables.province_of[location] != province:
        return wp.uint8(0)
    if not fleet:
        return wp.uint8(wp.where(location < PROVINCES, 1 + power, 0))
    # On a split province a fleet must name its coast; elsewhere a coast would be a location of another province.
    split = tables.first_coast[province] >= 0
    if tables.terrain[province] == INLAND or split != (location >= PROVINCES):
        return wp.uint8(0)
    return unit_at(tables, wp.uint8(FIRST_FLEET + power), location)


@wp.func
def build(games: Games, tables: Tables, game: int, power: int, limit: int) -> None:
    """Carry out up to `limit` builds of a power, in alphabetical order of province."""
    built = int(0)
    for province in range(PROVINCES):
        order = games.orders[game, province]
        if tables.home[province] == power and kind_of(order) == BUILD:
            unit = wp.uint8(0)
            if built < limit and is_free_home(games, tables, game, power, province):
                unit = built_unit(tables, power, province, order)
            if unit != wp.uint8(0):
                games.units[game, province] = unit
                built += 1
            games.results[game, province] = wp.uint8(wp.where(unit != wp.uint8(0), DONE, VOID))


@wp.func
def has_unit(games: Games, game: int, province: int, power: int) -> bool:
    """Return whether a power has a unit in a province."""
    unit = games.units[game, province]
    if unit == wp.uint8(0):
        return False
    return power_of(unit) == power


@wp.func
def remoteness(games: Games, tables: Tables, game: int, province: int, power: int) -> int:
    """Return the rank of a unit for civil disorder; the unit with the highest rank is disbanded first."""
    unit = games.units[game, province]
    fleet = wp.min(form_of(unit), 1)
    # The distance counts in moves. Doubling it leaves the lowest bit for the tie-break: fleets before armies.
    return 2 * int(tables.distance[fleet, location_of(tables, unit, province), power]) + fleet


@wp.func
def disband(games: Games, tables: Tables, game: int, power: int, needed: int) -> None:
    """Carry out the disbands a power ordered, then those it owes by civil disorder."""
    gone = int(0)
    for province in range(PROVINCES):
        if has_unit(games, game, province, power) and kind_of(games.orders[game, province]) != 0:
            legal = kind_of(games.orders[game, province]) == DISBAND and gone < needed
            games.results[game, province] = wp.uint8(wp.where(legal, DONE, VOID))
            if legal:
                games.units[game, province] = wp.uint8(0)
                gone += 1
    while gone < needed:
        worst, most = int(-1), int(-1)
        for province in range(PROVINCES):
            if has_unit(games, game, province, power):
                # Strictly greater: among equals the alphabetically first province stays chosen.
                if remoteness(games, tables, game, province, power) > most:
                    worst, most = province, remoteness(games, tables, game, province, power)
        games.units[game, worst] = wp.uint8(0)
        gone += 1


@wp.func
def adjust(games: Games, tables: Tables, game: int) -> None:
    """Carry out the builds and disbands of all powers.

    Builds come first: a home centre vacated by a disband of the same phase is not free yet.
    """
    for province in range(PROVINCES):
        games.results[game, province] = wp.uint8(wp.where(kind_of(games.orders[game, province]) != 0, VOID, UNORDERED))
    for power in range(POWERS):
        limit = build_limit(games, tables, game, power)
        if limit > 0:
            build(games, tables, game, power, limit)
    for power in range(POWERS):
        limit = build_limit(games, tables, game, power)
        if limit < 0:
            disband(games, tables, game, power, -limit)
