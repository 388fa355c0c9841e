"""Resolution of cyclic dependencies, when the passes of `movement.py` find no further decision.

The undecided units form a dependency graph. Its core is a closed cycle: units that depend on each other and on no unit
outside. If the core contains fleets of an undecided convoy, it is a convoy paradox, and by Szykman's rule (DATC 4.A.2)
the convoyed armies stay and cut no support. Otherwise it is a ring of moves, each into the place of the next, and all
of them succeed. The passes then continue with the units that depended on the core.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.adjudicator.movement import (
    BROKEN,
    NO,
    NO_UNIT,
    NO_WAY,
    YES,
    OrderTurn,
    bit,
    is_lost,
    is_safe,
    open_moves,
    open_supports,
    open_ways,
    put,
    tighten,
    within,
)
from sparring.envs.diplomacy.board.state import Tables


@wp.func
def doubtful(turn: OrderTurn, fleets: wp.uint64) -> wp.uint64:
    """Return the members of `fleets` whose dislodgement is undecided."""
    open_fleets = wp.uint64(0)
    for fleet in range(turn.n):
        if within(fleets, fleet) and not is_lost(turn, fleet) and not is_safe(turn, fleet):
            open_fleets = open_fleets | bit(fleet)
    return open_fleets


@wp.func
def causes_of_move(turn: OrderTurn, unit: int) -> wp.uint64:
    """Return the units an undecided move depends on: supports, rivals, the defender, its convoy."""
    helpers = turn.backing[unit]
    causes = doubtful(turn, turn.ferries[unit]) if within(open_ways(turn), unit) else wp.uint64(0)
    defender = turn.standing[turn.goal[unit]]
    if defender != NO_UNIT:
        helpers = helpers | turn.backing[defender]
        causes = causes | (bit(defender) & open_moves(turn))
    rivals = turn.into[turn.goal[unit]] & ~bit(unit) & ~turn.sets[NO_WAY]
    for rival in range(turn.n):
        if within(rivals, rival):
            helpers = helpers | turn.backing[rival]
            if within(open_ways(turn), rival):
                causes = causes | doubtful(turn, turn.ferries[rival])
    return causes | (helpers & open_supports(turn))


@wp.func
def causes_of_support(turn: OrderTurn, unit: int) -> wp.uint64:
    """Return the units an undecided support depends on: attackers that could dislodge it, convoys of those that cut."""
    causes = wp.uint64(0)
    attackers = turn.into[turn.province[unit]] & ~turn.sets[NO_WAY]
    for attacker in range(turn.n):
        if within(attackers, attacker):
            if turn.owner[attacker] != turn.owner[unit] and turn.province[attacker] != turn.goal[unit]:
                causes = causes | doubtful(turn, turn.ferries[attacker])
            else:
                causes = causes | (bit(attacker) & open_moves(turn))
    return causes


@wp.func
def find_causes(turn: OrderTurn, causes: wp.array[wp.uint64]) -> None:
    """Write the transitive dependencies of every unit to `causes` [34], as sets."""
    moves, supports = open_moves(turn), open_supports(turn)
    for unit in range(turn.n):
        causes[unit] = wp.uint64(0)
        if within(moves, unit):
            causes[unit] = causes_of_move(turn, unit)
        elif within(supports, unit):
            causes[unit] = causes_of_support(turn, unit)
    for army in range(turn.n):
        if within(open_ways(turn), army):
            fleets = doubtful(turn, turn.ferries[army])
            for fleet in range(turn.n):
                if within(fleets, fleet):
                    causes[fleet] = turn.into[turn.province[fleet]] & moves
    # Transitive closure (Warshall), at most 34 x 34 operations on bit sets.
    for middle in range(turn.n):
        for unit in range(turn.n):
            if within(causes[unit], middle):
                causes[unit] = causes[unit] | causes[middle]


@wp.func
def find_core(turn: OrderTurn, causes: wp.array[wp.uint64]) -> wp.uint64:
    """Return a closed cycle of dependencies as a set of units, or the empty set."""
    for unit in range(turn.n):
        if within(causes[unit], unit):
            # Closed: every unit it depends on has the same dependencies, itself included.
            closed = bool(True)
            for other in range(turn.n):
                if within(causes[unit], other) and causes[other] != causes[unit]:
                    closed = False
            if closed:
                return causes[unit]
    return wp.uint64(0)


@wp.func
def break_cycle(turn: OrderTurn, core: wp.uint64) -> bool:
    """Apply Szykman's rule to convoys in the core, else let its ring of moves succeed; return whether either did."""
    paradox = bool(False)
    ways = open_ways(turn)
    for army in range(turn.n):
        if within(ways, army) and turn.ferries[army] & core != wp.uint64(0):
            paradox = True
            put(turn, NO_WAY, army)
            put(turn, NO, army)
            turn.sets[BROKEN] = turn.sets[BROKEN] | (turn.ferries[army] & core)
    # The convoys are resolved first: a ring that needs one of them is then decided by the next pass.
    if paradox:
        return True
    ring = core & open_moves(turn)
    turn.sets[YES] = turn.sets[YES] | ring
    return ring != wp.uint64(0)


@wp.func
def settle(turn: OrderTurn, tables: Tables, causes: wp.array[wp.uint64]) -> bool:
    """Decide all orders; return False if an undecided order is in no cycle, which the rules exclude."""
    while (open_moves(turn) | open_supports(turn)) != wp.uint64(0):
        if not tighten(turn, tables):
            find_causes(turn, causes)
            if not break_cycle(turn, find_core(turn, causes)):
                return False
    return True
