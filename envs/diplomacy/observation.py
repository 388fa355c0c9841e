"""The board as one power sees it: float32 [75, 62], one row per province, itself always the first of the powers.

Powers are counted from the one that looks on, in the order of the alphabet and round again, so that a policy learned as
one power can play any other. What concerns the whole game stands in every row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from envs.diplomacy import codes
from envs.diplomacy.board import NOTHING, standard_board
from envs.diplomacy.listing import due
from envs.diplomacy.positions import FIRST_YEAR

COLUMNS = (
    ("unit_power", codes.NUM_POWERS),
    ("unit_form", 4),
    ("dislodged_power", codes.NUM_POWERS),
    ("dislodged_form", 4),
    ("owner", codes.NUM_POWERS + 1),
    ("home", codes.NUM_POWERS),
    ("terrain", 3),
    ("contested", 1),
    ("slot", 1),
    ("phase", len(codes.PHASES)),
    ("years_left", 1),
    ("builds", codes.NUM_POWERS),
    ("disbands", codes.NUM_POWERS),
)
"""Columns of an observation by name, and how many there are of each."""
SHAPE = (codes.NUM_PROVINCES, sum(size for _, size in COLUMNS))
MOST_UNITS = 17.0


def observe(row: Mapping[str, np.ndarray], power: int, slots: Sequence[int], *, last_year: int) -> np.ndarray:
    """What a power sees of a game, float32 [75, 62], from its rows and the provinces of the power's slots."""
    board, everywhere = standard_board(), np.ones((codes.NUM_PROVINCES, 1))
    owner = np.full(codes.NUM_PROVINCES, -2)
    owner[board.centres] = row["owner"]
    numbers = np.zeros(codes.NUM_PROVINCES)
    numbers[list(slots)] = (1 + np.arange(len(slots))) / MOST_UNITS
    owed = np.zeros(codes.NUM_POWERS)
    if int(row["phase"]) == codes.WINTER:
        owed = np.roll(due(row["units"], row["owner"]), -power) / MOST_UNITS
    left = (last_year - int(row["year"])) / max(1, last_year - FIRST_YEAR)
    parts = [
        *_standing(row["units"], power),
        *_standing(row["dislodged"], power),
        _powers(owner, power),
        owner[:, None] == NOTHING,
        _powers(board.home, power),
        _one_hot(board.terrain, 3),
        (row["origin"] == codes.CONTESTED)[:, None] & bool(row["dislodged"].any()),
        numbers[:, None],
        everywhere * _one_hot(np.array([int(row["phase"])]), len(codes.PHASES)),
        everywhere * left,
        everywhere * np.maximum(owed, 0.0),
        everywhere * np.maximum(-owed, 0.0),
    ]
    return np.concatenate(parts, axis=1, dtype=np.float32, casting="unsafe")


def _standing(units: np.ndarray, power: int) -> tuple[np.ndarray, np.ndarray]:
    """Whose the units [75] are, and what."""
    return _powers(codes.power_of(units), power), _one_hot(codes.form_of(units), 4)


def _powers(powers: np.ndarray, own: int) -> np.ndarray:
    """One-hot [75, 7] of powers counted from `own`; no column where there is none."""
    return np.roll(_one_hot(powers, codes.NUM_POWERS), -own, axis=1)


def _one_hot(values: np.ndarray, size: int) -> np.ndarray:
    return values[:, None] == np.arange(size)
