"""DumbBot's movement: units in random order, each choosing among the places it can move to and its own.

    its own                                it holds
    an own unit there without an order     that one is decided first
    ... that stays                         supports it if competition there is above 1, else chooses again without it
    an own unit moves there                supports it if competition is above 0, else chooses again without it
    otherwise                              moves

Competition is the most units of one other power that can come. At the end, units that hold give support where it is
useful in that sense, to the most valuable place. A unit never chooses the place of one that waits for its decision.

The original adds 1 to the value of the own place. As values are float32 and in the millions, this only orders it before
others of equal value; here it is inserted first.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.adjudicator.adjustments import has_unit
from sparring.envs.diplomacy.adjudicator.parse_orders import HOLD, MOVE, SUPPORT, SUPPORT_MOVE, kind_of
from sparring.envs.diplomacy.board.state import LOCATIONS, PROVINCES, Games, Tables
from sparring.envs.diplomacy.bots.dumbbot_choice import (
    ALONE,
    LEAVES,
    NONE,
    STAYS,
    UNDECIDED,
    WAITING,
    DumbBotPlan,
    choose,
    insert,
    pick_undecided,
    remove,
)
from sparring.envs.diplomacy.bots.dumbbot_values import NodeValues, province_at, row_of
from sparring.envs.diplomacy.orders.legal import OTHER, TARGET, OrderSink


@wp.func
def destinations(games: Games, tables: Tables, game: int, nodes: NodeValues, plan: DumbBotPlan, province: int) -> int:
    """List the nodes a unit may choose from in `plan`; return their number."""
    row = row_of(tables, games.units[game, province], province)
    first = row - row % LOCATIONS
    n, side = insert(nodes, plan, 0, row, False), int(0)
    while tables.landings[row, side] >= 0:
        landing = tables.landings[row, side]
        if plan.fate[tables.province_of[landing]] != WAITING:
            n = insert(nodes, plan, n, first + landing, False)
        side += 1
    return n


@wp.func
def decide(
    games: Games,
    tables: Tables,
    game: int,
    nodes: NodeValues,
    plan: DumbBotPlan,
    province: int,
    sink: OrderSink,
) -> int:
    """Order a unit; return the province of another own unit that has to be ordered first, else -1."""
    n = destinations(games, tables, game, nodes, plan, province)
    order, first = int(0), int(ALONE)
    while order == 0 and first == ALONE:
        at = choose(nodes, plan, n, sink)
        goal = province_at(tables, plan.row[at])
        if goal == province:
            order = HOLD
        elif plan.fate[goal] == UNDECIDED:
            first = goal
        elif plan.fate[goal] == STAYS:
            if nodes.rivals[goal] > 1:
                order = SUPPORT + (goal << TARGET)
        elif plan.comer[goal] != ALONE:
            if nodes.rivals[goal] > 0:
                order = SUPPORT_MOVE + (goal << TARGET) + (plan.comer[goal] << OTHER)
        else:
            order = MOVE + ((plan.row[at] % LOCATIONS) << TARGET)
            plan.comer[goal] = province
        if order == 0 and first == ALONE:
            n = remove(plan, n, at)
    if order != 0:
        games.orders[game, province] = order
        plan.fate[province] = wp.where(kind_of(order) == MOVE, LEAVES, STAYS)
    return first


@wp.func
def decide_all(
    games: Games,
    tables: Tables,
    game: int,
    nodes: NodeValues,
    plan: DumbBotPlan,
    province: int,
    sink: OrderSink,
) -> int:
    """Order a unit and those it depends on, depth first; return their number."""
    depth, done = int(1), int(0)
    # An explicit stack, since kernels cannot recurse; at most 34 deep, since WAITING units are never chosen again.
    plan.waiting[0] = province
    plan.fate[province] = WAITING
    while depth > 0:
        first = decide(games, tables, game, nodes, plan, plan.waiting[depth - 1], sink)
        if first == ALONE:
            depth -= 1
            done += 1
        else:
            plan.waiting[depth] = first
            plan.fate[first] = WAITING
            depth += 1
    return done


@wp.func
def use_holds(games: Games, tables: Tables, game: int, nodes: NodeValues, plan: DumbBotPlan) -> None:
    """Replace holds by useful supports of own units that move to, or stay in, the most valuable place."""
    for province in range(PROVINCES):
        if plan.fate[province] == STAYS and games.orders[game, province] == HOLD:
            row = row_of(tables, games.units[game, province], province)
            first = row - row % LOCATIONS
            most, side = float(0.0), int(0)
            while tables.landings[row, side] >= 0:
                landing = tables.landings[row, side]
                goal = tables.province_of[landing]
                comes = plan.comer[goal] != ALONE
                stays = plan.fate[goal] == STAYS and not comes
                useful = (comes and nodes.rivals[goal] > 0) or (stays and nodes.rivals[goal] > 1)
                if useful and nodes.value[first + landing] > most:
                    most = nodes.value[first + landing]
                    games.orders[game, province] = SUPPORT + (goal << TARGET)
                    if comes:
                        games.orders[game, province] = SUPPORT_MOVE + (goal << TARGET) + (plan.comer[goal] << OTHER)
                side += 1


@wp.func
def move_units(
    games: Games, tables: Tables, game: int, nodes: NodeValues, plan: DumbBotPlan, power: int, sink: OrderSink
) -> None:
    """Write a power's orders for a movement phase."""
    undecided = int(0)
    for province in range(PROVINCES):
        plan.comer[province] = ALONE
        plan.fate[province] = NONE
        if has_unit(games, game, province, power):
            plan.fate[province] = UNDECIDED
            undecided += 1
    while undecided > 0:
        unit = pick_undecided(plan, undecided, sink)
        undecided -= decide_all(games, tables, game, nodes, plan, unit, sink)
    use_holds(games, tables, game, nodes, plan)
