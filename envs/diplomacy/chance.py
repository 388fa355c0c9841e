"""Random orders for every unit of every power: uniform over each unit's legal orders, reproducible by seed.

In winter a power that may build n units builds all n in home centres drawn at random, of a random kind; one that has to
disband n disbands n drawn at random. Draws depend on the seed, the game's number, its phase and the province alone.
"""

import warp as wp

from envs.diplomacy.legal import (
    Scene,
    Sink,
    build_orders,
    draw,
    movement_orders,
    open_sink,
    retreat_orders,
    survey,
)
from envs.diplomacy.seasons import DISBAND, FALL, SPRING, WINTER, build_limit, is_free_home, is_of
from envs.diplomacy.state import POWERS, PROVINCES, Games, Tables

wp.set_module_options({"enable_backward": False, "optimization_level": 3})


@wp.func
def choose_winter(games: Games, tables: Tables, game: int, power: int, sink: Sink) -> None:
    """A power's builds or disbands, each set of places equally likely."""
    limit = build_limit(games, tables, game, power)
    places, needed = int(0), wp.abs(limit)
    for province in range(PROVINCES):
        if may_adjust(games, tables, game, power, limit, province):
            places += 1
    for province in range(PROVINCES):
        if may_adjust(games, tables, game, power, limit, province):
            if draw(sink, places) < needed:
                sink.found[0] = 0
                sink.found[1] = DISBAND
                if limit > 0:
                    build_orders(tables, province, sink)
                games.orders[game, province] = sink.found[1]
                needed -= 1
            places -= 1


@wp.func
def may_adjust(games: Games, tables: Tables, game: int, power: int, limit: int, province: int) -> bool:
    """Whether a power whose `build_limit` is `limit` may build, or has a unit to disband, in a province."""
    if limit > 0:
        return is_free_home(games, tables, game, power, province)
    return limit < 0 and is_of(games, game, province, power)


@wp.kernel
def random_kernel(games: Games, tables: Tables, seed: int, first: int) -> None:
    """Write random orders for the present phase of game `first + tid`."""
    game = first + wp.tid()
    if games.done[game] != wp.uint8(0):
        return
    found = wp.zeros(shape=(3,), dtype=int)
    place = wp.zeros(shape=(34,), dtype=int)
    row = wp.zeros(shape=(34,), dtype=int)
    voyages = wp.zeros(shape=(34,), dtype=wp.uint64)
    seas = wp.zeros(shape=(34,), dtype=wp.uint32)
    comers = wp.zeros(shape=(75,), dtype=wp.uint64)
    sink = Sink()
    sink.found = wp.array(ptr=found.ptr, shape=(3,), dtype=int)
    sink.listed = wp.array(ptr=found.ptr, shape=(0,), dtype=int)
    phase = int(games.phase[game])
    open_sink(sink, wp.rand_init(seed + 7919 * (5 * int(games.year[game]) + phase), game))
    if phase == WINTER:
        for power in range(POWERS):
            choose_winter(games, tables, game, power, sink)
    elif phase == SPRING or phase == FALL:
        scene = Scene()
        scene.place = wp.array(ptr=place.ptr, shape=(34,), dtype=int)
        scene.row = wp.array(ptr=row.ptr, shape=(34,), dtype=int)
        scene.voyages = wp.array(ptr=voyages.ptr, shape=(34,), dtype=wp.uint64)
        scene.seas = wp.array(ptr=seas.ptr, shape=(34,), dtype=wp.uint32)
        scene.comers = wp.array(ptr=comers.ptr, shape=(75,), dtype=wp.uint64)
        scene.n = survey(games, tables, game, scene)
        for unit in range(scene.n):
            sink.found[0] = 0
            movement_orders(games, tables, game, scene, unit, sink)
            games.orders[game, scene.place[unit]] = sink.found[1]
    else:
        for province in range(PROVINCES):
            if games.dislodged[game, province] != wp.uint8(0):
                sink.found[0] = 0
                retreat_orders(games, tables, game, province, sink)
                games.orders[game, province] = sink.found[1]
