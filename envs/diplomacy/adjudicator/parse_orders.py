"""Packed orders of a movement phase as an `OrderTurn`; orders that cannot be followed count as holds.

A unit moves by convoy where it cannot go by land, or where its order asks for a convoy and fleets at sea could carry
it. A move is void if no fleets on the board could convoy it; if they could but are not ordered to, it fails.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.adjudicator.movement import (
    CONVOYED,
    MOVES,
    NO_UNIT,
    SETS,
    SUPPORTS,
    OrderTurn,
    bit,
    is_in,
    put,
)
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.state import (
    LOCATIONS,
    PROVINCES,
    Games,
    Tables,
    can_reach,
    form_of,
    landing,
    location_of,
    power_of,
    spread,
    voyage,
)

HOLD, MOVE, SUPPORT, SUPPORT_MOVE, CONVOY, RETREAT, DISBAND, BUILD = (
    wp.constant(kind) for kind in range(codes.HOLD, codes.BUILD + 1)
)
UNORDERED, DONE, VOID, FAILED = (
    wp.constant(result) for result in (codes.UNORDERED, codes.DONE, codes.VOID, codes.FAILED)
)


@wp.func
def kind_of(order: int) -> int:
    """Return the kind of a packed order (layout in `codes.py`)."""
    return order & codes.KIND_MASK


@wp.func
def target_of(order: int) -> int:
    """Return the target location of a packed order."""
    return (order >> codes.TARGET_SHIFT) & codes.LOCATION_MASK


@wp.func
def other_of(order: int) -> int:
    """Return the second location of a packed order."""
    return (order >> codes.OTHER_SHIFT) & codes.LOCATION_MASK


@wp.func
def is_on_the_board(order: int) -> bool:
    """Return whether both locations exist; indexing the tables with them is then safe."""
    return target_of(order) < LOCATIONS and other_of(order) < LOCATIONS


@wp.func
def wants_convoy(order: int) -> bool:
    """Return whether a move asks for a convoy."""
    return (order >> codes.VIA_SHIFT) & 1 == 1


@wp.func
def fleets_at_sea(games: Games, tables: Tables, game: int) -> wp.uint32:
    """Return the seas with a fleet, as bits."""
    seas = wp.uint32(0)
    for province in range(PROVINCES):
        if tables.sea_of[province] >= 0 and games.units[game, province] != wp.uint8(0):
            seas = seas | (wp.uint32(1) << wp.uint32(tables.sea_of[province]))
    return seas


@wp.func
def index_units(games: Games, game: int, turn: OrderTurn) -> int:
    """Number the units by province, clear the turn and the last results, and return the number of units."""
    n = int(0)
    for province in range(PROVINCES):
        turn.standing[province] = NO_UNIT
        turn.into[province] = wp.uint64(0)
        games.results[game, province] = wp.uint8(UNORDERED)
        unit = games.units[game, province]
        if unit != wp.uint8(0):
            turn.province[n] = province
            turn.code[n] = int(unit)
            turn.owner[n] = power_of(unit)
            turn.goal[n] = -1
            turn.backing[n] = wp.uint64(0)
            turn.ferries[n] = wp.uint64(0)
            turn.standing[province] = n
            n += 1
    for name in range(SETS):
        turn.sets[name] = wp.uint64(0)
    return n


@wp.func
def destination(tables: Tables, unit: wp.uint8, province: int, order: int, fleets: wp.uint32) -> int:
    """Return the location a move leads to, plus 1000 if by convoy, or -1 without a route."""
    # 1000 exceeds every location: one int carries both results, since these functions return scalars.
    target = target_of(order)
    goal = tables.province_of[target]
    alone = landing(tables, unit, location_of(tables, unit, province), target)
    ferried = bool(False)
    if form_of(unit) == 0 and goal != province:
        if alone < 0 or wants_convoy(order):
            ferried = voyage(tables, fleets, province, goal)
    if ferried:
        return goal + 1000
    return alone


@wp.func
def read_move(games: Games, tables: Tables, game: int, turn: OrderTurn, unit: int, fleets: wp.uint32) -> int:
    """Record a move; return DONE or VOID."""
    province = turn.province[unit]
    order = games.orders[game, province]
    where = destination(tables, games.units[game, province], province, order, fleets)
    if where < 0:
        return VOID
    if where >= 1000:
        where -= 1000
        put(turn, CONVOYED, unit)
    put(turn, MOVES, unit)
    turn.goal[unit] = tables.province_of[where]
    turn.into[turn.goal[unit]] = turn.into[turn.goal[unit]] | bit(unit)
    return DONE


@wp.func
def read_support(games: Games, tables: Tables, game: int, turn: OrderTurn, unit: int, fleets: wp.uint32) -> int:
    """Record a support; return DONE, FAILED if the supported unit has another order, or VOID if it is illegal."""
    province = turn.province[unit]
    order = games.orders[game, province]
    helped = tables.province_of[target_of(order)]
    goal = helped
    if kind_of(order) == SUPPORT_MOVE:
        helped = tables.province_of[other_of(order)]
    code = games.units[game, province]
    friend = turn.standing[helped]
    if friend == NO_UNIT or helped == province or goal == province:
        return VOID
    if not can_reach(tables, code, location_of(tables, code, province), goal):
        return VOID
    if helped != goal or kind_of(order) == SUPPORT_MOVE:
        # A fleet cannot support an army that only this fleet could convoy: supporting, it does not convoy.
        carriers = fleets
        if tables.sea_of[province] >= 0:
            carriers = fleets & ~(wp.uint32(1) << wp.uint32(tables.sea_of[province]))
        if not could_come(tables, games.units[game, helped], helped, goal, carriers):
            return VOID
    turn.goal[unit] = goal
    if kind_of(order) == SUPPORT:
        if is_in(turn, MOVES, friend):
            return FAILED
    else:
        if not is_in(turn, MOVES, friend) or turn.goal[friend] != goal:
            return FAILED
        if not same_coast(games, tables, game, helped, target_of(order)):
            return FAILED
    put(turn, SUPPORTS, unit)
    turn.backing[friend] = turn.backing[friend] | bit(unit)
    return DONE


@wp.func
def could_come(tables: Tables, unit: wp.uint8, province: int, goal: int, fleets: wp.uint32) -> bool:
    """Return whether a unit could be ordered from one province to another, by land or carried by `fleets` (bits)."""
    if can_reach(tables, unit, location_of(tables, unit, province), goal):
        return True
    return form_of(unit) == 0 and province != goal and voyage(tables, fleets, province, goal)


@wp.func
def same_coast(games: Games, tables: Tables, game: int, mover: int, target: int) -> bool:
    """Return whether a support that names a coast names the one the fleet in province `mover` moves to."""
    unit = games.units[game, mover]
    if target < PROVINCES or form_of(unit) == 0:  # An army's coast is ignored.
        return True
    return landing(tables, unit, location_of(tables, unit, mover), target_of(games.orders[game, mover])) == target


@wp.func
def read_convoy(games: Games, tables: Tables, game: int, turn: OrderTurn, unit: int, fleets: wp.uint32) -> int:
    """Record a convoy; return DONE, FAILED if its army does not move there by sea, or VOID if it is illegal.

    It is legal if the chain of fleets at sea that contains this one touches both coasts.
    """
    province = turn.province[unit]
    order = games.orders[game, province]
    army, goal = tables.province_of[other_of(order)], tables.province_of[target_of(order)]
    passenger = turn.standing[army]
    if tables.sea_of[province] < 0 or passenger == NO_UNIT or army == goal:
        return VOID
    if form_of(games.units[game, army]) != 0:
        return VOID
    # Fleets at sea, whatever their orders: legality depends on positions only.
    chain = spread(tables, fleets, wp.uint32(1) << wp.uint32(tables.sea_of[province]))
    if chain & tables.shore[army] == wp.uint32(0) or chain & tables.shore[goal] == wp.uint32(0):
        return VOID
    if not is_in(turn, CONVOYED, passenger) or turn.goal[passenger] != goal:
        return FAILED
    turn.ferries[passenger] = turn.ferries[passenger] | bit(unit)
    return DONE


@wp.func
def read_orders(games: Games, tables: Tables, game: int, turn: OrderTurn) -> None:
    """Fill `turn` from the orders and write a first result of each order: DONE, FAILED, VOID or UNORDERED.

    Expects `index_units` to have been called. Moves are read before supports and convoys, which refer to them.
    """
    fleets = fleets_at_sea(games, tables, game)
    for unit in range(turn.n):
        order = games.orders[game, turn.province[unit]]
        kind = kind_of(order)
        result = UNORDERED
        if not is_on_the_board(order):
            result = VOID
        elif kind == MOVE:
            result = read_move(games, tables, game, turn, unit, fleets)
        elif kind == HOLD:
            result = DONE
        elif kind > CONVOY:
            result = VOID
        games.results[game, turn.province[unit]] = wp.uint8(result)
    for unit in range(turn.n):
        order = games.orders[game, turn.province[unit]]
        kind = wp.where(is_on_the_board(order), kind_of(order), HOLD)
        if kind == SUPPORT or kind == SUPPORT_MOVE:
            games.results[game, turn.province[unit]] = wp.uint8(read_support(games, tables, game, turn, unit, fleets))
        elif kind == CONVOY:
            games.results[game, turn.province[unit]] = wp.uint8(read_convoy(games, tables, game, turn, unit, fleets))
