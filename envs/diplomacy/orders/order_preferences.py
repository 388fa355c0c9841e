"""Scores of orders by which scripted bots choose; the sink of `legal.py` keeps an order with the highest score.

Each preference scores the orders of a unit:

moves first     1 a move, 0 anything else
supports first  2 a support, 1 a hold, 0 anything else
neutrals first  2 an order that names a neutral centre, including the unit's own place, 1 a move, 0 anything else
"""

from __future__ import annotations

import numpy as np
import warp as wp

from sparring.envs.diplomacy.adjudicator.parse_orders import (
    CONVOY,
    HOLD,
    MOVE,
    SUPPORT,
    SUPPORT_MOVE,
    kind_of,
    other_of,
    target_of,
)
from sparring.envs.diplomacy.board.board import Board, standard_board

ANY, MOVES_FIRST, SUPPORTS_FIRST, NEUTRALS_FIRST = (wp.constant(number) for number in range(4))
WORD = 32
"""Locations per word of a bit set."""


def neutral_locations(board: Board) -> np.ndarray:
    """Return the locations with a neutral supply centre, bool [81]."""
    neutral = (board.centre_of >= 0) & (board.home < 0)
    return neutral[board.province_of]


def _words(locations: np.ndarray) -> list[int]:
    """Return a set of locations, bool [81], as three words of 32 bits."""
    return [sum(1 << (at % WORD) for at in np.flatnonzero(locations) if at // WORD == n) for n in range(3)]


NEUTRAL_1, NEUTRAL_2, NEUTRAL_3 = (wp.constant(wp.uint32(word)) for word in _words(neutral_locations(standard_board())))


@wp.func
def is_neutral(location: int) -> bool:
    """Return whether a location has a neutral supply centre."""
    word = NEUTRAL_1
    if location >= 2 * WORD:
        word = NEUTRAL_3
    elif location >= WORD:
        word = NEUTRAL_2
    return (word >> wp.uint32(location % WORD)) & wp.uint32(1) != wp.uint32(0)


@wp.func
def names_neutral(province: int, order: int) -> bool:
    """Return whether the order of a unit in `province` names a neutral centre."""
    kind = kind_of(order)
    if is_neutral(province):
        return True
    if kind == HOLD:
        return False
    if is_neutral(target_of(order)):
        return True
    return (kind == SUPPORT_MOVE or kind == CONVOY) and is_neutral(other_of(order))


@wp.func
def preference_score(preference: int, province: int, order: int) -> int:
    """Return the score, 0 to 2, of an order of the unit in `province`."""
    kind = kind_of(order)
    move = wp.where(kind == MOVE, 1, 0)
    if preference == SUPPORTS_FIRST:
        return wp.where(kind == SUPPORT or kind == SUPPORT_MOVE, 2, wp.where(kind == HOLD, 1, 0))
    if preference == NEUTRALS_FIRST:
        return wp.where(names_neutral(province, order), 2, move)
    return move
