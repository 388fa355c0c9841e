"""Retreat phases.

A dislodged unit may go to any adjacent empty province except the one its attacker came from and those left empty by a
standoff. An attacker that came by convoy bars no province (DATC 4.A.5). Units that retreat to the same province are all
disbanded. A unit without a retreat is disbanded as soon as it is dislodged.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.adjudicator.apply_moves import CONTESTED, NOTHING
from sparring.envs.diplomacy.adjudicator.parse_orders import (
    DISBAND,
    DONE,
    FAILED,
    RETREAT,
    UNORDERED,
    VOID,
    kind_of,
    target_of,
)
from sparring.envs.diplomacy.board.state import LOCATIONS, PROVINCES, Games, Tables, landing, location_of, unit_at


@wp.func
def can_retreat(games: Games, tables: Tables, game: int, province: int, target: int) -> int:
    """Return the location a unit dislodged from `province` reaches by retreating to `target`, or -1 if illegal."""
    unit = games.dislodged[game, province]
    where = landing(tables, unit, location_of(tables, unit, province), target)
    if where < 0:
        return -1
    goal = tables.province_of[where]
    if games.units[game, goal] != wp.uint8(0) or int(games.origin[game, goal]) == CONTESTED:
        return -1
    # CAME_BY_CONVOY lies outside the range of provinces and therefore never equals `goal`.
    if int(games.origin[game, province]) == goal:
        return -1
    return where


@wp.func
def has_retreat(games: Games, tables: Tables, game: int, province: int) -> bool:
    """Return whether the unit dislodged from a province has a legal retreat."""
    for target in range(LOCATIONS):
        if can_retreat(games, tables, game, province, target) >= 0:
            return True
    return False


@wp.func
def disband_stranded(games: Games, tables: Tables, game: int) -> bool:
    """Disband dislodged units without a retreat; return whether any dislodged units are left."""
    remain = bool(False)
    for province in range(PROVINCES):
        if games.dislodged[game, province] != wp.uint8(0):
            if has_retreat(games, tables, game, province):
                remain = True
            else:
                games.dislodged[game, province] = wp.uint8(0)
    return remain


@wp.func
def retreat_goal(games: Games, tables: Tables, game: int, province: int) -> int:
    """Return the location a dislodged unit was legally ordered to retreat to, or -1 if it disbands."""
    order = games.orders[game, province]
    if games.dislodged[game, province] == wp.uint8(0) or kind_of(order) != RETREAT:
        return -1
    if target_of(order) >= LOCATIONS:
        return -1
    return can_retreat(games, tables, game, province, target_of(order))


@wp.func
def retreat_all(games: Games, tables: Tables, game: int, goals: wp.array[int]) -> None:
    """Carry out all retreats. `goals` [75] is scratch memory."""
    for province in range(PROVINCES):
        goals[province] = retreat_goal(games, tables, game, province)
    for province in range(PROVINCES):
        games.results[game, province] = wp.uint8(UNORDERED)
        if games.dislodged[game, province] != wp.uint8(0):
            games.results[game, province] = wp.uint8(retreat_one(games, tables, game, province, goals))
    # Placed only after every result is known: no retreat may see a province taken by another one.
    for province in range(PROVINCES):
        if games.results[game, province] == wp.uint8(DONE) and goals[province] >= 0:
            code = unit_at(tables, games.dislodged[game, province], goals[province])
            games.units[game, tables.province_of[goals[province]]] = code
    for province in range(PROVINCES):
        games.dislodged[game, province] = wp.uint8(0)
        games.origin[game, province] = wp.uint8(NOTHING)


@wp.func
def retreat_one(games: Games, tables: Tables, game: int, province: int, goals: wp.array[int]) -> int:
    """Return the result code of one retreat; anything but a completed retreat disbands the unit."""
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
