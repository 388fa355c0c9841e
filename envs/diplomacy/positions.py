"""What a position must be before a game may begin from it: refused whole, with the field and the province named.

A position is a snapshot of one game, as `batch.position` makes it: arrays of one row.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from configs.names import InputError
from envs.diplomacy import codes
from envs.diplomacy.board import POWERS, SEA, location_name, standard_board

Position = Mapping[str, torch.Tensor]

FIRST_YEAR, LAST_YEAR = 1901, 30_000
_NUMBERS = {
    "year": (FIRST_YEAR, LAST_YEAR),
    "phase": (codes.SPRING, codes.WINTER),
    "winner": (-1, codes.NUM_POWERS - 1),
    "done": (0, 1),
}
_COLUMNS = {
    "units": (0, codes.NUM_POWERS * 4),
    "dislodged": (0, codes.NUM_POWERS * 4),
    "origin": (0, codes.NOTHING),
    "owner": (-1, codes.NUM_POWERS - 1),
}


def check_position(position: Position) -> None:
    """Raise `InputError` for a position [1, ...] that no game can be in."""
    rows = {name: _row(position, name) for name in (*_COLUMNS, *_NUMBERS)}
    for name, (low, high) in (_COLUMNS | _NUMBERS).items():
        for number in np.flatnonzero((rows[name] < low) | (rows[name] > high)):
            where = f"{name}[{number}]" if name in _COLUMNS else name
            raise InputError(f"{where}={rows[name][number]}: must be in [{low}, {high}]")
    for name in ("units", "dislodged"):
        for province in np.flatnonzero(rows[name]).tolist():
            _check_place(name, province, int(rows[name][province]))
    count = int((rows["units"] > 0).sum() + (rows["dislodged"] > 0).sum())
    if count > codes.MAX_UNITS:
        raise InputError(f"units: {count} of them; there are never more than {codes.MAX_UNITS}")
    _check_dislodged(rows["units"], rows["dislodged"], int(rows["phase"][0]))


def check_start(position: Position, *, most: int, last_year: int) -> None:
    """Refuse also a game that is over, a power with more than `most` units, and a year after the last one."""
    check_position(position)
    if bool(position["done"].any()):
        raise InputError("position: the game is over; give one that goes on")
    if int(position["year"]) > last_year:
        raise InputError(f"position: year={int(position['year'])} is after last_year={last_year}")
    for name in ("units", "dislodged"):
        powers = codes.power_of(position[name].cpu().numpy())
        for power, code in enumerate(POWERS):
            if (count := int((powers == power).sum())) > most:
                raise InputError(f"position: {name} of {code}: {count}; a power has at most {most}")


def _row(position: Position, name: str) -> np.ndarray:
    """One game's values of a field, int64 [columns] or [1]."""
    if name not in position:
        raise InputError(f"{name}: missing from the position")
    values = torch.as_tensor(position[name])
    wanted = (1, *{"owner": (codes.NUM_CENTRES,)}.get(name, (codes.NUM_PROVINCES,) if name in _COLUMNS else ()))
    if tuple(values.shape) != wanted:
        raise InputError(f"{name}: shape {tuple(values.shape)} is not {wanted}")
    return values.cpu().numpy().astype(np.int64).reshape(-1)


def _check_place(name: str, province: int, unit: int) -> None:
    """Refuse an army at sea, a fleet inland, and a coast that is missing or not there."""
    board, form = standard_board(), (unit - 1) // codes.NUM_POWERS
    where = f"{name}[{province}] ({location_name(province)})"
    if form == codes.ARMY_FORM:
        if board.terrain[province] == SEA:
            raise InputError(f"{where}: an army cannot stand at sea")
        return
    coasts = board.coasts_of[province]
    place = coasts[form - 2] if form > 1 and coasts else province
    if bool(coasts) != (form > 1) or not board.fleet_next[place].any():
        raise InputError(f"{where}: no fleet of form {form} can stand there")


def _check_dislodged(units: np.ndarray, dislodged: np.ndarray, phase: int) -> None:
    """Refuse units that have to retreat out of season, or from nobody."""
    for province in np.flatnonzero(dislodged).tolist():
        where = f"dislodged[{province}] ({location_name(province)})"
        if phase not in (codes.SPRING_RETREATS, codes.FALL_RETREATS):
            raise InputError(f"{where}: nobody has to retreat in {codes.PHASES[phase]}")
        powers = codes.power_of(np.array([units[province], dislodged[province]]))
        if powers[0] == -1 or powers[0] == powers[1]:
            raise InputError(f"{where}: no unit of another power stands there")
