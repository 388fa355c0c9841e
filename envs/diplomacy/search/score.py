"""The value of a position to one power, for the search: centres, and who could take those that are contested.

A centre counts 1 to its owner after fall. After spring it has not changed hands yet. It then counts 1 to an owner with
no foreign unit in it, `INVADED` to one with, and `ENTERED` to another power whose unit is there. Unless the game is
over, r being the units of the strongest other power that could be there next and n those of the power itself:

    a centre the power holds       - THREATENED where r > n
    a centre it does not hold      + OPEN where n > r, + LEVEL where n = r > 0

Before the last year, every unit of the power costs `AWAY` for each move, beyond one, to the nearest centre that the
power does not hold. Only this draws units from behind the front. 18 centres after fall add `WON`. Weights are in
centres.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import warp as wp

from sparring.envs.diplomacy.adjudicator.calendar import FALL, SPRING_RETREATS
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import standard_board
from sparring.envs.diplomacy.board.state import (
    POWERS,
    PROVINCES,
    Games,
    Tables,
    form_of,
    location_of,
    moves_between,
    power_of,
)
from sparring.envs.diplomacy.bots.dumbbot_values import row_of

wp.set_module_options({"enable_backward": False, "optimization_level": 3, "max_unroll": 1})

SOLO = wp.constant(codes.SOLO)
INVADED, ENTERED, THREATENED, OPEN, LEVEL, WON, AWAY = (wp.constant(index) for index in range(7))
WEIGHTS = (0.3, 0.8, 0.35, 0.35, 0.1, 10.0, 0.04)
"""The weights named in the module's docstring, in centres."""
FARTHEST = wp.constant(6)
"""Most moves that count."""


@cache
def moves_to_centres() -> np.ndarray:
    """Return the moves from a location to each centre, int32 [2, 81, 34]: of an army, by land or sea; of a fleet."""
    board = standard_board()
    moves = moves_between(board)
    by_province = np.full((2, codes.NUM_LOCATIONS, codes.NUM_PROVINCES), 255)
    for location, province in enumerate(board.province_of):
        by_province[:, :, province] = np.minimum(by_province[:, :, province], moves[:, :, location])
    return by_province[:, :, board.centres].astype(np.int32)


@wp.func
def count_units(games: Games, tables: Tables, game: int, near: wp.array[int]) -> None:
    """Count the units of each power that are in a province or could move there without a convoy, in `near` [7 P]."""
    for province in range(PROVINCES):
        unit = games.units[game, province]
        if unit != wp.uint8(0):
            power = power_of(unit)
            near[POWERS * province + power] = near[POWERS * province + power] + 1
            row, side = row_of(tables, unit, province), int(0)
            while tables.reach[row, side] >= 0:
                entry = POWERS * tables.reach[row, side] + power
                near[entry] = near[entry] + 1
                side += 1


@wp.func
def holder_of(games: Games, game: int, centre: int, province: int) -> int:
    """Return the power whose unit is in a centre, else its owner."""
    unit = games.units[game, province]
    if unit != wp.uint8(0):
        return power_of(unit)
    return int(games.owner[game, centre])


@wp.func
def contested(near: wp.array[int], province: int, power: int, holds: bool, weights: wp.array[float]) -> float:
    """Return the term of a centre that depends on the units around it."""
    rival, friends = int(0), near[POWERS * province + power]
    for other in range(POWERS):
        if other != power:
            rival = wp.max(rival, near[POWERS * province + other])
    if holds:
        return wp.where(rival > friends, -weights[THREATENED], 0.0)
    if friends > rival:
        return weights[OPEN]
    return wp.where(friends == rival and friends > 0, weights[LEVEL], 0.0)


@wp.func
def moves_away(games: Games, tables: Tables, moves: wp.array3d[int], game: int, power: int) -> float:
    """Return the sum over the units of a power of the moves beyond one to the nearest centre it does not hold."""
    total = float(0.0)
    for province in range(PROVINCES):
        unit = games.units[game, province]
        if unit != wp.uint8(0):
            if power_of(unit) == power:
                nearest = int(FARTHEST)
                row = location_of(tables, unit, province)
                kind = wp.min(form_of(unit), 1)
                for goal in range(PROVINCES):
                    centre = tables.centre_of[goal]
                    if centre >= 0:
                        if moves[kind, row, centre] < nearest:
                            if holder_of(games, game, centre, goal) != power:
                                nearest = moves[kind, row, centre]
                total += wp.max(float(nearest) - 1.0, 0.0)
    return total


@wp.kernel
def score_kernel(
    games: Games,
    tables: Tables,
    powers: wp.array[int],
    weights: wp.array[float],
    moves: wp.array3d[int],
    last_year: int,
    scores: wp.array[float],
    first: int,
) -> None:
    """Write the value of game `first + tid` to `powers[game]`; -1 skips the game."""
    game = first + wp.tid()
    power = powers[game]
    if power < 0:
        return
    near = wp.zeros(shape=(525,), dtype=int)  # 7 powers x 75 provinces
    over = games.done[game] == wp.uint8(1)
    phase = int(games.phase[game])
    before_fall = not over and (phase == SPRING_RETREATS or phase == FALL)
    if not over:
        count_units(games, tables, game, near)
    total, centres = float(0.0), int(0)
    for province in range(PROVINCES):
        centre = tables.centre_of[province]
        if centre >= 0:
            holds = holder_of(games, game, centre, province) == power
            if not before_fall:
                if holds:
                    total += 1.0
                    centres += 1
            elif int(games.owner[game, centre]) == power:
                total += wp.where(holds, 1.0, weights[INVADED])
            elif holds:
                total += weights[ENTERED]
            if not over:
                total += contested(near, province, power, holds, weights)
    if not over and int(games.year[game]) < last_year:
        total -= weights[AWAY] * moves_away(games, tables, moves, game, power)
    if centres >= SOLO:
        total += weights[WON]
    scores[game] = total
