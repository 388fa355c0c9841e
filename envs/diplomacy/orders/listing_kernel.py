"""The kernel behind `listing.py`: every legal order of all powers in one game, by province.

In winter every free home centre lists the possible builds, and every unit of a power with too many units its disband.
Both list NO_ORDER first, which waives the build or keeps the unit.
"""

import warp as wp

from sparring.envs.diplomacy.adjudicator.adjustments import build_limit, has_unit, is_free_home
from sparring.envs.diplomacy.adjudicator.calendar import FALL, SPRING, WINTER
from sparring.envs.diplomacy.adjudicator.parse_orders import DISBAND
from sparring.envs.diplomacy.board.state import POWERS, PROVINCES, Games, Tables
from sparring.envs.diplomacy.orders.legal import (
    OrderSink,
    Scene,
    build_orders,
    hand,
    movement_orders,
    open_sink,
    retreat_orders,
    survey,
)

wp.set_module_options({"enable_backward": False, "optimization_level": 3})

WAIVE = wp.constant(0)


@wp.func
def turn_to(sink: OrderSink, province: int, listed: wp.array2d[int]) -> OrderSink:
    """Return the sink, emptied and writing into the row of a province."""
    sink.tally[0] = 0
    sink.listed = listed[province]
    return sink


@wp.func
def adjustment_orders(games: Games, tables: Tables, game: int, power: int, province: int, sink: OrderSink) -> None:
    """Hand over the builds or the disband of a power in a province."""
    limit = build_limit(games, tables, game, power)
    if limit > 0:
        if is_free_home(games, tables, game, power, province):
            hand(sink, WAIVE)
            build_orders(tables, province, sink)
    elif limit < 0:
        if has_unit(games, game, province, power):
            hand(sink, WAIVE)
            hand(sink, DISBAND)


@wp.kernel
def list_kernel(games: Games, tables: Tables, game: int, counts: wp.array[int], listed: wp.array2d[int]) -> None:
    """Write the orders of `game` into `listed` [75, room], as many as fit, and their full number into `counts` [75]."""
    # Stack arrays of constant shape: 34 units, 75 provinces.
    tally = wp.zeros(shape=(3,), dtype=int)
    place = wp.zeros(shape=(34,), dtype=int)
    row = wp.zeros(shape=(34,), dtype=int)
    voyages = wp.zeros(shape=(34,), dtype=wp.uint64)
    seas = wp.zeros(shape=(34,), dtype=wp.uint32)
    comers = wp.zeros(shape=(75,), dtype=wp.uint64)
    sink = OrderSink()
    sink.tally = wp.array(ptr=tally.ptr, shape=(3,), dtype=int)
    open_sink(sink, wp.uint32(0))
    for province in range(PROVINCES):
        counts[province] = 0
    if games.done[game] != wp.uint8(0):
        return
    phase = int(games.phase[game])
    if phase == SPRING or phase == FALL:
        scene = Scene()
        scene.place = wp.array(ptr=place.ptr, shape=(34,), dtype=int)
        scene.row = wp.array(ptr=row.ptr, shape=(34,), dtype=int)
        scene.voyages = wp.array(ptr=voyages.ptr, shape=(34,), dtype=wp.uint64)
        scene.seas = wp.array(ptr=seas.ptr, shape=(34,), dtype=wp.uint32)
        scene.comers = wp.array(ptr=comers.ptr, shape=(75,), dtype=wp.uint64)
        scene.n = survey(games, tables, game, scene)
        for unit in range(scene.n):
            province = scene.place[unit]
            sink = turn_to(sink, province, listed)
            movement_orders(games, tables, game, scene, unit, sink)
            counts[province] = sink.tally[0]
        return
    for province in range(PROVINCES):
        sink = turn_to(sink, province, listed)
        if phase == WINTER:
            for power in range(POWERS):
                adjustment_orders(games, tables, game, power, province, sink)
        elif games.dislodged[game, province] != wp.uint8(0):
            retreat_orders(games, tables, game, province, sink)
        counts[province] = sink.tally[0]
