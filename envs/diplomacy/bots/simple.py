"""The five simple bots, which choose among the legal orders of a unit without looking at the position.

In a movement phase each gives its units:

    random       any legal order of each unit
    chaos        a move, if the unit has one
    defensive    a support of any unit; else a hold
    territorial  an order in which the name of a neutral centre occurs (Belgium, Serbia, ...); else a move
    coordinated  one random unit moves; the others support it where they can, else as defensive

Each matching order is equally likely. In retreats all five draw from every legal order. In winter a power that may
build n units builds n units of random kinds in random home centres. A power that has to disband n units disbands n
random ones.
"""

import warp as wp

from sparring.envs.diplomacy.adjudicator.adjustments import build_limit, has_unit, is_free_home
from sparring.envs.diplomacy.adjudicator.calendar import FALL, SPRING, WINTER
from sparring.envs.diplomacy.adjudicator.parse_orders import (
    DISBAND,
    MOVE,
    SUPPORT_MOVE,
    could_come,
    fleets_at_sea,
    kind_of,
    target_of,
)
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.state import POWERS, PROVINCES, Games, Tables, can_reach, location_of, power_of
from sparring.envs.diplomacy.bots.chance import begin, of_power
from sparring.envs.diplomacy.orders.legal import (
    OTHER,
    TARGET,
    OrderSink,
    Scene,
    build_orders,
    draw,
    movement_orders,
    retreat_orders,
    survey,
)
from sparring.envs.diplomacy.orders.order_preferences import ANY, MOVES_FIRST, NEUTRALS_FIRST, SUPPORTS_FIRST

wp.set_module_options({"enable_backward": False, "optimization_level": 3})

RANDOM, CHAOS, DEFENSIVE, TERRITORIAL, COORDINATED = (
    wp.constant(codes.BOTS.index(name)) for name in ("random", "chaos", "defensive", "territorial", "coordinated")
)
NO_BOT = wp.constant(codes.ACTIONS)


@wp.func
def is_simple(bot: int) -> bool:
    """Return whether a number is the number of one of these bots."""
    return bot == RANDOM or bot == CHAOS or bot == DEFENSIVE or bot == TERRITORIAL or bot == COORDINATED


@wp.func
def bot_of(games: Games, game: int, unit: wp.uint8) -> int:
    """Return the bot that orders a unit, -1 for any other player."""
    if unit == wp.uint8(0):
        return NO_BOT
    bot = games.players[game, power_of(unit)]
    return wp.where(is_simple(bot), bot, NO_BOT)


@wp.func
def preference_of(bot: int) -> int:
    """Return the order preference of a bot."""
    preference = int(NO_BOT)
    if bot == RANDOM:
        preference = ANY
    elif bot == CHAOS:
        preference = MOVES_FIRST
    elif bot == TERRITORIAL:
        preference = NEUTRALS_FIRST
    elif bot == DEFENSIVE or bot == COORDINATED:
        preference = SUPPORTS_FIRST
    return preference


@wp.func
def choose_attackers(games: Games, game: int, scene: Scene, seed: int, sink: OrderSink) -> wp.uint64:
    """Return the attacking units of coordinated powers, one each, as a set."""
    attackers = wp.uint64(0)
    for power in range(POWERS):
        if games.players[game, power] == COORDINATED:
            begin(games, game, seed, of_power(power), sink)
            count, chosen = int(0), int(0)
            for unit in range(scene.n):
                if has_unit(games, game, scene.province[unit], power):
                    count += 1
                    # Reservoir sampling: each of the power's units is equally likely.
                    if draw(sink, count) == 0:
                        chosen = unit
            if count > 0:
                attackers = attackers | (wp.uint64(1) << wp.uint64(chosen))
    return attackers


@wp.func
def help_attack(games: Games, tables: Tables, game: int, province: int, attacker: int) -> int:
    """Return the order by which a unit supports its power's attacker, or 0 if it cannot."""
    order = games.orders[game, attacker]
    if kind_of(order) != MOVE:
        return 0
    unit, goal = games.units[game, province], tables.province_of[target_of(order)]
    if not can_reach(tables, unit, location_of(tables, unit, province), goal):
        return 0
    fleets = fleets_at_sea(games, tables, game)
    if tables.sea_of[province] >= 0:
        fleets = fleets & ~(wp.uint32(1) << wp.uint32(tables.sea_of[province]))
    if not could_come(tables, games.units[game, attacker], attacker, goal, fleets):
        return 0
    return SUPPORT_MOVE + (goal << TARGET) + (attacker << OTHER)


@wp.func
def choose_movement(games: Games, tables: Tables, game: int, scene: Scene, seed: int, sink: OrderSink) -> None:
    """Write movement orders; attackers come first, since the others support their moves."""
    attackers = choose_attackers(games, game, scene, seed, sink)
    # Province of each power's attacker, -1 for none.
    leader = wp.vector(-1, length=7, dtype=int)
    for turn in range(2):
        for unit in range(scene.n):
            province = scene.province[unit]
            bot = bot_of(games, game, games.units[game, province])
            attacks = (attackers >> wp.uint64(unit)) & wp.uint64(1) == wp.uint64(1)
            if bot != NO_BOT and attacks == (turn == 0):
                power = power_of(games.units[game, province])
                order = int(0)
                if bot == COORDINATED and turn == 1:
                    order = help_attack(games, tables, game, province, leader[power])
                if order == 0:
                    sink.preference = wp.where(turn == 0, MOVES_FIRST, preference_of(bot))
                    sink.province = province
                    begin(games, game, seed, province, sink)
                    movement_orders(games, tables, game, scene, unit, sink)
                    order = sink.tally[1]
                games.orders[game, province] = order
                if turn == 0:
                    leader[power] = province


@wp.func
def choose_retreats(games: Games, tables: Tables, game: int, seed: int, sink: OrderSink) -> None:
    """Write orders for the dislodged units of these bots."""
    for province in range(PROVINCES):
        if bot_of(games, game, games.dislodged[game, province]) != NO_BOT:
            begin(games, game, seed, province, sink)
            retreat_orders(games, tables, game, province, sink)
            games.orders[game, province] = sink.tally[1]


@wp.func
def choose_adjustments(games: Games, tables: Tables, game: int, power: int, sink: OrderSink) -> None:
    """Write a power's builds or disbands, each set of places equally likely."""
    limit = build_limit(games, tables, game, power)
    places, needed = int(0), wp.abs(limit)
    for province in range(PROVINCES):
        if may_adjust(games, tables, game, power, limit, province):
            places += 1
    for province in range(PROVINCES):
        if may_adjust(games, tables, game, power, limit, province):
            games.orders[game, province] = 0
            # Selection sampling: with `places` left and `needed` missing, take this one with odds needed / places.
            if draw(sink, places) < needed:
                sink.tally[0] = 0
                sink.tally[1] = DISBAND
                if limit > 0:
                    build_orders(tables, province, sink)
                games.orders[game, province] = sink.tally[1]
                needed -= 1
            places -= 1


@wp.func
def may_adjust(games: Games, tables: Tables, game: int, power: int, limit: int, province: int) -> bool:
    """Return whether a power whose `build_limit` is `limit` may build, or has a unit to disband, in a province."""
    if limit > 0:
        return is_free_home(games, tables, game, power, province)
    return limit < 0 and has_unit(games, game, province, power)


@wp.func
def any_plays(games: Games, game: int) -> bool:
    """Return whether one of these bots plays in a running game."""
    any_bot = bool(False)
    for power in range(POWERS):
        any_bot = any_bot or is_simple(games.players[game, power])
    return any_bot and games.done[game] == wp.uint8(0)


@wp.kernel
def bots_kernel(games: Games, tables: Tables, seed: int, first: int) -> None:
    """Write these bots' orders for the current phase of game `first + tid`."""
    game = first + wp.tid()
    if not any_plays(games, game):
        return
    tally = wp.zeros(shape=(4,), dtype=int)
    provinces = wp.zeros(shape=(34,), dtype=int)
    row = wp.zeros(shape=(34,), dtype=int)
    voyages = wp.zeros(shape=(34,), dtype=wp.uint64)
    seas = wp.zeros(shape=(34,), dtype=wp.uint32)
    comers = wp.zeros(shape=(75,), dtype=wp.uint64)
    sink = OrderSink()
    sink.tally = wp.array(ptr=tally.ptr, shape=(4,), dtype=int)
    sink.listed = wp.array(ptr=tally.ptr, shape=(0,), dtype=int)
    sink.preference = ANY
    phase = int(games.phase[game])
    if phase == WINTER:
        for power in range(POWERS):
            if is_simple(games.players[game, power]):
                begin(games, game, seed, of_power(power), sink)
                choose_adjustments(games, tables, game, power, sink)
    elif phase == SPRING or phase == FALL:
        scene = Scene()
        scene.province = wp.array(ptr=provinces.ptr, shape=(34,), dtype=int)
        scene.row = wp.array(ptr=row.ptr, shape=(34,), dtype=int)
        scene.voyages = wp.array(ptr=voyages.ptr, shape=(34,), dtype=wp.uint64)
        scene.seas = wp.array(ptr=seas.ptr, shape=(34,), dtype=wp.uint32)
        scene.comers = wp.array(ptr=comers.ptr, shape=(75,), dtype=wp.uint64)
        scene.n = survey(games, tables, game, scene)
        choose_movement(games, tables, game, scene, seed, sink)
    else:
        choose_retreats(games, tables, game, seed, sink)
