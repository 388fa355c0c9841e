"""The kernel that carries out one phase of every game, one thread per game.

Scratch memory of the adjudication lies on the thread's stack, about two kilobytes; threads share no state.

`by_land_kernel`, launched before it, implements the other choice in DATC 4.A.3, `via="land"`. A move VIA then goes by
land if no fleets are ordered to carry it, as on several sites and in the package `diplomacy`. It rewrites orders: VIA
is removed from the move of an army that can walk, unless fleets ordered to convoy it form an unbroken chain.
"""

import warp as wp

from sparring.envs.diplomacy.adjudicator.adjustments import adjust
from sparring.envs.diplomacy.adjudicator.apply_moves import apply_moves, report
from sparring.envs.diplomacy.adjudicator.calendar import FALL, SPRING, WINTER, new_year, next_season
from sparring.envs.diplomacy.adjudicator.cycles import settle
from sparring.envs.diplomacy.adjudicator.movement import OrderTurn
from sparring.envs.diplomacy.adjudicator.parse_orders import (
    CONVOY,
    MOVE,
    index_units,
    is_on_the_board,
    kind_of,
    other_of,
    read_orders,
    target_of,
    wants_convoy,
)
from sparring.envs.diplomacy.adjudicator.retreats import disband_stranded, retreat_all
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.state import PROVINCES, Games, Tables, form_of, voyage

wp.set_module_options({"enable_backward": False, "optimization_level": 3})

VIA = wp.constant(1 << codes.VIA_SHIFT)


@wp.func
def move(games: Games, tables: Tables, game: int, turn: OrderTurn, causes: wp.array[wp.uint64]) -> bool:
    """Carry out a movement phase; return False if it could not be decided, which the rules exclude."""
    read_orders(games, tables, game, turn)
    decided = settle(turn, tables, causes)
    report(games, game, turn)
    apply_moves(games, tables, game, turn)
    return decided


@wp.kernel
def process_kernel(games: Games, tables: Tables, undecided: wp.array[int], last_year: int, first: int) -> None:
    """Carry out the phase of game `first + tid`, advance to the next phase, and clear the orders."""
    game = first + wp.tid()
    if games.done[game] != wp.uint8(0):
        return
    # 34 units at most (one per supply centre), 75 provinces, 10 sets (`movement.SETS`). Warp reserves stack memory for
    # shapes that are known at compile time only, hence the literals; the struct refers to the arrays by address.
    provinces = wp.zeros(shape=(34,), dtype=int)
    code = wp.zeros(shape=(34,), dtype=int)
    owner = wp.zeros(shape=(34,), dtype=int)
    goal = wp.zeros(shape=(34,), dtype=int)
    backing = wp.zeros(shape=(34,), dtype=wp.uint64)
    ferries = wp.zeros(shape=(34,), dtype=wp.uint64)
    causes = wp.zeros(shape=(34,), dtype=wp.uint64)
    standing = wp.zeros(shape=(75,), dtype=int)
    into = wp.zeros(shape=(75,), dtype=wp.uint64)
    sets = wp.zeros(shape=(10,), dtype=wp.uint64)
    phase = int(games.phase[game])
    if phase == SPRING or phase == FALL:
        turn = OrderTurn()
        turn.province = wp.array(ptr=provinces.ptr, shape=(34,), dtype=int)
        turn.code = wp.array(ptr=code.ptr, shape=(34,), dtype=int)
        turn.owner = wp.array(ptr=owner.ptr, shape=(34,), dtype=int)
        turn.goal = wp.array(ptr=goal.ptr, shape=(34,), dtype=int)
        turn.backing = wp.array(ptr=backing.ptr, shape=(34,), dtype=wp.uint64)
        turn.ferries = wp.array(ptr=ferries.ptr, shape=(34,), dtype=wp.uint64)
        turn.standing = wp.array(ptr=standing.ptr, shape=(75,), dtype=int)
        turn.into = wp.array(ptr=into.ptr, shape=(75,), dtype=wp.uint64)
        turn.sets = wp.array(ptr=sets.ptr, shape=(10,), dtype=wp.uint64)
        turn.n = index_units(games, game, turn)
        if not move(games, tables, game, turn, causes):
            wp.atomic_add(undecided, 0, 1)
        if disband_stranded(games, tables, game):
            games.phase[game] = wp.int8(phase + 1)  # Retreats have the number after their movement phase.
        else:
            next_season(games, tables, game, last_year)
    elif phase == WINTER:
        adjust(games, tables, game)
        new_year(games, game, last_year)
    else:
        retreat_all(games, tables, game, standing)
        next_season(games, tables, game, last_year)
    for province in range(PROVINCES):
        games.orders[game, province] = 0


@wp.func
def ordered_fleets(games: Games, tables: Tables, game: int, army: int, goal: int) -> wp.uint32:
    """Return the seas, as bits, whose fleets are ordered to convoy the army in a province to another."""
    fleets = wp.uint32(0)
    for province in range(PROVINCES):
        order = games.orders[game, province]
        if tables.sea_of[province] >= 0 and games.units[game, province] != wp.uint8(0) and kind_of(order) == CONVOY:
            if is_on_the_board(order):
                if tables.province_of[other_of(order)] == army and tables.province_of[target_of(order)] == goal:
                    fleets = fleets | (wp.uint32(1) << wp.uint32(tables.sea_of[province]))
    return fleets


@wp.kernel
def by_land_kernel(games: Games, tables: Tables, first: int) -> None:
    """Remove VIA from moves of game `first + tid` that an army can walk and no chain of fleets is ordered to carry."""
    game = first + wp.tid()
    phase = int(games.phase[game])
    if games.done[game] != wp.uint8(0) or (phase != SPRING and phase != FALL):
        return
    for province in range(PROVINCES):
        order, unit = games.orders[game, province], games.units[game, province]
        if unit != wp.uint8(0) and kind_of(order) == MOVE and wants_convoy(order) and is_on_the_board(order):
            goal = tables.province_of[target_of(order)]
            if form_of(unit) == 0 and tables.army_next[province, goal] != wp.uint8(0):
                fleets = ordered_fleets(games, tables, game, province, goal)
                if not voyage(tables, fleets, province, goal):
                    games.orders[game, province] = order & ~VIA
