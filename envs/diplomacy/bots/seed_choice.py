"""The choice of the seed's bots among a unit's orders: those with the best score, each equally likely.

An aim is a score:

    arrows     1 an order with " - ", 0 anything else
    territory  2 an order that names one of the twelve neutral centres, else as arrows
    help       2 a support that names the goal, 1 any other support, 0 anything else
    value      the value of the order's goal; with " H" in its text 1.1 x that of the unit's own place. Of a goal that
               an earlier unit claimed, 0.9 x its value for a support, and no score for the rest

Texts are equally likely, not meanings: an order with several spellings (`order_text.py`) counts once for each.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.board.state import Games, Tables
from sparring.envs.diplomacy.bots.order_text import goal_of, has_arrow, has_h, is_support, spelling, support_names
from sparring.envs.diplomacy.bots.seed_dumbbot_values import SeedValues
from sparring.envs.diplomacy.orders.order_preferences import names_neutral

ARROWS, TERRITORY, HELP, VALUE = (wp.constant(aim) for aim in range(4))
SPELLINGS = wp.constant(3)
"""Most spellings of an order: without a coast, and with each of two."""
LOWEST = wp.constant(wp.float64(-1.0e300))
"""Used instead of a score."""
HOLDING, CLAIMED = wp.constant(wp.float64(1.1)), wp.constant(wp.float64(0.9))


@wp.struct
class SeedChoice:
    """Aim of a unit's choice, and the orders it is made from."""

    aim: int
    goal: int
    """Target location of a coordinated power's attack."""
    claimed: wp.array[wp.uint8]
    """[P] 1 for the goal of an earlier unit of a DumbBot"""
    listed: wp.array[int]
    """[1082] legal orders (`listing.MAX_ORDERS`)"""
    best: wp.array[int]
    """[3246] orders with the best score, room for three spellings of each"""


@wp.func
def value_score(tables: Tables, values: SeedValues, choice: SeedChoice, province: int, order: int) -> wp.float64:
    """Return the score of an order by the value of its goal."""
    goal = goal_of(tables, province, order)
    if choice.claimed[goal] != wp.uint8(0):
        if is_support(order):
            return values.value[goal] * CLAIMED
        return LOWEST
    if has_h(province, order):
        return values.value[province] * HOLDING
    return values.value[goal]


@wp.func
def seed_score(
    games: Games, tables: Tables, game: int, values: SeedValues, choice: SeedChoice, province: int, order: int
) -> wp.float64:
    """Return the score of an order of the unit in `province`."""
    if choice.aim == VALUE:
        return value_score(tables, values, choice, province, order)
    score = int(0)
    if choice.aim == HELP:
        if is_support(order):
            score = wp.where(support_names(games, tables, game, province, order, choice.goal), 2, 1)
    elif choice.aim == TERRITORY and names_neutral(province, order):
        score = 2
    elif has_arrow(order):
        score = 1
    return wp.float64(score)


@wp.func
def keep_best(
    games: Games, tables: Tables, game: int, values: SeedValues, choice: SeedChoice, province: int, listed: int
) -> int:
    """Write the best of the `listed` orders of a unit, in all spellings, into `choice.best`; return their number."""
    count, best = int(0), wp.float64(LOWEST)
    for number in range(listed):
        for variant in range(SPELLINGS):
            order = spelling(games, tables, game, choice.listed[number], variant)
            if order >= 0:
                score = seed_score(games, tables, game, values, choice, province, order)
                if score > best:
                    count, best = 0, score
                if score == best:
                    choice.best[count] = order
                    count += 1
    return count
