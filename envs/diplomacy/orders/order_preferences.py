"""What a bot likes best among the orders of a unit, as a number, the higher, the better.

Each taste of a sink (`legal.py`) is a way to give such numbers:

moves first     1 a move, 0 anything else
supports first  2 a support, 1 a hold, 0 anything else
neutrals first  2 an order that has the name of a neutral centre in it, be it the unit's own place, 1 a move, 0 else
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

ANY, MOVES_FIRST, SUPPORTS_FIRST, NEUTRALS_FIRST = (wp.constant(taste) for taste in range(4))
WORD = 32
"""Locations in one word of a set of them."""


def neutral_locations(board: Board) -> np.ndarray:
    """Bool [81]: where there is a centre that is nobody's home."""
    neutral = (board.centre_of >= 0) & (board.home < 0)
    return neutral[board.province_of]


def _words(locations: np.ndarray) -> list[int]:
    """A set of locations, bool [81], as three words of bits."""
    return [sum(1 << (place % WORD) for place in np.flatnonzero(locations) if place // WORD == n) for n in range(3)]


NEUTRAL_1, NEUTRAL_2, NEUTRAL_3 = (wp.constant(wp.uint32(word)) for word in _words(neutral_locations(standard_board())))


@wp.func
def is_neutral(location: int) -> bool:
    """Whether a location has a centre that is nobody's home."""
    word = NEUTRAL_1
    if location >= 2 * WORD:
        word = NEUTRAL_3
    elif location >= WORD:
        word = NEUTRAL_2
    return (word >> wp.uint32(location % WORD)) & wp.uint32(1) != wp.uint32(0)


@wp.func
def names_neutral(place: int, order: int) -> bool:
    """Whether the order of a unit in `place`, written down, has the name of a neutral centre in it."""
    kind = kind_of(order)
    if is_neutral(place):
        return True
    if kind == HOLD:
        return False
    if is_neutral(target_of(order)):
        return True
    return (kind == SUPPORT_MOVE or kind == CONVOY) and is_neutral(other_of(order))


@wp.func
def liking(taste: int, place: int, order: int) -> int:
    """How much the order of a unit in `place` is liked, from 0 to 2."""
    kind = kind_of(order)
    move = wp.where(kind == MOVE, 1, 0)
    if taste == SUPPORTS_FIRST:
        return wp.where(kind == SUPPORT or kind == SUPPORT_MOVE, 2, wp.where(kind == HOLD, 1, 0))
    if taste == NEUTRALS_FIRST:
        return wp.where(names_neutral(place, order), 2, move)
    return move
