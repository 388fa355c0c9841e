"""Properties of orders as text, by which the bots of the seed's system choose, such as containing " - " or SPA.

They are computed from packed orders. Where a fleet could move to a split province, its support is written once without
a coast and once for each coast it could reach; `spelling` makes these orders from the listed one.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.adjudicator.parse_orders import (
    CONVOY,
    DISBAND,
    HOLD,
    MOVE,
    SUPPORT,
    SUPPORT_MOVE,
    kind_of,
    other_of,
    target_of,
)
from sparring.envs.diplomacy.board.board import standard_board
from sparring.envs.diplomacy.board.state import Games, Tables, form_of, location_of
from sparring.envs.diplomacy.orders.legal import TARGET

HEL, HOL = (wp.constant(standard_board().provinces.index(code)) for code in ("HEL", "HOL"))
"""The provinces whose names begin with H."""


@wp.func
def spelling(games: Games, tables: Tables, game: int, order: int, number: int) -> int:
    """Return the spelling `number` of a listed order, 0 being the order itself, or -1 if it has fewer."""
    if number == 0:
        return order
    first = tables.first_coast[tables.province_of[target_of(order)]]
    if kind_of(order) != SUPPORT_MOVE or first < 0:
        return -1
    mover = games.units[game, other_of(order)]
    if form_of(mover) == 0:
        return -1
    origin, reached = location_of(tables, mover, other_of(order)), int(0)
    for coast in range(first, first + 2):
        if tables.fleet_next[origin, coast] != wp.uint8(0):
            reached += 1
            if reached == number:
                return order + ((coast - target_of(order)) << TARGET)
    return -1


@wp.func
def has_arrow(order: int) -> bool:
    """Return whether the text contains " - ": a move, a support of a move, or a convoy."""
    kind = kind_of(order)
    return kind == MOVE or kind == SUPPORT_MOVE or kind == CONVOY


@wp.func
def is_support(order: int) -> bool:
    """Return whether the text contains " S "."""
    return kind_of(order) == SUPPORT or kind_of(order) == SUPPORT_MOVE


@wp.func
def standing(games: Games, tables: Tables, game: int, province: int) -> int:
    """Return the location of the unit in a province."""
    return location_of(tables, games.units[game, province], province)


@wp.func
def contains(tables: Tables, name: int, location: int) -> bool:
    """Return whether the name of a location contains another location's name: SPA/NC contains SPA and SPA/NC."""
    return name == location or tables.province_of[name] == location


@wp.func
def support_names(games: Games, tables: Tables, game: int, province: int, order: int, location: int) -> bool:
    """Return whether the text of a support, by the unit in `province`, contains the name of a location."""
    if contains(tables, standing(games, tables, game, province), location):
        return True
    if kind_of(order) == SUPPORT:
        return contains(tables, standing(games, tables, game, target_of(order)), location)
    mover = standing(games, tables, game, other_of(order))
    return contains(tables, mover, location) or contains(tables, target_of(order), location)


@wp.func
def is_on_h(province: int) -> bool:
    """Return whether the name of a province begins with H."""
    return province == HEL or province == HOL


@wp.func
def has_h(province: int, order: int) -> bool:
    """Return whether the text contains " H": a hold, or any order that names Holland or Helgoland."""
    kind = kind_of(order)
    if kind == HOLD or is_on_h(province):
        return True
    if kind == DISBAND:
        return False
    return is_on_h(target_of(order)) or ((kind == SUPPORT_MOVE or kind == CONVOY) and is_on_h(other_of(order)))


@wp.func
def goal_of(tables: Tables, province: int, order: int) -> int:
    """Return the province that the DumbBot of the seed's system values an order by."""
    kind = kind_of(order)
    if kind == MOVE or kind == SUPPORT or kind == SUPPORT_MOVE:
        return tables.province_of[target_of(order)]
    return province
