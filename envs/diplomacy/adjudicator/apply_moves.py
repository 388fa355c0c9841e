"""Apply a decided movement phase to the board: new positions, dislodged units, and provinces closed to retreats.

Results of the orders are written first, since they refer to the provinces in which the units began the phase.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.adjudicator.movement import (
    BROKEN,
    CONVOYED,
    CUT,
    MOVES,
    NO,
    NO_UNIT,
    NO_WAY,
    YES,
    OrderTurn,
    is_in,
    prevent_strength,
    within,
)
from sparring.envs.diplomacy.adjudicator.parse_orders import target_of
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.state import PROVINCES, Games, Tables, landing, location_of, unit_at

CAME_BY_CONVOY, CONTESTED, NOTHING = (
    wp.constant(mark) for mark in (codes.CAME_BY_CONVOY, codes.CONTESTED, codes.NOTHING)
)
BOUNCED, CUT_OFF, DISRUPTED, DISLODGED_FLAG = (
    wp.constant(mark) for mark in (codes.BOUNCED, codes.CUT, codes.DISRUPTED, codes.DISLODGED_FLAG)
)


@wp.func
def report(games: Games, game: int, turn: OrderTurn) -> None:
    """Write the result code of every order, and the flag of units that were dislodged."""
    for unit in range(turn.n):
        province = turn.province[unit]
        result = int(games.results[game, province])
        if is_in(turn, NO_WAY, unit) or is_in(turn, BROKEN, unit):
            result = DISRUPTED
        elif is_in(turn, NO, unit):
            result = BOUNCED
        elif is_in(turn, CUT, unit):
            result = CUT_OFF
        if not is_in(turn, YES, unit) and turn.into[province] & turn.sets[YES] != wp.uint64(0):
            result += DISLODGED_FLAG
        games.results[game, province] = wp.uint8(result)


@wp.func
def arrive(games: Games, tables: Tables, game: int, turn: OrderTurn, unit: int) -> None:
    """Place a unit that moved, and mark the unit that remains in its goal as dislodged."""
    home, goal = turn.province[unit], turn.goal[unit]
    code = wp.uint8(turn.code[unit])
    # A convoyed army lands in the province. All others land where the order's coast, or the only reachable one, says.
    where = goal
    if not is_in(turn, CONVOYED, unit):
        where = landing(tables, code, location_of(tables, code, home), target_of(games.orders[game, home]))
    games.units[game, goal] = unit_at(tables, code, where)
    loser = turn.standing[goal]
    if loser != NO_UNIT:
        # The unit in the goal is dislodged unless it has left itself.
        if not is_in(turn, YES, loser):
            games.dislodged[game, goal] = wp.uint8(turn.code[loser])
            games.origin[game, goal] = wp.uint8(wp.where(is_in(turn, CONVOYED, unit), CAME_BY_CONVOY, home))


@wp.func
def contest(games: Games, game: int, turn: OrderTurn, unit: int) -> None:
    """Close a province to retreats if a failed move into it left it empty (a standoff)."""
    goal = turn.goal[unit]
    if games.units[game, goal] == wp.uint8(0):
        strength = prevent_strength(turn, unit)
        # Strength 0: no route, or beaten head-on. Such a move causes no standoff.
        if strength[0] > 0:
            games.origin[game, goal] = wp.uint8(CONTESTED)


@wp.func
def apply_moves(games: Games, tables: Tables, game: int, turn: OrderTurn) -> None:
    """Write the outcome of all moves to the board."""
    for province in range(PROVINCES):
        games.dislodged[game, province] = wp.uint8(0)
        games.origin[game, province] = wp.uint8(NOTHING)
    # All movers leave before any of them arrives: rings of moves exchange provinces.
    moved = turn.sets[YES]
    for unit in range(turn.n):
        if within(moved, unit):
            games.units[game, turn.province[unit]] = wp.uint8(0)
    for unit in range(turn.n):
        if within(moved, unit):
            arrive(games, tables, game, turn, unit)
    failed = turn.sets[MOVES] & ~moved
    for unit in range(turn.n):
        if within(failed, unit):
            contest(games, game, turn, unit)
