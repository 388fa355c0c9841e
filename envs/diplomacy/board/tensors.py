"""The board as torch tensors, for observations, rewards and order choices on any device.

These are the constants of the board, made once per device; `batch.py` holds the games. A unit's row in
`Tables.landings` (`state.py`) is its location, and 81 more for a fleet: row 5 is an army in province 5, row 86 a fleet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import NOTHING, standard_board
from sparring.envs.diplomacy.board.state import board_tables

State = Mapping[str, Tensor]
"""State of G games, with the names of `DiplomacyBatch.state`: units [G, 75], owner [G, 34], year [G] and so on."""
FORMS = 4
"""An army, a fleet, a fleet on the first coast, on the second."""


@dataclass(frozen=True, eq=False)
class BoardTensors:
    """The board on one device. P = 75 provinces, L = 81 locations, R = 162 rows of units; int64 unless said."""

    home: Tensor
    """[P] the power whose home centre it is, or -1."""
    terrain: Tensor
    """[P] INLAND, COAST or SEA."""
    centres: Tensor
    """[34] provinces of the supply centres."""
    province_of: Tensor
    """[L] province of a location."""
    landings: Tensor
    """[R, 12] locations a unit can move to, -1 beyond the last."""
    goals: Tensor
    """[R, 12] the provinces of `landings`, padded with -1."""
    reach: Tensor
    """[R, 12] provinces it can move to, each once, as supports require; padded with -1."""
    rows: Tensor
    """[P, 4] the row of a unit of each form."""
    beside_centre: Tensor
    """bool [P, 34] true where a province borders a centre's province, by land or by sea."""
    near: Tensor
    """float32 [P, P] averaging matrix: each row is the mean over a province's neighbours, by land or by sea."""


@cache
def board_tensors(device: torch.device) -> BoardTensors:
    """Return the standard board on a device, the same tensors at every call."""
    board = standard_board()
    tables = board_tables(board)
    province_of, landings, reach = (tables[name] for name in ("province_of", "landings", "reach"))
    provinces = np.arange(codes.NUM_PROVINCES)
    fleets = [(province, *(coasts or (province, province))) for province, coasts in enumerate(board.coasts_of)]
    rows = np.concatenate([provinces[:, None], codes.NUM_LOCATIONS + np.array(fleets)], axis=1)
    reaches = (reach[:, :, None] == provinces).any(axis=1)  # [R, P]
    near = board.army_next | reaches[rows[:, 1:]].any(axis=1)
    arrays = {
        "home": board.home,
        "terrain": board.terrain,
        "centres": board.centres,
        "province_of": province_of,
        "landings": landings,
        "goals": np.where(landings >= 0, province_of[landings], NOTHING),
        "reach": reach,
        "rows": rows,
        "beside_centre": near[:, board.centres],
        "near": near / near.sum(axis=1, keepdims=True),
    }
    kinds = {"b": torch.bool, "f": torch.float32, "i": torch.int64}
    return BoardTensors(
        **{name: torch.tensor(array, dtype=kinds[array.dtype.kind], device=device) for name, array in arrays.items()}
    )


def power_of(units: Tensor) -> Tensor:
    """Return the powers int64 of unit codes of any shape, -1 for no unit."""
    return torch.where(units > 0, (units.long() - 1) % codes.NUM_POWERS, NOTHING)


def form_of(units: Tensor) -> Tensor:
    """Return the forms int64 of unit codes of any shape, -1 for no unit."""
    return torch.where(units > 0, (units.long() - 1) // codes.NUM_POWERS, NOTHING)


def count_powers(powers: Tensor) -> Tensor:
    """Count each power in `powers` [G, n], int64 [G, 7]; -1 is not counted."""
    return one_hot(powers, codes.NUM_POWERS).sum(dim=1)


def one_hot(values: Tensor, size: int) -> Tensor:
    """Return one-hot rows, bool [..., size]; all false for a value outside [0, size)."""
    return values.unsqueeze(-1) == torch.arange(size, device=values.device)


def due(units: Tensor, owner: Tensor) -> Tensor:
    """Return the builds each power may make in winter, int64 [G, 7]; negative values are the disbands it owes.

    `units` is [G, 75], `owner` [G, 34]. The rule is the same as in `adjudicator/adjustments.py`.
    """
    spare = count_powers(owner) - count_powers(power_of(units))
    return torch.minimum(spare, count_powers(free_homes(units, owner)))


def free_homes(units: Tensor, owner: Tensor) -> Tensor:
    """Return the power that may build in each centre, int64 [G, 34]: the owner of an empty home centre, else -1."""
    board = board_tensors(units.device)
    free = (units[:, board.centres] == 0) & (owner == board.home[board.centres])
    return torch.where(free, owner.long(), NOTHING)
