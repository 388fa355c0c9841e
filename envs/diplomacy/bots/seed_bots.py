"""Four bots of the seed's system, which choose by the text of orders.

    chaos_seed        any order with " - ": moves, supports of moves, convoys
    territorial_seed  any order that names a neutral centre; else as chaos_seed
    coordinated_seed  one random unit as chaos_seed; the others any support that names its goal, else any support
    dumbbot_seed      its units in random order, each the order with the best value (`seed_dumbbot_values.py`) that
                      claims no place another unit of it claimed; every order but one of its own place claims its goal

Retreats are chosen in the same way; the seed's system did not order them. In winter three of the bots draw for every
free home centre from all builds and no build, and the alphabetically first ones count. They disband the alphabetically
first units. `dumbbot_seed` shuffles all builds in all free home centres and orders as many as are due; only the first
in a centre counts. Its disbands are random.
"""

import warp as wp

from sparring.envs.diplomacy.adjudicator.adjustments import (
    build_limit,
    centres_of,
    has_unit,
    is_free_home,
    units_of,
)
from sparring.envs.diplomacy.adjudicator.calendar import FALL, SPRING, WINTER
from sparring.envs.diplomacy.adjudicator.parse_orders import DISBAND, target_of
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.state import POWERS, PROVINCES, Games, Tables, power_of
from sparring.envs.diplomacy.bots.chance import begin, of_power
from sparring.envs.diplomacy.bots.order_text import goal_of
from sparring.envs.diplomacy.bots.seed_choice import ARROWS, HELP, TERRITORY, VALUE, SeedChoice, keep_best
from sparring.envs.diplomacy.bots.seed_dumbbot_values import SeedNeighbours, SeedValues, evaluate_provinces
from sparring.envs.diplomacy.orders.legal import (
    OrderSink,
    Scene,
    build_orders,
    draw,
    movement_orders,
    retreat_orders,
    survey,
)
from sparring.envs.diplomacy.orders.order_preferences import ANY

wp.set_module_options({"enable_backward": False, "optimization_level": 3, "max_unroll": 1})

CHAOS_SEED, COORDINATED_SEED, TERRITORIAL_SEED, DUMBBOT_SEED = (
    wp.constant(codes.BOTS.index(f"{name}_seed")) for name in ("chaos", "coordinated", "territorial", "dumbbot")
)


@wp.func
def is_seed_bot(bot: int) -> bool:
    """Return whether a number is the number of one of these bots."""
    return bot == CHAOS_SEED or bot == COORDINATED_SEED or bot == TERRITORIAL_SEED or bot == DUMBBOT_SEED


@wp.func
def aim_of(bot: int) -> int:
    """Return the aim of a bot's units; for a coordinated power, the attacker's aim."""
    aim = int(-1)
    if bot == TERRITORIAL_SEED:
        aim = TERRITORY
    elif bot == DUMBBOT_SEED:
        aim = VALUE
    elif bot == CHAOS_SEED or bot == COORDINATED_SEED:
        aim = ARROWS
    return aim


@wp.func
def shuffled_units(games: Games, game: int, scene: Scene, power: int, units: wp.array[int], sink: OrderSink) -> int:
    """Write the scene's numbers of a power's units into `units` in random order; return how many they are."""
    n = int(0)
    for unit in range(scene.n):
        if has_unit(games, game, scene.province[unit], power):
            # Insert at a random place: the unit that was there goes to the end.
            slot = draw(sink, n + 1)
            units[n] = units[slot]
            units[slot] = unit
            n += 1
    return n


@wp.func
def move_power(
    games: Games,
    tables: Tables,
    game: int,
    scene: Scene,
    power: int,
    values: SeedValues,
    choice: SeedChoice,
    units: wp.array[int],
    seed: int,
    sink: OrderSink,
) -> None:
    """Write a power's movement orders."""
    bot = games.players[game, power]
    begin(games, game, seed, of_power(power), sink)
    n = shuffled_units(games, game, scene, power, units, sink)
    for turn in range(n):
        province = scene.province[units[turn]]
        choice.aim = aim_of(bot)
        if bot == COORDINATED_SEED and turn > 0:
            choice.aim = HELP
        begin(games, game, seed, province, sink)
        movement_orders(games, tables, game, scene, units[turn], sink)
        best = keep_best(games, tables, game, values, choice, province, sink.tally[0])
        order = choice.best[draw(sink, best)]
        games.orders[game, province] = order
        if turn == 0:
            choice.goal = target_of(order)
        if goal_of(tables, province, order) != province:
            choice.claimed[goal_of(tables, province, order)] = wp.uint8(1)


@wp.func
def retreat_power(
    games: Games,
    tables: Tables,
    game: int,
    power: int,
    values: SeedValues,
    choice: SeedChoice,
    seed: int,
    sink: OrderSink,
) -> None:
    """Write orders for a power's dislodged units."""
    choice.aim = aim_of(games.players[game, power])
    for province in range(PROVINCES):
        unit = games.dislodged[game, province]
        if unit != wp.uint8(0):
            if power_of(unit) == power:
                begin(games, game, seed, province, sink)
                retreat_orders(games, tables, game, province, sink)
                best = keep_best(games, tables, game, values, choice, province, sink.tally[0])
                games.orders[game, province] = choice.best[draw(sink, best)]


@wp.func
def build_anywhere(games: Games, tables: Tables, game: int, power: int, limit: int, sink: OrderSink) -> None:
    """Draw a build or none for every free home centre, until `limit` are ordered."""
    remaining = int(limit)
    for province in range(PROVINCES):
        if is_free_home(games, tables, game, power, province):
            sink.tally[0] = 0
            build_orders(tables, province, sink)
            pick = draw(sink, sink.tally[0] + 1)
            if pick < sink.tally[0] and remaining > 0:
                games.orders[game, province] = sink.listed[pick]
                remaining -= 1


@wp.func
def build_shuffled(games: Games, tables: Tables, game: int, power: int, due: int, sink: OrderSink) -> None:
    """Draw `due` of all builds in all free home centres; the first one in a centre counts."""
    sink.tally[0] = 0
    for province in range(PROVINCES):
        if is_free_home(games, tables, game, power, province):
            build_orders(tables, province, sink)
    n = int(sink.tally[0])
    for _ in range(wp.min(due, n)):
        pick = draw(sink, n)
        order = sink.listed[pick]
        n -= 1
        sink.listed[pick] = sink.listed[n]
        province = tables.province_of[target_of(order)]
        if games.orders[game, province] == 0:
            games.orders[game, province] = order


@wp.func
def disband_units(games: Games, game: int, power: int, due: int, first: bool, sink: OrderSink) -> None:
    """Disband `due` of a power's units, the first in alphabetical order or random ones."""
    places, needed = units_of(games, game, power), int(due)
    for province in range(PROVINCES):
        if has_unit(games, game, province, power):
            # Selection sampling: with `places` left and `needed` missing, take this one with odds needed / places.
            if draw(sink, wp.where(first, 1, places)) < needed:
                games.orders[game, province] = DISBAND
                needed -= 1
            places -= 1


@wp.func
def adjust_power(games: Games, tables: Tables, game: int, power: int, sink: OrderSink) -> None:
    """Write a power's builds or disbands."""
    limit = build_limit(games, tables, game, power)
    values = games.players[game, power] == DUMBBOT_SEED
    for province in range(PROVINCES):
        if has_unit(games, game, province, power) or is_free_home(games, tables, game, power, province):
            games.orders[game, province] = 0
    if limit < 0:
        disband_units(games, game, power, -limit, not values, sink)
    elif limit > 0 and values:
        build_shuffled(games, tables, game, power, centres_of(games, game, power) - units_of(games, game, power), sink)
    elif limit > 0:
        build_anywhere(games, tables, game, power, limit, sink)


@wp.func
def any_seed_bot(games: Games, game: int) -> bool:
    """Return whether one of these bots plays in a running game."""
    any_bot = bool(False)
    for power in range(POWERS):
        any_bot = any_bot or is_seed_bot(games.players[game, power])
    return any_bot and games.done[game] == wp.uint8(0)


@wp.kernel
def seed_bots_kernel(games: Games, tables: Tables, near: SeedNeighbours, seed: int, first: int) -> None:
    """Write these bots' orders for the current phase of game `first + tid`."""
    game = first + wp.tid()
    if not any_seed_bot(games, game):
        return
    # 34 units, 75 provinces, 1082 legal orders of a unit at most, each in three spellings at most.
    tally = wp.zeros(shape=(3,), dtype=int)
    provinces = wp.zeros(shape=(34,), dtype=int)
    row = wp.zeros(shape=(34,), dtype=int)
    voyages = wp.zeros(shape=(34,), dtype=wp.uint64)
    seas = wp.zeros(shape=(34,), dtype=wp.uint32)
    comers = wp.zeros(shape=(75,), dtype=wp.uint64)
    value = wp.zeros(shape=(75,), dtype=wp.float64)
    last = wp.zeros(shape=(75,), dtype=wp.float64)
    valued = wp.zeros(shape=(75,), dtype=wp.uint8)
    claimed = wp.zeros(shape=(75,), dtype=wp.uint8)
    listed = wp.zeros(shape=(1082,), dtype=int)
    best = wp.zeros(shape=(3246,), dtype=int)
    order_of_units = wp.zeros(shape=(34,), dtype=int)
    sink = OrderSink()
    sink.tally = wp.array(ptr=tally.ptr, shape=(3,), dtype=int)
    sink.listed = wp.array(ptr=listed.ptr, shape=(1082,), dtype=int)
    sink.preference = ANY
    scene = Scene()
    scene.province = wp.array(ptr=provinces.ptr, shape=(34,), dtype=int)
    scene.row = wp.array(ptr=row.ptr, shape=(34,), dtype=int)
    scene.voyages = wp.array(ptr=voyages.ptr, shape=(34,), dtype=wp.uint64)
    scene.seas = wp.array(ptr=seas.ptr, shape=(34,), dtype=wp.uint32)
    scene.comers = wp.array(ptr=comers.ptr, shape=(75,), dtype=wp.uint64)
    values = SeedValues()
    values.value = wp.array(ptr=value.ptr, shape=(75,), dtype=wp.float64)
    values.last = wp.array(ptr=last.ptr, shape=(75,), dtype=wp.float64)
    values.valued = wp.array(ptr=valued.ptr, shape=(75,), dtype=wp.uint8)
    choice = SeedChoice()
    choice.claimed = wp.array(ptr=claimed.ptr, shape=(75,), dtype=wp.uint8)
    choice.listed = wp.array(ptr=listed.ptr, shape=(1082,), dtype=int)
    choice.best = wp.array(ptr=best.ptr, shape=(3246,), dtype=int)
    units = wp.array(ptr=order_of_units.ptr, shape=(34,), dtype=int)
    phase = int(games.phase[game])
    if phase == SPRING or phase == FALL:
        scene.n = survey(games, tables, game, scene)
    for power in range(POWERS):
        bot = games.players[game, power]
        if is_seed_bot(bot):
            if bot == DUMBBOT_SEED and phase != WINTER:
                evaluate_provinces(games, tables, near, game, power, values)
            for province in range(PROVINCES):
                choice.claimed[province] = wp.uint8(0)
            if phase == WINTER:
                begin(games, game, seed, of_power(power), sink)
                adjust_power(games, tables, game, power, sink)
            elif phase == SPRING or phase == FALL:
                move_power(games, tables, game, scene, power, values, choice, units, seed, sink)
            else:
                retreat_power(games, tables, game, power, values, choice, seed, sink)
