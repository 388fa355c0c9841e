"""DumbBot, David Norman's bot for the DAIDE server: node values (`dumbbot_values.py`) and choices among them.

Movement is in `dumbbot_moves.py`, the random choice in `dumbbot_choice.py`. Retreats: units in random order, each to a
place not taken yet, else it is disbanded. Adjustments: builds among the nodes in free home centres, disbands among own
units, the lowest values first.
"""

import warp as wp

from sparring.envs.diplomacy.adjudicator.adjustments import build_limit, has_unit, is_free_home
from sparring.envs.diplomacy.adjudicator.calendar import FALL, SPRING, WINTER
from sparring.envs.diplomacy.adjudicator.parse_orders import BUILD, DISBAND, RETREAT
from sparring.envs.diplomacy.adjudicator.retreats import can_retreat
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.state import LOCATIONS, POWERS, PROVINCES, Games, Tables, power_of
from sparring.envs.diplomacy.bots.chance import begin, of_power
from sparring.envs.diplomacy.bots.dumbbot_choice import (
    ALONE,
    LEAVES,
    NONE,
    UNDECIDED,
    DumbBotPlan,
    choose,
    insert,
    pick_undecided,
)
from sparring.envs.diplomacy.bots.dumbbot_moves import move_units
from sparring.envs.diplomacy.bots.dumbbot_values import (
    Lanes,
    NodeValues,
    count_near,
    evaluate_all,
    evaluate_nodes,
    province_at,
    row_of,
)
from sparring.envs.diplomacy.orders.legal import OTHER, TARGET, OrderSink

# Unrolled, the loops over powers and depths make it slower, not faster.
wp.set_module_options({"enable_backward": False, "optimization_level": 3, "max_unroll": 1})

DUMBBOT = wp.constant(codes.BOTS.index("dumbbot"))


@wp.func
def retreat_units(
    games: Games, tables: Tables, game: int, nodes: NodeValues, plan: DumbBotPlan, power: int, sink: OrderSink
) -> None:
    """Write a power's retreats."""
    undecided = int(0)
    for province in range(PROVINCES):
        plan.comer[province] = ALONE
        plan.fate[province] = NONE
        unit = games.dislodged[game, province]
        if unit != wp.uint8(0):
            if power_of(unit) == power:
                plan.fate[province] = UNDECIDED
                undecided += 1
    while undecided > 0:
        province = pick_undecided(plan, undecided, sink)
        row, n = row_of(tables, games.dislodged[game, province], province), int(0)
        for target in range(LOCATIONS):
            if can_retreat(games, tables, game, province, target) == target:
                if plan.comer[tables.province_of[target]] == ALONE:
                    n = insert(nodes, plan, n, row - row % LOCATIONS + target, False)
        order = int(DISBAND)
        if n > 0:
            chosen = plan.row[choose(nodes, plan, n, sink)]
            plan.comer[province_at(tables, chosen)] = province
            order = RETREAT + ((chosen % LOCATIONS) << TARGET)
        games.orders[game, province] = order
        plan.fate[province] = LEAVES
        undecided -= 1


@wp.func
def list_builds(games: Games, tables: Tables, game: int, nodes: NodeValues, plan: DumbBotPlan, power: int) -> int:
    """List the nodes of possible builds in `plan`; return their number."""
    n = int(0)
    for row in range(2 * LOCATIONS):
        if tables.landings[row, 0] >= 0:
            province = province_at(tables, row)
            if is_free_home(games, tables, game, power, province):
                if games.orders[game, province] == 0:
                    n = insert(nodes, plan, n, row, False)
    return n


@wp.func
def list_disbands(games: Games, tables: Tables, game: int, nodes: NodeValues, plan: DumbBotPlan, power: int) -> int:
    """List the nodes of units that may still be disbanded in `plan`; return their number."""
    n = int(0)
    for province in range(PROVINCES):
        if has_unit(games, game, province, power) and games.orders[game, province] == 0:
            n = insert(nodes, plan, n, row_of(tables, games.units[game, province], province), True)
    return n


@wp.func
def adjust_units(
    games: Games,
    tables: Tables,
    game: int,
    nodes: NodeValues,
    plan: DumbBotPlan,
    power: int,
    limit: int,
    sink: OrderSink,
) -> None:
    """Write a power's builds or disbands; `limit` is its `build_limit`, not 0."""
    for province in range(PROVINCES):
        if has_unit(games, game, province, power) or is_free_home(games, tables, game, power, province):
            games.orders[game, province] = 0
    for _ in range(wp.abs(limit)):
        n = int(0)
        if limit > 0:
            n = list_builds(games, tables, game, nodes, plan, power)
        else:
            n = list_disbands(games, tables, game, nodes, plan, power)
        row = plan.row[choose(nodes, plan, n, sink)]
        order = int(DISBAND)
        if limit > 0:
            order = BUILD + ((row % LOCATIONS) << TARGET) + ((row // LOCATIONS) << OTHER)
        games.orders[game, province_at(tables, row)] = order


@wp.func
def play(
    games: Games, tables: Tables, game: int, nodes: NodeValues, plan: DumbBotPlan, power: int, sink: OrderSink
) -> None:
    """Write a power's orders for the current phase."""
    phase = int(games.phase[game])
    evaluate_nodes(games, tables, game, nodes, power)
    if phase == WINTER:
        adjust_units(games, tables, game, nodes, plan, power, build_limit(games, tables, game, power), sink)
    elif phase == SPRING or phase == FALL:
        move_units(games, tables, game, nodes, plan, power, sink)
    else:
        retreat_units(games, tables, game, nodes, plan, power, sink)


@wp.func
def has_to_order(games: Games, tables: Tables, game: int, power: int) -> bool:
    """Return whether a DumbBot plays a power that may have something to order."""
    bot = games.players[game, power]
    if bot != DUMBBOT:
        return False
    phase = int(games.phase[game])
    if phase == WINTER:
        return build_limit(games, tables, game, power) != 0
    if phase == SPRING or phase == FALL:
        return True
    for province in range(PROVINCES):
        unit = games.dislodged[game, province]
        if unit != wp.uint8(0):
            if power_of(unit) == power:
                return True
    return False


@wp.kernel
def dumbbot_kernel(games: Games, tables: Tables, seed: int, first: int) -> None:
    """Write the orders of every DumbBot for the current phase of game `first + tid`."""
    game = first + wp.tid()
    if games.done[game] != wp.uint8(0):
        return
    # 525 = 7 powers x 75 provinces, 8 = 7 powers + unowned, 162 nodes = 2 x 81 locations, 34 units.
    near = wp.zeros(shape=(525,), dtype=wp.uint8)
    present = wp.zeros(shape=(525,), dtype=wp.uint8)
    ranks = wp.zeros(shape=(225,), dtype=int)
    size = wp.zeros(shape=(8,), dtype=float)
    total = wp.zeros(shape=(162,), dtype=Lanes)
    prox = wp.zeros(shape=(324,), dtype=Lanes)
    value = wp.zeros(shape=(162,), dtype=float)
    rivals = wp.zeros(shape=(75,), dtype=int)
    fate = wp.zeros(shape=(75,), dtype=int)
    comer = wp.zeros(shape=(75,), dtype=int)
    waiting = wp.zeros(shape=(34,), dtype=int)
    row = wp.zeros(shape=(34,), dtype=int)
    tally = wp.zeros(shape=(3,), dtype=int)
    nodes = NodeValues()
    nodes.near = wp.array(ptr=near.ptr, shape=(525,), dtype=wp.uint8)
    nodes.present = wp.array(ptr=present.ptr, shape=(525,), dtype=wp.uint8)
    nodes.ranks = wp.array(ptr=ranks.ptr, shape=(225,), dtype=int)
    nodes.size = wp.array(ptr=size.ptr, shape=(8,), dtype=float)
    nodes.total = wp.array(ptr=total.ptr, shape=(162,), dtype=Lanes)
    nodes.prox = wp.array(ptr=prox.ptr, shape=(324,), dtype=Lanes)
    nodes.value = wp.array(ptr=value.ptr, shape=(162,), dtype=float)
    nodes.rivals = wp.array(ptr=rivals.ptr, shape=(75,), dtype=int)
    plan = DumbBotPlan()
    plan.fate = wp.array(ptr=fate.ptr, shape=(75,), dtype=int)
    plan.comer = wp.array(ptr=comer.ptr, shape=(75,), dtype=int)
    plan.waiting = wp.array(ptr=waiting.ptr, shape=(34,), dtype=int)
    plan.row = wp.array(ptr=row.ptr, shape=(34,), dtype=int)
    sink = OrderSink()
    sink.tally = wp.array(ptr=tally.ptr, shape=(3,), dtype=int)
    sink.listed = wp.array(ptr=tally.ptr, shape=(0,), dtype=int)
    counted = bool(False)  # What all powers share is computed once, and only if one has something to order.
    for power in range(POWERS):
        if has_to_order(games, tables, game, power):
            if not counted:
                count_near(games, tables, game, nodes)
                evaluate_all(games, tables, game, nodes)
                counted = True
            begin(games, game, seed, of_power(power), sink)
            play(games, tables, game, nodes, plan, power, sink)
