"""DumbBot's random choice from a list of nodes sorted by value, and its decisions so far.

The choice starts at the first node. While there is a next node, it moves on with probability `(1 - min(1, 5 |a - b| /
a)) / 2`. Here a and b are the values of the current and the next node. The constants are Norman's: 50 % and 500.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.board.state import PROVINCES
from sparring.envs.diplomacy.bots.chance import fraction
from sparring.envs.diplomacy.bots.dumbbot_values import NodeValues
from sparring.envs.diplomacy.orders.legal import OrderSink, draw

NONE, UNDECIDED, WAITING, STAYS, LEAVES = (wp.constant(fate) for fate in range(5))
ALONE = wp.constant(-1)


@wp.struct
class DumbBotPlan:
    """Decisions of a power so far, and the list a unit chooses from."""

    fate: wp.array[int]
    """[75] state of its unit in a province: NONE, UNDECIDED, WAITING for another unit, STAYS or LEAVES"""
    comer: wp.array[int]
    """[75] province of its unit that moves to a province, or -1"""
    waiting: wp.array[int]
    """[34] provinces of units; each unit waits for the next one"""
    row: wp.array[int]
    """[34] nodes, sorted, the first choice first"""


@wp.func
def insert(nodes: NodeValues, plan: DumbBotPlan, n: int, row: int, worst_first: bool) -> int:
    """Insert a node into the sorted list of `n`, behind equal values; return `n + 1`."""
    at = int(n)
    searching = bool(at > 0)
    while searching:
        gain = nodes.value[row] - nodes.value[plan.row[at - 1]]
        searching = (gain < 0.0 and worst_first) or (gain > 0.0 and not worst_first)
        if searching:
            plan.row[at] = plan.row[at - 1]
            at -= 1
            searching = at > 0
    plan.row[at] = row
    return n + 1


@wp.func
def choose(nodes: NodeValues, plan: DumbBotPlan, n: int, sink: OrderSink) -> int:
    """Choose from the list of `n` nodes; return the index chosen."""
    at = int(0)
    going = bool(n > 1)
    while going:
        current, following = float(nodes.value[plan.row[at]]), float(nodes.value[plan.row[at + 1]])
        stay = float(0.0)
        if current > 0.0:
            stay = wp.min(1.0, 5.0 * wp.abs(current - following) / current)
        going = fraction(sink) < 0.5 * (1.0 - stay)
        if going:
            at += 1
            going = at + 1 < n
    return at


@wp.func
def remove(plan: DumbBotPlan, n: int, at: int) -> int:
    """Remove one node from the list of `n`; return `n - 1`."""
    for entry in range(at, n - 1):
        plan.row[entry] = plan.row[entry + 1]
    return n - 1


@wp.func
def pick_undecided(plan: DumbBotPlan, undecided: int, sink: OrderSink) -> int:
    """Return the province of one of the `undecided` undecided units, each equally likely."""
    skip = draw(sink, undecided)
    for province in range(PROVINCES):
        if plan.fate[province] == UNDECIDED:
            if skip == 0:
                return province
            skip -= 1
    return ALONE
