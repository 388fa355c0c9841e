"""The kernel behind `listing.py`: every legal order of all powers, game by game, one province after the other.

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
def list_kernel(
    games: Games, tables: Tables, starts: wp.array2d[int], listed: wp.array2d[int], base: int, first: int
) -> None:
    """Write the orders of game `first + tid` into row `first + tid - base` of `listed` [n, room], as many as fit.

    Those of province p are the entries from `starts[row, p]` [n, 76] up to `starts[row, p + 1]`.
    """
    game = first + wp.tid()
    row = game - base
    # Stack arrays of constant shape: 34 units, 75 provinces.
    tally = wp.zeros(shape=(3,), dtype=int)
    provinces = wp.zeros(shape=(34,), dtype=int)
    unit_row = wp.zeros(shape=(34,), dtype=int)
    voyages = wp.zeros(shape=(34,), dtype=wp.uint64)
    seas = wp.zeros(shape=(34,), dtype=wp.uint32)
    comers = wp.zeros(shape=(75,), dtype=wp.uint64)
    sink = OrderSink()
    sink.tally = wp.array(ptr=tally.ptr, shape=(3,), dtype=int)
    sink.listed = listed[row]
    sink.lists_only = 1
    open_sink(sink, wp.uint32(0))
    running, phase = games.done[game] == wp.uint8(0), int(games.phase[game])
    moving = running and (phase == SPRING or phase == FALL)
    scene = Scene()
    if moving:
        scene.province = wp.array(ptr=provinces.ptr, shape=(34,), dtype=int)
        scene.row = wp.array(ptr=unit_row.ptr, shape=(34,), dtype=int)
        scene.voyages = wp.array(ptr=voyages.ptr, shape=(34,), dtype=wp.uint64)
        scene.seas = wp.array(ptr=seas.ptr, shape=(34,), dtype=wp.uint32)
        scene.comers = wp.array(ptr=comers.ptr, shape=(75,), dtype=wp.uint64)
        scene.n = survey(games, tables, game, scene)
    unit = int(0)
    for province in range(PROVINCES):
        starts[row, province] = sink.tally[0]
        if moving:
            if games.units[game, province] != wp.uint8(0):
                movement_orders(games, tables, game, scene, unit, sink)
                unit += 1
        elif running and phase == WINTER:
            for power in range(POWERS):
                adjustment_orders(games, tables, game, power, province, sink)
        elif running and games.dislodged[game, province] != wp.uint8(0):
            retreat_orders(games, tables, game, province, sink)
    starts[row, PROVINCES] = sink.tally[0]
