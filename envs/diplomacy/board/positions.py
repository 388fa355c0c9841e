"""Checks of positions from which games start; errors name the field and the province.

A position is a snapshot of one game, as `batch.position` makes it: arrays of one row. The kernels do not check
positions: a misplaced unit or one unit too many would cause out-of-bounds access.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import torch

from sparring.configs.core.errors import InputError, choose
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, SEA, location_name, standard_board

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
    """Raise `InputError` for an impossible position [1, ...]."""
    if not isinstance(position, Mapping):
        raise InputError(f"position={position!r}: give a snapshot of one game, tensors by name")
    rows = {name: _rows(position, name, (1,))[0] for name in (*_COLUMNS, *_NUMBERS)}
    for name, (low, high) in (_COLUMNS | _NUMBERS).items():
        for number in np.flatnonzero((rows[name] < low) | (rows[name] > high)):
            where = f"{name}[{number}]" if name in _COLUMNS else name
            raise InputError(f"{where}={rows[name][number]}: must be in [{low}, {high}]")
    for name in ("units", "dislodged"):
        for province in np.flatnonzero(rows[name]).tolist():
            _check_place(name, province, int(rows[name][province]))
    check_numbers(rows["units"].tolist(), rows["dislodged"].tolist(), int(rows["phase"][0]))
    check_winner(position)


def check_games(state: Mapping[str, torch.Tensor], num_games: int) -> None:
    """Raise `InputError` for a snapshot [G, ...], or [1, ...] for all games, that holds an impossible position."""
    if not isinstance(state, Mapping):
        raise InputError(f"state={state!r}: give a snapshot, tensors by name")
    for name in state:
        choose("field of a snapshot", str(name), (*_COLUMNS, *_NUMBERS))
    rows = {name: _rows(state, name, (1, num_games)) for name in (*_COLUMNS, *_NUMBERS)}
    if len(lengths := {len(values) for values in rows.values()}) > 1:
        raise InputError(f"state: tensors of {' and '.join(map(str, sorted(lengths)))} games; give as many of each")
    for game in np.flatnonzero(_doubtful(rows)).tolist():
        try:
            check_position({name: values[game : game + 1] for name, values in state.items()})
        except InputError as error:
            raise InputError(f"game {game}: {error}") from error


def _rows(state: Mapping[str, torch.Tensor], name: str, games: tuple[int, ...]) -> np.ndarray:
    """Return a field as int64 [n, columns], n being one of `games`; a scalar field has one column."""
    if name not in state:
        raise InputError(f"{name}: missing from the position")
    values = state[name]
    if not isinstance(values, torch.Tensor) or values.is_floating_point() or values.is_complex():
        kind = values.dtype if isinstance(values, torch.Tensor) else type(values).__name__
        raise InputError(f"{name}: {kind} is not a tensor of whole numbers")
    columns = {"owner": (codes.NUM_CENTRES,)}.get(name, (codes.NUM_PROVINCES,) if name in _COLUMNS else ())
    allowed = [(count, *columns) for count in sorted(set(games))]
    if tuple(values.shape) not in allowed:
        raise InputError(f"{name}: shape {tuple(values.shape)} is not {' or '.join(map(str, allowed))}")
    return values.cpu().numpy().astype(np.int64).reshape(len(values), -1)


def _doubtful(rows: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the games, bool [n], that the slower `check_position` might refuse."""
    wrong = np.zeros(len(rows["year"]), dtype=bool)
    for name, (low, high) in (_COLUMNS | _NUMBERS).items():
        wrong |= ((rows[name] < low) | (rows[name] > high)).any(axis=1)
    provinces = np.arange(codes.NUM_PROVINCES)
    for name in ("units", "dislodged"):
        wrong |= ~_stands()[rows[name].clip(*_COLUMNS[name]), provinces].all(axis=1)
    standing, gone = rows["units"] > 0, rows["dislodged"] > 0
    wrong |= (standing.sum(axis=1) + gone.sum(axis=1)) > codes.MAX_UNITS
    same = codes.power_of(rows["units"]) == codes.power_of(rows["dislodged"])
    wrong |= (gone & (~standing | same | ~np.isin(rows["phase"], codes.RETREATS))).any(axis=1)
    return wrong | (rows["winner"] >= 0).any(axis=1)


@cache
def _stands() -> np.ndarray:
    """Return whether a unit code [29] can stand in a province [75]: bool table, 0 being no unit."""
    impossible = np.ones((codes.NUM_POWERS * 4 + 1, codes.NUM_PROVINCES), dtype=bool)
    for unit, province in np.ndindex(codes.NUM_POWERS * 4, codes.NUM_PROVINCES):
        try:
            _check_place("units", province, unit + 1)
        except InputError:
            impossible[unit + 1, province] = False
    return impossible


def _check_place(name: str, province: int, unit: int) -> None:
    """Raise an error for an army at sea, a fleet inland, or a missing or wrong coast."""
    board, form = standard_board(), (unit - 1) // codes.NUM_POWERS
    where = f"{name}[{province}] ({location_name(province)})"
    if form == codes.ARMY_FORM:
        if board.terrain[province] == SEA:
            raise InputError(f"{where}: an army cannot stand at sea")
        return
    coasts = board.coasts_of[province]
    location = coasts[form - 2] if form > 1 and coasts else province
    if bool(coasts) != (form > 1) or not board.fleet_next[location].any():
        raise InputError(f"{where}: no fleet of form {form} can stand there")


def check_numbers(units: Sequence[int], dislodged: Sequence[int], phase: int) -> None:
    """Raise an error for too many units [75], or dislodged units [75] that cannot be there."""
    count = sum(unit > 0 for unit in (*units, *dislodged))
    if count > codes.MAX_UNITS:
        raise InputError(f"units: {count} of them; there are never more than {codes.MAX_UNITS}")
    for province, (unit, gone) in enumerate(zip(units, dislodged, strict=True)):
        where = f"dislodged[{province}] ({location_name(province)})" if gone else ""
        if gone and phase not in codes.RETREATS:
            raise InputError(f"{where}: no unit has to retreat in {codes.PHASES[phase]}")
        if gone and (not unit or (unit - gone) % codes.NUM_POWERS == 0):
            raise InputError(f"{where}: no unit of another power stands there")


def check_winner(position: Position) -> None:
    """Raise an error for a winner with fewer than 18 centres, or in a game that is not done."""
    winner, owner = int(position["winner"][0]), position["owner"][0]
    if winner < 0:
        return
    if (centres := int((owner == winner).sum())) < codes.SOLO:
        raise InputError(f"winner: {POWERS[winner]} has {centres} centres; it takes {codes.SOLO} to win")
    if not bool(position["done"][0]):
        raise InputError(f"winner: {POWERS[winner]}, but done is not true: a game with a winner is over")
