"""How DumbBot chooses from a list of nodes sorted by value, and what it has decided so far.

It begins at the first. While there is a next one, it goes on to it with probability (1 - min(1, 5 |a - b| / a)) / 2, a
being the value of the one it is at and b that of the next.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.board.state import PROVINCES
from sparring.envs.diplomacy.bots.chance import fraction
from sparring.envs.diplomacy.bots.dumbbot_values import Appraisal
from sparring.envs.diplomacy.orders.legal import OrderSink, draw

NONE, UNDECIDED, WAITING, STAYS, LEAVES = (wp.constant(fate) for fate in range(5))
ALONE = wp.constant(-1)


@wp.struct
class DumbBotPlan:
    """What a power has decided so far, and what a unit chooses from."""

    fate: wp.array[int]
    """[75] of its unit in a province: NONE is there, UNDECIDED, WAITING for another, STAYS or LEAVES"""
    comer: wp.array[int]
    """[75] province of its unit that goes to a province, or -1"""
    waiting: wp.array[int]
    """[34] provinces of units each of which waits for the next"""
    row: wp.array[int]
    """[34] nodes, the first choice first"""


@wp.func
def insert(sight: Appraisal, plan: DumbBotPlan, n: int, row: int, worst_first: bool) -> int:
    """Put a node where it belongs in a list of `n`, behind its equals; returns `n + 1`."""
    at = int(n)
    searching = bool(at > 0)
    while searching:
        gain = sight.value[row] - sight.value[plan.row[at - 1]]
        searching = (gain < 0.0 and worst_first) or (gain > 0.0 and not worst_first)
        if searching:
            plan.row[at] = plan.row[at - 1]
            at -= 1
            searching = at > 0
    plan.row[at] = row
    return n + 1


@wp.func
def choose(sight: Appraisal, plan: DumbBotPlan, n: int, sink: OrderSink) -> int:
    """Choose one of a list of `n`; returns its number."""
    at = int(0)
    going = bool(n > 1)
    while going:
        here, following = float(sight.value[plan.row[at]]), float(sight.value[plan.row[at + 1]])
        stay = float(0.0)
        if here > 0.0:
            stay = wp.min(1.0, 5.0 * wp.abs(here - following) / here)
        going = fraction(sink) < 0.5 * (1.0 - stay)
        if going:
            at += 1
            going = at + 1 < n
    return at


@wp.func
def remove(plan: DumbBotPlan, n: int, at: int) -> int:
    """Take one out of a list of `n`; returns `n - 1`."""
    for place in range(at, n - 1):
        plan.row[place] = plan.row[place + 1]
    return n - 1


@wp.func
def pick_undecided(plan: DumbBotPlan, left: int, sink: OrderSink) -> int:
    """One of `left` units that are not decided, each as likely."""
    skip = draw(sink, left)
    for province in range(PROVINCES):
        if plan.fate[province] == UNDECIDED:
            if skip == 0:
                return province
            skip -= 1
    return ALONE
