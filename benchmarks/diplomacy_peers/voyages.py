"""Convoy questions of the plain adjudicator: chains of seas, and armies with interdependent arrivals."""

from __future__ import annotations

from functools import cache

import numpy as np

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import SEA, standard_board

Ways = dict[int, bool]
"""Armies at sea by province, and whether they arrive."""


@cache
def sailing(location: int) -> frozenset[int]:
    """Return the locations adjacent to one, for a fleet."""
    return frozenset(map(int, np.flatnonzero(standard_board().fleet_next[location])))


@cache
def shore(province: int) -> frozenset[int]:
    """Return the seas that touch a province."""
    board = standard_board()
    found = {sea for place in (province, *board.coasts_of[province]) for sea in sailing(place)}
    return frozenset(sea for sea in found if sea < codes.NUM_PROVINCES and board.terrain[sea] == SEA)


def linked(seas: frozenset[int], start: int, goal: int) -> bool:
    """Return whether `seas` make an unbroken chain between two coasts."""
    board = standard_board()
    if SEA in (board.terrain[start], board.terrain[goal]):
        return False
    reached: set[int] = set()
    fresh = shore(start) & seas
    while fresh:
        reached |= fresh
        fresh = frozenset(sea for last in fresh for sea in sailing(last) if sea in seas) - reached
    return bool(reached & shore(goal))


def depends(number: int, on: int, table: dict[tuple[bool, ...], tuple[bool, ...]]) -> bool:
    """Return whether the arrival of one army ever depends on another's."""
    for combination, truth in table.items():
        flipped = tuple(value != (place == on) for place, value in enumerate(combination))
        if truth[number] != table[flipped][number]:
            return True
    return False


def smallest_circle(armies: list[int], table: dict[tuple[bool, ...], tuple[bool, ...]]) -> list[int]:
    """Return armies that depend on each other only; a single one if it depends on no other."""
    size = len(armies)
    reach = [{on for on in range(size) if depends(number, on, table)} | {number} for number in range(size)]
    for _ in range(size):
        reach = [set().union(*(reach[on] for on in found)) for found in reach]
    return [armies[number] for number in min(reach, key=len)]


def consistent(
    group: list[int], armies: list[int], table: dict[tuple[bool, ...], tuple[bool, ...]]
) -> dict[int, bool] | None:
    """Return the only consistent combination of the group's arrivals; None if there is not exactly one."""
    inside = [armies.index(army) for army in group]
    found = {
        tuple(combination[number] for number in inside)
        for combination, truth in table.items()
        if all(combination[number] == truth[number] for number in inside)
    }
    return dict(zip(group, found.pop(), strict=True)) if len(found) == 1 else None
