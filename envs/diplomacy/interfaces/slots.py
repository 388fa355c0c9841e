"""Slots of a phase: conversion of actions to orders, and of orders as text to actions.

A slot is a province with its legal orders; an action of `DiplomacyParallelEnv` holds the index of the chosen order for
each slot (`spaces.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.board.codes import SLOTS
from sparring.envs.diplomacy.interfaces.spaces import Slot, check_action
from sparring.envs.diplomacy.orders.listing import find
from sparring.envs.diplomacy.orders.notation import read_order
from sparring.envs.diplomacy.orders.submit import Line, submit
from sparring.envs.diplomacy.prompts.report import legal_alike

Slots = dict[str, list[Slot]]
"""Slots of each power, in alphabetical order of their provinces."""
Row = Mapping[str, np.ndarray]
"""State of one game, as returned by `DiplomacyParallelEnv.row`."""


def slots_by_power(legal_orders: Mapping[int, np.ndarray], row: Row) -> Slots:
    """Assign each province's listed orders, int32 [n], to the power of the unit there, else to that of the home."""
    slots: Slots = {agent: [] for agent in POWERS}
    units = _standing(row)
    owners = np.where(units > 0, codes.power_of(units), standard_board().home)
    for province, listed in sorted(legal_orders.items()):
        listed.setflags(write=False)
        slots[POWERS[int(owners[province])]].append((province, listed))
    return slots


def joint_orders(
    actions: Mapping[str, np.ndarray], agents: Sequence[str], slots: Slots, *, lenient: bool
) -> np.ndarray:
    """Return the orders int32 [75] of all `agents` from their actions int64 [17].

    Raises `ValueError` for a missing or unknown agent and an invalid action; `lenient` counts unlisted orders as 0.
    """
    if set(actions) != set(agents):
        raise ValueError(f"actions for {list(actions)}: give one for each of {', '.join(agents)}")
    orders = np.zeros(codes.NUM_PROVINCES, dtype=np.int32)
    for agent in agents:
        action = check_action(actions[agent], slots[agent], agent, lenient=lenient)
        for (province, listed), number in zip(slots[agent], action.tolist(), strict=False):
            orders[province] = listed[number]
    return orders


def action_of(lines: Sequence[str], agent: str, slots: Sequence[Slot], row: Row) -> tuple[np.ndarray, list[Line]]:
    """Return an action int64 [17] from orders as text, and every line with its problem."""
    orders = np.zeros(codes.NUM_PROVINCES, dtype=np.int32)
    names = {name: row[name] for name in ("units", "dislodged", "owner")}
    answers = submit(orders, lines, power=POWERS.index(agent), phase=int(row["phase"]), **names)
    action, refused = np.zeros(SLOTS, dtype=np.int64), dict[int, str]()
    for slot, (province, listed) in enumerate(slots):
        if orders[province]:
            at = find(int(orders[province]), listed)
            action[slot] = max(at, 0)
            if at < 0:
                refused[province] = legal_alike(int(orders[province]), province, int(_standing(row)[province]), listed)
    return action, [_answer(line, refused) for line in answers]


def _standing(row: Row) -> np.ndarray:
    """Return the units [75] that may be ordered: the dislodged ones if there are any."""
    return row["dislodged" if row["dislodged"].any() else "units"]


def _answer(line: Line, refused: Mapping[int, str]) -> Line:
    """Return the line, with the legal orders as its problem if its order is readable but illegal."""
    order = None if line.problem else read_order(line.text)
    if order is None or order.province not in refused:
        return line
    return Line(line.text, f"order {line.text!r} is not legal now; legal there: {refused[order.province]}")
