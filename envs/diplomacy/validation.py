"""Checks of arguments, each raising a one-line `InputError`: numbers out of range, unknown bots, misspelt options.

Positions are checked in `positions.py`, orders as text in `notation.py` and `submit.py`. Needs neither Warp nor torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board import codes


def check_whole(name: str, value: Any, low: int, high: int) -> int:
    """Return an integer in [low, high] as an int; raises `InputError` for anything else, including True and False."""
    try:
        number = low - 1 if isinstance(value, bool | np.bool_) else index(value)
    except TypeError:
        number = low - 1
    if not low <= number <= high:
        raise InputError(f"{name}={value!r}: must be a whole number in [{low}, {high}]")
    return number


def check_players(players: np.ndarray) -> None:
    """Raise an error for numbers [G, 7] that are neither a bot's nor `ACTIONS`."""
    if players.min() >= codes.ACTIONS and players.max() < len(codes.BOTS):
        return
    for game, power in np.argwhere((players < codes.ACTIONS) | (players >= len(codes.BOTS)))[:1].tolist():
        bots = ", ".join(f"{number} {name}" for number, name in enumerate(codes.BOTS))
        raise InputError(f"players[{game}, {power}]={players[game, power]}: choose from {codes.ACTIONS} none, {bots}")


def check_row(name: str, values: Sequence[int] | np.ndarray, length: int, low: int, high: int) -> None:
    """Raise an error for a row without exactly `length` numbers, or with a number outside [low, high]."""
    row = np.asarray(values)
    if row.shape != (length,):
        raise InputError(f"{name}: shape {row.shape} is not ({length},)")
    for at, value in enumerate(row.tolist()):
        check_whole(f"{name}[{at}]", value, low, high)
