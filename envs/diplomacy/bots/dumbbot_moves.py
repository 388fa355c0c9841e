"""DumbBot's movement: units in random order, each choosing among the places it can move to and its own.

    its own                                it holds
    a unit of ours there without an order  that one is decided first
    ... that stays                         supports it if competition there is above 1, else chooses again without it
    a unit of ours moves there             supports it if competition is above 0, else chooses again without it
    otherwise                              moves

Competition is the most units of one other power that can come. At the end units that hold support, of what is useful in
that sense, what goes to the most valuable place. A unit never chooses the place of one that waits for its decision.

The own place gets 1 more than its value; as values are float32 and in the millions, what this comes to is that it goes
before others of equal value.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.adjudicator.parse_orders import HOLD, MOVE, SUPPORT, SUPPORT_MOVE, kind_of
from sparring.envs.diplomacy.adjudicator.seasons import is_of
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
from sparring.envs.diplomacy.bots.dumbbot_values import Appraisal, province_at, row_of
from sparring.envs.diplomacy.orders.legal import OTHER, TARGET, OrderSink


@wp.func
def destinations(games: Games, tables: Tables, game: int, sight: Appraisal, plan: DumbBotPlan, province: int) -> int:
    """List where a unit may choose to be; returns how many there are."""
    row = row_of(tables, games.units[game, province], province)
    first = row - row % LOCATIONS
    n, side = insert(sight, plan, 0, row, False), int(0)
    while tables.landings[row, side] >= 0:
        landing = tables.landings[row, side]
        if plan.fate[tables.province_of[landing]] != WAITING:
            n = insert(sight, plan, n, first + landing, False)
        side += 1
    return n


@wp.func
def decide(
    games: Games,
    tables: Tables,
    game: int,
    sight: Appraisal,
    plan: DumbBotPlan,
    power: int,
    province: int,
    sink: OrderSink,
) -> int:
    """Order a unit; if another of its power has to be ordered first, returns that one's province, else -1."""
    n = destinations(games, tables, game, sight, plan, province)
    order, first = int(0), int(ALONE)
    while order == 0 and first == ALONE:
        at = choose(sight, plan, n, sink)
        goal = province_at(tables, plan.row[at])
        if goal == province:
            order = HOLD
        elif plan.fate[goal] == UNDECIDED:
            first = goal
        elif plan.fate[goal] == STAYS:
            if sight.rivals[goal] > 1:
                order = SUPPORT + (goal << TARGET)
        elif plan.comer[goal] != ALONE:
            if sight.rivals[goal] > 0:
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
    sight: Appraisal,
    plan: DumbBotPlan,
    power: int,
    province: int,
    sink: OrderSink,
) -> int:
    """Order a unit and those it has to wait for; returns how many."""
    depth, done = int(1), int(0)
    plan.waiting[0] = province
    plan.fate[province] = WAITING
    while depth > 0:
        first = decide(games, tables, game, sight, plan, power, plan.waiting[depth - 1], sink)
        if first == ALONE:
            depth -= 1
            done += 1
        else:
            plan.waiting[depth] = first
            plan.fate[first] = WAITING
            depth += 1
    return done


@wp.func
def use_holds(games: Games, tables: Tables, game: int, sight: Appraisal, plan: DumbBotPlan, power: int) -> None:
    """Let units that hold support what goes to, or stays in, the most valuable place where that is useful."""
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
                useful = (comes and sight.rivals[goal] > 0) or (stays and sight.rivals[goal] > 1)
                if useful and sight.value[first + landing] > most:
                    most = sight.value[first + landing]
                    games.orders[game, province] = SUPPORT + (goal << TARGET)
                    if comes:
                        games.orders[game, province] = SUPPORT_MOVE + (goal << TARGET) + (plan.comer[goal] << OTHER)
                side += 1


@wp.func
def move_units(
    games: Games, tables: Tables, game: int, sight: Appraisal, plan: DumbBotPlan, power: int, sink: OrderSink
) -> None:
    """A movement phase."""
    left = int(0)
    for province in range(PROVINCES):
        plan.comer[province] = ALONE
        plan.fate[province] = NONE
        if is_of(games, game, province, power):
            plan.fate[province] = UNDECIDED
            left += 1
    while left > 0:
        unit = pick_undecided(plan, left, sink)
        left -= decide_all(games, tables, game, sight, plan, power, unit, sink)
    use_holds(games, tables, game, sight, plan, power)
