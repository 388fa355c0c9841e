"""Every legal order of a unit, group by group, always in the same sequence.

A group is a set of orders that differ in one province. An `OrderSink` lists its orders or keeps a random one (reservoir
sampling), so random play does not need storage. A sink with a preference (`order_preferences.py`) keeps one of the
orders with the highest score. Convoys include every route of the fleets at sea, whatever these are ordered to do. Legal
orders are those that `parse_orders.py` does not call void, each in one spelling. An army, a support or a convoy does
not name a coast, a fleet names its own, a move by sea says VIA. A fleet does not support an army that only it could
carry.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.adjudicator.movement import bit
from sparring.envs.diplomacy.adjudicator.parse_orders import (
    BUILD,
    CONVOY,
    DISBAND,
    HOLD,
    MOVE,
    RETREAT,
    SUPPORT,
    SUPPORT_MOVE,
    fleets_at_sea,
)
from sparring.envs.diplomacy.adjudicator.retreats import can_retreat
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import INLAND
from sparring.envs.diplomacy.board.state import (
    COASTS,
    LOCATIONS,
    PROVINCES,
    Games,
    Tables,
    connected,
    form_of,
    location_of,
    spread,
)
from sparring.envs.diplomacy.orders.order_preferences import ANY, preference_score

TARGET, OTHER, VIA = wp.constant(codes.TARGET_SHIFT), wp.constant(codes.OTHER_SHIFT), wp.constant(1 << codes.VIA_SHIFT)


@wp.struct
class OrderSink:
    """Receiver of orders: `listed` holds them all; `tally` [3] is their number, the one kept, and the random state.

    With a preference only the orders with the best score so far count, and `tally` has a fourth entry, that score.
    """

    tally: wp.array[int]
    listed: wp.array[int]
    lists_only: int
    """1 to keep none, which saves the draws."""
    preference: int
    province: int
    """Province of the unit that is ordered; used by preferences only."""


@wp.struct
class Scene:
    """The `n` units of a game by number, and where each could move."""

    n: int
    province: wp.array[int]
    """[34] province"""
    row: wp.array[int]
    """[34] row of the unit in `Tables.reach` and `Tables.landings`"""
    voyages: wp.array[wp.uint64]
    """[34] coasts an army could be carried to, as bits of `Tables.coasts`"""
    seas: wp.array[wp.uint32]
    """[34] seas (bits) whose fleets could take part in carrying it"""
    comers: wp.array[wp.uint64]
    """[75] units that could move to a province, by themselves or by convoy"""


@wp.func
def open_sink(sink: OrderSink, seed: wp.uint32) -> None:
    """Empty the sink and seed its random state."""
    sink.tally[0] = 0
    sink.tally[2] = int(seed)
    if sink.preference != ANY:
        sink.tally[3] = 0


@wp.func
def draw(sink: OrderSink, below: int) -> int:
    """Return a random number in [0, below).

    One step of a linear congruential generator (constants of Numerical Recipes). Its low bits have short periods, so
    half a round of lowbias32 mixes the state, and the product with `below` is taken from the high bits.
    """
    state = wp.uint32(sink.tally[2]) * wp.uint32(1664525) + wp.uint32(1013904223)
    sink.tally[2] = int(state)
    mixed = (state ^ (state >> wp.uint32(16))) * wp.uint32(0x7FEB352D)
    mixed = mixed ^ (mixed >> wp.uint32(15))
    return int((wp.uint64(mixed) * wp.uint64(below)) >> wp.uint64(32))


@wp.func
def hand(sink: OrderSink, order: int) -> None:
    """Hand over one order; the k-th one replaces the order kept with probability 1 / k."""
    if sink.preference != ANY:
        like = preference_score(sink.preference, sink.province, order)
        if like < sink.tally[3]:
            return
        if like > sink.tally[3]:
            sink.tally[0] = 0
            sink.tally[3] = like
    before = sink.tally[0]
    sink.tally[0] = before + 1
    if before < sink.listed.shape[0]:
        sink.listed[before] = order
    if sink.lists_only != 0:
        return
    if draw(sink, before + 1) == 0:
        sink.tally[1] = order


@wp.func
def lowest(members: wp.uint64) -> int:
    """Return the number of the lowest member of a non-empty set."""
    # m & -m isolates the lowest bit; the bits below it are as many as its number.
    return int(wp.bit_count((members & (~members + wp.uint64(1))) - wp.uint64(1)))


@wp.func
def write_group(
    sink: OrderSink, first: int, order: int, shift: int, members: wp.uint64, provinces: wp.array[int]
) -> None:
    """Write a group into the list, from place `first` on, as far as there is room."""
    remaining, at = wp.uint64(members), int(first)
    while remaining != wp.uint64(0) and at < sink.listed.shape[0]:
        sink.listed[at] = order + (provinces[lowest(remaining)] << shift)
        remaining = remaining & (remaining - wp.uint64(1))
        at += 1


@wp.func
def hand_group(sink: OrderSink, order: int, shift: int, members: wp.uint64, provinces: wp.array[int]) -> None:
    """Hand over `order` with each member's province shifted into it, in one draw, with the odds of one by one."""
    size = int(wp.bit_count(members))
    before = int(sink.tally[0])  # A copy: in an assignment of several, Warp would keep looking at the array.
    if size == 0:
        return
    if sink.preference != ANY:
        each = wp.uint64(members)
        for _ in range(size):
            hand(sink, order + (provinces[lowest(each)] << shift))
            each = each & (each - wp.uint64(1))
        return
    sink.tally[0] = before + size
    if before < sink.listed.shape[0]:
        write_group(sink, before, order, shift, members, provinces)
    if sink.lists_only != 0:
        return
    # One draw for the whole group: a member is kept with probability size / (before + size), each equally likely.
    pick = draw(sink, before + size)
    if pick < size:
        remaining = wp.uint64(members)
        for _ in range(pick):
            remaining = remaining & (remaining - wp.uint64(1))
        sink.tally[1] = order + (provinces[lowest(remaining)] << shift)


@wp.func
def survey(games: Games, tables: Tables, game: int, scene: Scene) -> int:
    """Fill `scene` and return the number of units."""
    fleets = fleets_at_sea(games, tables, game)
    n = int(0)
    for province in range(PROVINCES):
        scene.comers[province] = wp.uint64(0)
    for province in range(PROVINCES):
        unit = games.units[game, province]
        if unit != wp.uint8(0):
            scene.province[n] = province
            scene.row[n] = location_of(tables, unit, province)
            scene.voyages[n] = wp.uint64(0)
            scene.seas[n] = wp.uint32(0)
            if form_of(unit) > 0:
                scene.row[n] = scene.row[n] + LOCATIONS
            elif tables.shore[province] & fleets != wp.uint32(0):
                scene.seas[n] = connected(tables, fleets, province)
                embark(tables, scene, n, province)
            # Neighbour lists are padded with -1 and end there.
            side = int(0)
            while tables.reach[scene.row[n], side] >= 0:
                goal = tables.reach[scene.row[n], side]
                scene.comers[goal] = scene.comers[goal] | bit(n)
                side += 1
            n += 1
    return n


@wp.func
def embark(tables: Tables, scene: Scene, unit: int, province: int) -> None:
    """Add the coasts to which an army could be carried."""
    for coast in range(COASTS):
        goal = tables.coasts[coast]
        if tables.shore[goal] & scene.seas[unit] != wp.uint32(0) and goal != province:
            scene.voyages[unit] = scene.voyages[unit] | bit(coast)
            scene.comers[goal] = scene.comers[goal] | bit(unit)


@wp.func
def touched(tables: Tables, fleets: wp.uint32, sea: wp.uint32) -> wp.uint64:
    """Return the coasts (bits of `Tables.coasts`) along the chain of `fleets` that contains `sea`."""
    chain = spread(tables, fleets, sea)
    # Callers intersect the result with the coasts those fleets reach: with all of them in one chain, no limit at all.
    if chain == fleets:
        return ~wp.uint64(0)
    coasts = wp.uint64(0)
    for coast in range(COASTS):
        if tables.shore[tables.coasts[coast]] & chain != wp.uint32(0):
            coasts = coasts | bit(coast)
    return coasts


@wp.func
def find_detours(tables: Tables, scene: Scene, sea: wp.uint32, detours: wp.array[wp.uint32]) -> wp.uint64:
    """Write the seas that armies could use without the fleet at `sea`; return the armies that fleet might carry."""
    passengers = wp.uint64(0)
    for army in range(scene.n):
        if scene.seas[army] & sea != wp.uint32(0):
            passengers = passengers | bit(army)
            detours[army] = connected(tables, scene.seas[army] & ~sea, scene.province[army])
    return passengers


@wp.func
def stranded(tables: Tables, scene: Scene, goal: int, passengers: wp.uint64, detours: wp.array[wp.uint32]) -> wp.uint64:
    """Return the armies that could come to a province only by the convoy of the fleet that would support them."""
    armies = wp.uint64(0)
    remaining = scene.comers[goal] & passengers
    while remaining != wp.uint64(0):
        army = lowest(remaining)
        remaining = remaining & (remaining - wp.uint64(1))
        if tables.army_next[scene.province[army], goal] == wp.uint8(0):
            if detours[army] & tables.shore[goal] == wp.uint32(0):
                armies = armies | bit(army)
    return armies


@wp.func
def movement_orders(games: Games, tables: Tables, game: int, scene: Scene, unit: int, sink: OrderSink) -> None:
    """Hand over all orders of a unit in a movement phase."""
    row, province = scene.row[unit], scene.province[unit]
    # This sequence is part of the action space: actions are indices into it.
    hand(sink, HOLD)
    side = int(0)
    while tables.landings[row, side] >= 0:
        hand(sink, MOVE + (tables.landings[row, side] << TARGET))
        side += 1
    hand_group(sink, MOVE + VIA, TARGET, scene.voyages[unit], tables.coasts)
    sea = wp.uint32(0)
    if tables.sea_of[province] >= 0:
        sea = wp.uint32(1) << wp.uint32(tables.sea_of[province])
    detours = wp.zeros(shape=(34,), dtype=wp.uint32)
    passengers = wp.uint64(0)
    if sea != wp.uint32(0):
        passengers = find_detours(tables, scene, sea, detours)
    near = int(0)
    while tables.reach[row, near] >= 0:
        goal = tables.reach[row, near]
        if games.units[game, goal] != wp.uint8(0):
            hand(sink, SUPPORT + (goal << TARGET))
        friends = scene.comers[goal] & ~bit(unit) & ~stranded(tables, scene, goal, passengers, detours)
        hand_group(sink, SUPPORT_MOVE + (goal << TARGET), OTHER, friends, scene.province)
        near += 1
    if sea != wp.uint32(0):
        for army in range(scene.n):
            if scene.seas[army] & sea != wp.uint32(0):
                goals = scene.voyages[army] & touched(tables, scene.seas[army], sea)
                hand_group(sink, CONVOY + (scene.province[army] << OTHER), TARGET, goals, tables.coasts)


@wp.func
def retreat_orders(games: Games, tables: Tables, game: int, province: int, sink: OrderSink) -> None:
    """Hand over all orders of the unit dislodged from a province."""
    hand(sink, DISBAND)
    for target in range(LOCATIONS):
        if can_retreat(games, tables, game, province, target) == target:
            hand(sink, RETREAT + (target << TARGET))


@wp.func
def build_orders(tables: Tables, province: int, sink: OrderSink) -> None:
    """Hand over all builds in a free home centre."""
    hand(sink, BUILD + (province << TARGET))
    if tables.terrain[province] != INLAND:
        first = tables.first_coast[province]
        if first < 0:
            hand(sink, BUILD + (province << TARGET) + (1 << OTHER))
        else:
            hand(sink, BUILD + (first << TARGET) + (1 << OTHER))
            hand(sink, BUILD + ((first + 1) << TARGET) + (1 << OTHER))
