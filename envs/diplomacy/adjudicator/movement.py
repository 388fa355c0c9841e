"""Adjudication of a movement phase: which moves succeed, which supports count, which convoys hold.

The algorithm is L. Kruijswijk's decisions with bounds ("The math of adjudication"). Every decision begins unknown,
strengths have a lower and an upper bound, and passes tighten them until nothing changes. `cycles.py` resolves the
remaining decisions, which depend on themselves. The rules, with own power P:

    support given    unless another power's unit with a way attacks the supporter, from elsewhere than the place the
                     support is given into; or the supporter is dislodged
    hold strength    0 empty or left; 1 a unit that fails to leave; else 1 + supports
    attack strength  0 without a way; 1 + supports if the place is empty or left by its unit, which is not coming the
                     other way; else 0 against P's own unit, and 1 + supports of others than the unit's own power
    prevent strength 0 without a way, or where the unit coming the other way got through; else 1 + supports
    success          attack strength above hold strength (of a unit coming the other way: above 1 + its supports), and
                     above the prevent strength of every other move to the same place

Strengths are pairs (lower bound, upper bound). Units are numbered within the turn, at most 34, so a set of them is one
uint64.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.board.state import Tables, voyage

MOVES, CONVOYED, SUPPORTS = wp.constant(0), wp.constant(1), wp.constant(2)
YES, NO, GIVEN, CUT, WAY, NO_WAY, BROKEN = (wp.constant(number) for number in range(3, 10))
SETS = wp.constant(10)
"""Sets of units, by index into `OrderTurn.sets`.

Orders: MOVES (CONVOYED are those by convoy), SUPPORTS. Decisions: YES and NO for moves, GIVEN and CUT for supports, WAY
and NO_WAY for convoy routes. BROKEN are fleets whose convoy failed by the paradox rule. In neither set of a pair: open.
"""

NO_UNIT = wp.constant(-1)


@wp.struct
class OrderTurn:
    """Orders and decisions of one game's movement phase, for `n` units."""

    n: int
    province: wp.array[int]
    """[34] province of a unit"""
    code: wp.array[int]
    """[34] the unit as `codes.py` writes it"""
    owner: wp.array[int]
    """[34] power of a unit"""
    goal: wp.array[int]
    """[34] province a unit moves to or supports into, -1 for others"""
    backing: wp.array[wp.uint64]
    """[34] supporters of a unit"""
    ferries: wp.array[wp.uint64]
    """[34] fleets that convoy a unit"""
    standing: wp.array[int]
    """[75] unit in a province at the beginning of the phase, or -1"""
    into: wp.array[wp.uint64]
    """[75] units that move to a province"""
    sets: wp.array[wp.uint64]
    """[10] see `MOVES` and so on"""


@wp.func
def bit(unit: int) -> wp.uint64:
    """Return the set of one unit."""
    return wp.uint64(1) << wp.uint64(unit)


@wp.func
def within(units: wp.uint64, unit: int) -> bool:
    """Return whether a unit is in a set."""
    return (units >> wp.uint64(unit)) & wp.uint64(1) != wp.uint64(0)


@wp.func
def count(units: wp.uint64) -> int:
    """Count the units in a set."""
    return int(wp.bit_count(units))


@wp.func
def is_in(turn: OrderTurn, name: int, unit: int) -> bool:
    """Return whether a unit is in one of the turn's sets."""
    return within(turn.sets[name], unit)


@wp.func
def put(turn: OrderTurn, name: int, unit: int) -> None:
    """Add a unit to one of the turn's sets."""
    turn.sets[name] = turn.sets[name] | bit(unit)


@wp.func
def open_moves(turn: OrderTurn) -> wp.uint64:
    """Return the undecided moves."""
    return turn.sets[MOVES] & ~(turn.sets[YES] | turn.sets[NO])


@wp.func
def open_supports(turn: OrderTurn) -> wp.uint64:
    """Return the undecided supports."""
    return turn.sets[SUPPORTS] & ~(turn.sets[GIVEN] | turn.sets[CUT])


@wp.func
def open_ways(turn: OrderTurn) -> wp.uint64:
    """Return the convoyed moves whose route is undecided."""
    return turn.sets[CONVOYED] & ~(turn.sets[WAY] | turn.sets[NO_WAY])


@wp.func
def owned_by(turn: OrderTurn, units: wp.uint64, power: int) -> wp.uint64:
    """Return the members of `units` that belong to a power."""
    members = wp.uint64(0)
    for unit in range(turn.n):
        if within(units, unit) and turn.owner[unit] == power:
            members = members | bit(unit)
    return members


@wp.func
def support(turn: OrderTurn, helpers: wp.uint64) -> wp.vec2i:
    """Return bounds on the number of `helpers` that give their support."""
    return wp.vec2i(count(helpers & turn.sets[GIVEN]), count(helpers & ~turn.sets[CUT]))


@wp.func
def head_on(turn: OrderTurn, unit: int, other: int) -> bool:
    """Return whether two units move into each other's provinces without a convoy."""
    if other == NO_UNIT:
        return False
    if not is_in(turn, MOVES, other) or turn.goal[other] != turn.province[unit]:
        return False
    return (bit(unit) | bit(other)) & turn.sets[CONVOYED] == wp.uint64(0)


@wp.func
def attack_strength(turn: OrderTurn, unit: int) -> wp.vec2i:
    """Return bounds on the attack strength of a move."""
    if is_in(turn, NO_WAY, unit):
        return wp.vec2i(0, 0)
    helpers = turn.backing[unit]
    free = wp.vec2i(1, 1) + support(turn, helpers)
    defender = turn.standing[turn.goal[unit]]
    strength = free
    if defender != NO_UNIT:
        # A unit never dislodges one of its own power, and that power's supports do not count against its own unit.
        against = wp.vec2i(0, 0)
        if turn.owner[defender] != turn.owner[unit]:
            against = wp.vec2i(1, 1) + support(turn, helpers & ~owned_by(turn, helpers, turn.owner[defender]))
        leaves = is_in(turn, MOVES, defender) and not head_on(turn, unit, defender)
        if not leaves or is_in(turn, NO, defender):
            strength = against
        elif not is_in(turn, YES, defender):
            strength = wp.vec2i(against[0], free[1])  # The defender may still stay or leave.
    if is_in(turn, CONVOYED, unit) and not is_in(turn, WAY, unit):
        return wp.vec2i(0, strength[1])
    return strength


@wp.func
def prevent_strength(turn: OrderTurn, unit: int) -> wp.vec2i:
    """Return bounds on the prevent strength of a move: how strongly it keeps others out of its goal."""
    if is_in(turn, NO_WAY, unit):
        return wp.vec2i(0, 0)
    strength = wp.vec2i(1, 1) + support(turn, turn.backing[unit])
    least = strength[0]
    if is_in(turn, CONVOYED, unit) and not is_in(turn, WAY, unit):
        least = 0
    opponent = turn.standing[turn.goal[unit]]
    if head_on(turn, unit, opponent):
        if is_in(turn, YES, opponent):
            return wp.vec2i(0, 0)  # A unit beaten head-on has no effect on the province it was ordered to.
        if not is_in(turn, NO, opponent):
            least = 0
    return wp.vec2i(least, strength[1])


@wp.func
def resistance(turn: OrderTurn, unit: int) -> wp.vec2i:
    """Return bounds on the strength of the defender of a move's goal; of a head-on opponent, its defend strength."""
    defender = turn.standing[turn.goal[unit]]
    if defender == NO_UNIT:
        return wp.vec2i(0, 0)
    # A unit that was ordered to move cannot be supported in place: if it fails, it holds with strength 1.
    if not is_in(turn, MOVES, defender) or head_on(turn, unit, defender):
        return wp.vec2i(1, 1) + support(turn, turn.backing[defender])
    if is_in(turn, YES, defender):
        return wp.vec2i(0, 0)
    if is_in(turn, NO, defender):
        return wp.vec2i(1, 1)
    return wp.vec2i(0, 1)


@wp.func
def decide_move(turn: OrderTurn, unit: int) -> bool:
    """Decide a move if the bounds allow it; return whether they do."""
    attack, resist = attack_strength(turn, unit), resistance(turn, unit)
    least, most = resist[0], resist[1]
    rivals = turn.into[turn.goal[unit]] & ~bit(unit)
    if rivals != wp.uint64(0):
        for rival in range(turn.n):
            if within(rivals, rival):
                prevent = prevent_strength(turn, rival)
                least, most = wp.max(least, prevent[0]), wp.max(most, prevent[1])
    # Decided as soon as the bounds do not overlap; a tie is a failure.
    if attack[0] > most:
        put(turn, YES, unit)
        return True
    if attack[1] <= least:
        put(turn, NO, unit)
        return True
    return False


@wp.func
def decide_support(turn: OrderTurn, unit: int) -> bool:
    """Decide a support if already possible; return whether it is."""
    attackers = turn.into[turn.province[unit]] & ~turn.sets[NO_WAY]
    waiting = bool(False)
    for attacker in range(turn.n):
        if within(attackers, attacker):
            # Only foreign units cut, and not the one the support is directed against; dislodging (YES) always cuts.
            cuts = turn.owner[attacker] != turn.owner[unit] and turn.province[attacker] != turn.goal[unit]
            unsure = is_in(turn, CONVOYED, attacker) and not is_in(turn, WAY, attacker)
            if is_in(turn, YES, attacker) or (cuts and not unsure):
                put(turn, CUT, unit)
                return True
            # An own unit, or the one attacked, cuts only by dislodging: its move has to fail first.
            waiting = waiting or cuts or not is_in(turn, NO, attacker)
    if not waiting:
        put(turn, GIVEN, unit)
    return not waiting


@wp.func
def is_lost(turn: OrderTurn, unit: int) -> bool:
    """Return whether a unit that stays is known to be dislodged."""
    return turn.into[turn.province[unit]] & turn.sets[YES] != wp.uint64(0)


@wp.func
def is_safe(turn: OrderTurn, unit: int) -> bool:
    """Return whether a unit that stays is known not to be dislodged."""
    return turn.into[turn.province[unit]] & ~turn.sets[NO] == wp.uint64(0)


@wp.func
def decide_way(turn: OrderTurn, tables: Tables, unit: int) -> bool:
    """Decide a convoy route if already possible; return whether it is. One intact chain of fleets suffices."""
    # Seas as bits: fleets that survive for certain, and fleets that may survive.
    sure, possible = wp.uint32(0), wp.uint32(0)
    for fleet in range(turn.n):
        if within(turn.ferries[unit], fleet) and not is_lost(turn, fleet):
            sea = wp.uint32(1) << wp.uint32(tables.sea_of[turn.province[fleet]])
            possible = possible | sea
            if is_safe(turn, fleet):
                sure = sure | sea
    if voyage(tables, sure, turn.province[unit], turn.goal[unit]):
        put(turn, WAY, unit)
        return True
    if not voyage(tables, possible, turn.province[unit], turn.goal[unit]):
        put(turn, NO_WAY, unit)
        put(turn, NO, unit)
        return True
    return False


@wp.func
def tighten(turn: OrderTurn, tables: Tables) -> bool:
    """Make one pass over all open decisions; return whether any of them was decided."""
    progress = bool(False)
    for unit in range(turn.n):
        if within(open_ways(turn), unit):
            progress = decide_way(turn, tables, unit) or progress
        if within(open_supports(turn), unit):
            progress = decide_support(turn, unit) or progress
        if within(open_moves(turn), unit):
            progress = decide_move(turn, unit) or progress
    return progress
