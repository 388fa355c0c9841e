"""Everything but movement: retreats, centres changing hands, builds and disbands, and the clock.

A phase in which nobody can do anything is skipped. A dislodged unit that has nowhere to go is disbanded at once. Where
a power orders too few disbands, civil disorder takes the units furthest from its home centres, fleets before armies,
then by the alphabet; where it orders too many builds, or twice the same, what comes first in the alphabet counts.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.adjudicator.apply_moves import CONTESTED, NOTHING
from sparring.envs.diplomacy.adjudicator.parse_orders import DONE, FAILED, UNORDERED, VOID, kind_of, other_of, target_of
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
    landing,
    location_of,
    power_of,
    unit_at,
)

RETREAT, DISBAND, BUILD = (wp.constant(kind) for kind in (codes.RETREAT, codes.DISBAND, codes.BUILD))
SPRING, SPRING_RETREATS, FALL, FALL_RETREATS, WINTER = (wp.constant(phase) for phase in range(5))
SOLO = wp.constant(codes.SOLO)
FIRST_FLEET = wp.constant(1 + codes.NUM_POWERS)


@wp.func
def can_retreat(games: Games, tables: Tables, game: int, province: int, target: int) -> int:
    """Location where the unit dislodged from a province lands if it retreats to `target`; -1 where it may not."""
    unit = games.dislodged[game, province]
    where = landing(tables, unit, location_of(tables, unit, province), target)
    if where < 0:
        return -1
    goal = tables.province_of[where]
    if games.units[game, goal] != wp.uint8(0) or int(games.origin[game, goal]) == CONTESTED:
        return -1
    if int(games.origin[game, province]) == goal:
        return -1
    return where


@wp.func
def has_retreat(games: Games, tables: Tables, game: int, province: int) -> bool:
    """Whether there is anywhere at all to retreat to from a province."""
    for target in range(LOCATIONS):
        if can_retreat(games, tables, game, province, target) >= 0:
            return True
    return False


@wp.func
def drop_the_lost(games: Games, tables: Tables, game: int) -> bool:
    """Disband dislodged units without a retreat; whether any others are left."""
    left = bool(False)
    for province in range(PROVINCES):
        if games.dislodged[game, province] != wp.uint8(0):
            if has_retreat(games, tables, game, province):
                left = True
            else:
                games.dislodged[game, province] = wp.uint8(0)
    return left


@wp.func
def retreat_goal(games: Games, tables: Tables, game: int, province: int) -> int:
    """Where the unit dislodged from a province has been ordered to and may go; -1 where it disbands."""
    order = games.orders[game, province]
    if games.dislodged[game, province] == wp.uint8(0) or kind_of(order) != RETREAT:
        return -1
    if target_of(order) >= LOCATIONS:
        return -1
    return can_retreat(games, tables, game, province, target_of(order))


@wp.func
def retreat_all(games: Games, tables: Tables, game: int, goals: wp.array[int]) -> None:
    """Carry out the retreats; two that go to one province both disband. `goals` [75] is scratch."""
    for province in range(PROVINCES):
        goals[province] = retreat_goal(games, tables, game, province)
    for province in range(PROVINCES):
        games.results[game, province] = wp.uint8(UNORDERED)
        if games.dislodged[game, province] != wp.uint8(0):
            games.results[game, province] = wp.uint8(retreat_one(games, tables, game, province, goals))
    for province in range(PROVINCES):
        if games.results[game, province] == wp.uint8(DONE) and goals[province] >= 0:
            code = unit_at(tables, games.dislodged[game, province], goals[province])
            games.units[game, tables.province_of[goals[province]]] = code
    for province in range(PROVINCES):
        games.dislodged[game, province] = wp.uint8(0)
        games.origin[game, province] = wp.uint8(NOTHING)


@wp.func
def retreat_one(games: Games, tables: Tables, game: int, province: int, goals: wp.array[int]) -> int:
    """How one retreat ends; who cannot or does not go disbands."""
    kind = kind_of(games.orders[game, province])
    if goals[province] < 0:
        if kind == DISBAND:
            return DONE
        return wp.where(kind == 0, UNORDERED, VOID)
    goal = tables.province_of[goals[province]]
    for other in range(PROVINCES):
        if other != province and goals[other] >= 0:
            if tables.province_of[goals[other]] == goal:
                return FAILED
    return DONE


@wp.func
def take_centres(games: Games, tables: Tables, game: int) -> None:
    """After fall a centre belongs to whose unit is in it, and goes on belonging where it is empty."""
    for province in range(PROVINCES):
        centre = tables.centre_of[province]
        unit = games.units[game, province]
        if centre >= 0 and unit != wp.uint8(0):
            games.owner[game, centre] = wp.int8(power_of(unit))


@wp.func
def centres_of(games: Games, game: int, power: int) -> int:
    """Centres a power owns."""
    found = int(0)
    for centre in range(CENTRES):
        if int(games.owner[game, centre]) == power:
            found += 1
    return found


@wp.func
def units_of(games: Games, game: int, power: int) -> int:
    """Units a power has on the board."""
    found = int(0)
    for province in range(PROVINCES):
        unit = games.units[game, province]
        if unit != wp.uint8(0):
            if power_of(unit) == power:
                found += 1
    return found


@wp.func
def is_free_home(games: Games, tables: Tables, game: int, power: int, province: int) -> bool:
    """Whether a power may build in a province."""
    if tables.home[province] != power or games.units[game, province] != wp.uint8(0):
        return False
    return int(games.owner[game, tables.centre_of[province]]) == power


@wp.func
def build_limit(games: Games, tables: Tables, game: int, power: int) -> int:
    """How many units a power may build; below zero, how many it has to disband."""
    spare = centres_of(games, game, power) - units_of(games, game, power)
    if spare <= 0:
        return spare
    free = int(0)
    for province in range(PROVINCES):
        if is_free_home(games, tables, game, power, province):
            free += 1
    return wp.min(spare, free)


@wp.func
def new_unit(tables: Tables, power: int, province: int, order: int) -> wp.uint8:
    """The unit a build order makes in a home centre; 0 where it cannot be."""
    location, fleet = target_of(order), other_of(order) == FLEET
    if location >= LOCATIONS or other_of(order) > FLEET:
        return wp.uint8(0)
    if kind_of(order) != BUILD or tables.province_of[location] != province:
        return wp.uint8(0)
    if not fleet:
        return wp.uint8(wp.where(location < PROVINCES, 1 + power, 0))
    split = tables.first_coast[province] >= 0
    if tables.terrain[province] == INLAND or split != (location >= PROVINCES):
        return wp.uint8(0)
    return unit_at(tables, wp.uint8(FIRST_FLEET + power), location)


@wp.func
def build(games: Games, tables: Tables, game: int, power: int, limit: int) -> None:
    """Carry out a power's builds, in the order of the alphabet."""
    built = int(0)
    for province in range(PROVINCES):
        order = games.orders[game, province]
        if tables.home[province] == power and kind_of(order) == BUILD:
            unit = wp.uint8(0)
            if built < limit and is_free_home(games, tables, game, power, province):
                unit = new_unit(tables, power, province, order)
            if unit != wp.uint8(0):
                games.units[game, province] = unit
                built += 1
            games.results[game, province] = wp.uint8(wp.where(unit != wp.uint8(0), DONE, VOID))


@wp.func
def is_of(games: Games, game: int, province: int, power: int) -> bool:
    """Whether a power has a unit in a province."""
    unit = games.units[game, province]
    if unit == wp.uint8(0):
        return False
    return power_of(unit) == power


@wp.func
def remoteness(games: Games, tables: Tables, game: int, province: int, power: int) -> int:
    """The higher, the sooner civil disorder disbands the unit in a province."""
    unit = games.units[game, province]
    fleet = wp.min(form_of(unit), 1)
    return 2 * int(tables.distance[fleet, location_of(tables, unit, province), power]) + fleet


@wp.func
def disband(games: Games, tables: Tables, game: int, power: int, needed: int) -> None:
    """Carry out a power's disbands, and by civil disorder those it did not order."""
    gone = int(0)
    for province in range(PROVINCES):
        if is_of(games, game, province, power) and kind_of(games.orders[game, province]) != 0:
            wanted = kind_of(games.orders[game, province]) == DISBAND and gone < needed
            games.results[game, province] = wp.uint8(wp.where(wanted, DONE, VOID))
            if wanted:
                games.units[game, province] = wp.uint8(0)
                gone += 1
    while gone < needed:
        worst, most = int(-1), int(-1)
        for province in range(PROVINCES):
            if is_of(games, game, province, power):
                if remoteness(games, tables, game, province, power) > most:
                    worst, most = province, remoteness(games, tables, game, province, power)
        games.units[game, worst] = wp.uint8(0)
        gone += 1


@wp.func
def adjust(games: Games, tables: Tables, game: int) -> None:
    """Winter: every power builds or disbands; builds first, since a centre that is left now is not free yet."""
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


@wp.func
def new_year(games: Games, game: int, last_year: int) -> None:
    """Spring again, or the end where the last year is over."""
    games.phase[game] = wp.int8(SPRING)
    if int(games.year[game]) >= last_year:
        games.done[game] = wp.uint8(1)
    else:
        games.year[game] = wp.int16(int(games.year[game]) + 1)


@wp.func
def end_of_year(games: Games, tables: Tables, game: int, last_year: int) -> None:
    """After fall: centres change hands, a solo ends the game, winter comes where somebody has something to do."""
    take_centres(games, tables, game)
    busy = bool(False)
    for power in range(POWERS):
        if centres_of(games, game, power) >= SOLO:
            games.winner[game] = wp.int8(power)
            games.done[game] = wp.uint8(1)
        busy = busy or build_limit(games, tables, game, power) != 0
    if games.done[game] == wp.uint8(0):
        games.phase[game] = wp.int8(WINTER)
        if not busy:
            new_year(games, game, last_year)


@wp.func
def next_season(games: Games, tables: Tables, game: int, last_year: int) -> None:
    """On to what comes after a movement or retreat phase in which nobody is left to retreat."""
    if int(games.phase[game]) <= SPRING_RETREATS:
        games.phase[game] = wp.int8(FALL)
    else:
        end_of_year(games, tables, game, last_year)
