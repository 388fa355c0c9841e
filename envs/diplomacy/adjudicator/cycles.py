"""Breaking the circles that are left when passes find nothing out any more.

What is open depends on what is open. The core is a set of units that depend on each other and on nobody else; there is
one as long as anything is open. If a convoy's own fleets are in the core it is a paradox, and by Szykman's rule its
armies stay where they are and cut nothing. Otherwise the core is a ring of moves, each into the next one's place, and
all of them succeed. Then passes go on: who merely waits for the core is decided by the rules.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.adjudicator.movement import (
    BROKEN,
    NO,
    NO_WAY,
    NOBODY,
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
    """Those of `fleets` of which it is not known whether they are dislodged."""
    found = wp.uint64(0)
    for fleet in range(turn.n):
        if within(fleets, fleet) and not is_lost(turn, fleet) and not is_safe(turn, fleet):
            found = found | bit(fleet)
    return found


@wp.func
def causes_of_move(turn: OrderTurn, unit: int) -> wp.uint64:
    """What an open move waits for: supports, rivals, the unit in its way, its convoy."""
    helpers = turn.backing[unit]
    causes = doubtful(turn, turn.ferries[unit]) if within(open_ways(turn), unit) else wp.uint64(0)
    defender = turn.standing[turn.goal[unit]]
    if defender != NOBODY:
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
    """What an open support waits for: attacks that would dislodge it, and convoys of attacks that would cut it."""
    causes = wp.uint64(0)
    attackers = turn.into[turn.place[unit]] & ~turn.sets[NO_WAY]
    for attacker in range(turn.n):
        if within(attackers, attacker):
            if turn.owner[attacker] != turn.owner[unit] and turn.place[attacker] != turn.goal[unit]:
                causes = causes | doubtful(turn, turn.ferries[attacker])
            else:
                causes = causes | (bit(attacker) & open_moves(turn))
    return causes


@wp.func
def find_causes(turn: OrderTurn, causes: wp.array[wp.uint64]) -> None:
    """For every unit, who it waits for directly or by way of others."""
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
                    causes[fleet] = turn.into[turn.place[fleet]] & moves
    for middle in range(turn.n):
        for unit in range(turn.n):
            if within(causes[unit], middle):
                causes[unit] = causes[unit] | causes[middle]


@wp.func
def find_core(turn: OrderTurn, causes: wp.array[wp.uint64]) -> wp.uint64:
    """Units that wait for each other and for nobody else; empty if there are none."""
    for unit in range(turn.n):
        if within(causes[unit], unit):
            closed = bool(True)
            for other in range(turn.n):
                if within(causes[unit], other) and causes[other] != causes[unit]:
                    closed = False
            if closed:
                return causes[unit]
    return wp.uint64(0)


@wp.func
def break_circle(turn: OrderTurn, core: wp.uint64) -> bool:
    """Szykman's rule for the convoys in the core, or success for the ring that it is; whether it was either."""
    paradox = bool(False)
    ways = open_ways(turn)
    for army in range(turn.n):
        if within(ways, army) and turn.ferries[army] & core != wp.uint64(0):
            paradox = True
            put(turn, NO_WAY, army)
            put(turn, NO, army)
            turn.sets[BROKEN] = turn.sets[BROKEN] | (turn.ferries[army] & core)
    if paradox:
        return True
    ring = core & open_moves(turn)
    turn.sets[YES] = turn.sets[YES] | ring
    return ring != wp.uint64(0)


@wp.func
def settle(turn: OrderTurn, tables: Tables, causes: wp.array[wp.uint64]) -> bool:
    """Decide everything. False if something open did not hang together, which the rules exclude."""
    while (open_moves(turn) | open_supports(turn)) != wp.uint64(0):
        if not tighten(turn, tables):
            find_causes(turn, causes)
            if not break_circle(turn, find_core(turn, causes)):
                return False
    return True
