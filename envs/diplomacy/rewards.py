"""What a power has earned: pure functions over G games, for every power at once.

Final scores are shares of one won game: a solo takes all, whatever the others hold. The dense reward is what changes
from one phase to the next; its weights are those of the system that the language models were trained with.

Arrays as in `codes.py`: units uint8 [G, 75], owner int8 [G, 34], winner int8 [G]; every result is float64 [G, 7].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from envs.diplomacy import codes
from envs.diplomacy.board import NOTHING, standard_board

PER_CENTRE, PER_UNIT, PER_DISLODGED, PER_LOST = 2.0, 0.3, 0.5, 0.5
PER_PROVINCE, PER_THREAT, PER_UNIT_ABROAD = 0.2, 0.3, 0.1
STRATEGIC_PER_UNIT, STRATEGIC_BASE, PER_LEAD, PER_CENTRE_BEHIND, PER_BALANCE = 0.5, 0.5, 2.0, 0.3, 0.5


def count_centres(owner: np.ndarray) -> np.ndarray:
    """Centres of each power, int [G, 7]."""
    return (owner[:, :, None] == np.arange(codes.NUM_POWERS)).sum(axis=1)


def sum_of_squares(owner: np.ndarray, winner: np.ndarray) -> np.ndarray:
    """Centres squared, as a share of the sum over all powers."""
    squares = count_centres(owner).astype(np.float64) ** 2
    return _or_solo(squares / np.maximum(squares.sum(axis=1, keepdims=True), 1.0), winner)


def draw_size(owner: np.ndarray, winner: np.ndarray) -> np.ndarray:
    """The same share for every power that still has a centre."""
    alive = (count_centres(owner) > 0).astype(np.float64)
    return _or_solo(alive / np.maximum(alive.sum(axis=1, keepdims=True), 1.0), winner)


def centres(owner: np.ndarray, winner: np.ndarray) -> np.ndarray:
    """Centres as a share of all 34, also of who has won."""
    return count_centres(owner) / codes.NUM_CENTRES


def solo(owner: np.ndarray, winner: np.ndarray) -> np.ndarray:
    """1 for who has won, else 0."""
    return (winner[:, None] == np.arange(codes.NUM_POWERS)).astype(np.float64)


FINAL: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "sum_of_squares": sum_of_squares,
    "draw_size": draw_size,
    "centres": centres,
    "solo": solo,
}
"""Scores at the end of a game, of `owner` and `winner`."""


def standing(units: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """The dense score without its events: centres, units, threats and units abroad."""
    return PER_CENTRE * count_centres(owner) + PER_UNIT * count_units(units) + tactical(units, owner)


def strategic_standing(units: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """The same with the place among the powers instead of the number of centres.

    A leader, ties included, has `PER_LEAD`; the others lose by the centre they are behind and gain by the balance
    1 - std / mean of the centres of those who have any, if that is positive.
    """
    held = count_centres(owner).astype(np.float64)
    most = held.max(axis=1, keepdims=True)
    behind = PER_BALANCE * balance(held)[:, None] - PER_CENTRE_BEHIND * (most - held)
    lead = np.where(held == most, PER_LEAD, behind)
    return STRATEGIC_PER_UNIT * count_units(units) + STRATEGIC_BASE + lead + tactical(units, owner)


def balance(held: np.ndarray) -> np.ndarray:
    """How even the living powers are, float64 [G], from their centres [G, 7]: 1 - std / mean, at least 0."""
    alive = np.maximum((held > 0).sum(axis=1), 1)
    mean = np.maximum(held.sum(axis=1) / alive, 1e-9)
    variance = (np.where(held > 0, held - mean[:, None], 0.0) ** 2).sum(axis=1) / alive
    return np.maximum(1.0 - np.sqrt(variance) / mean, 0.0)


def tactical(units: np.ndarray, owner: np.ndarray) -> np.ndarray:
    """Own units not in a home centre of theirs, and own centres into which a unit of another power could move."""
    board, powers = standard_board(), codes.power_of(units)
    reach = _reach()[codes.form_of(units), np.arange(codes.NUM_PROVINCES)] & (units > 0)[:, :, None]
    found = np.zeros((len(units), codes.NUM_POWERS))
    for power in range(codes.NUM_POWERS):
        abroad = ((powers == power) & (board.home != power)).sum(axis=1)
        enemies = (reach & (powers != power)[:, :, None]).any(axis=1)[:, board.centres]
        threats = (enemies & (owner == power)).sum(axis=1)
        found[:, power] = PER_UNIT_ABROAD * abroad - PER_THREAT * threats
    return found


def events(before: np.ndarray, after: np.ndarray, results: np.ndarray, influence: np.ndarray) -> np.ndarray:
    """What a phase brought: units dislodged and lost, from its `results`, and provinces new in a power's influence.

    `before` and `after` are the units [G, 75] around it, `influence` [G, 75] whose the provinces were before it.
    """
    powers = np.arange(codes.NUM_POWERS)
    dislodged = (results >= codes.DISLODGED_FLAG)[:, :, None]
    lost = (dislodged & (codes.power_of(before)[:, :, None] == powers)).sum(axis=1)
    gained = (dislodged & (codes.power_of(after)[:, :, None] == powers)).sum(axis=1)
    now = influence_after(influence, after)
    new = ((now != influence)[:, :, None] & (now[:, :, None] == powers)).sum(axis=1)
    return PER_DISLODGED * gained - PER_LOST * lost + PER_PROVINCE * new


def influence_after(influence: np.ndarray, units: np.ndarray) -> np.ndarray:
    """Whose each province is [G, 75]: of the power whose unit stands there, or stood there last; -1 nobody's."""
    return np.where(units > 0, codes.power_of(units), influence)


def first_influence(units: np.ndarray) -> np.ndarray:
    """Influence where nothing is known of the past: home centres belong to their powers."""
    return influence_after(np.broadcast_to(standard_board().home, units.shape), units)


def count_units(units: np.ndarray) -> np.ndarray:
    """Units of each power on the board, int [G, 7]; those that have to retreat do not count."""
    return (codes.power_of(units)[:, :, None] == np.arange(codes.NUM_POWERS)).sum(axis=1)


def _or_solo(scores: np.ndarray, winner: np.ndarray) -> np.ndarray:
    return np.where((winner == NOTHING)[:, None], scores, solo(scores, winner))


@cache
def _reach() -> np.ndarray:
    """Whether a unit of a form in a province could move into another by itself: bool [4, 75, 75]."""
    board = standard_board()
    same = np.zeros((codes.NUM_LOCATIONS, codes.NUM_PROVINCES), dtype=bool)
    same[np.arange(codes.NUM_LOCATIONS), board.province_of] = True
    sailing = (board.fleet_next.astype(int) @ same) > 0
    reach = np.zeros((4, codes.NUM_PROVINCES, codes.NUM_PROVINCES), dtype=bool)
    reach[codes.ARMY_FORM], reach[codes.FLEET_FORM] = board.army_next, sailing[: codes.NUM_PROVINCES]
    for province, coasts in enumerate(board.coasts_of):
        for number, coast in enumerate(coasts):
            reach[codes.FLEET_FORM + 1 + number, province] = sailing[coast]
    return reach
