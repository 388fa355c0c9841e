"""Observations: the board from the view of one power, float32 [75, 62], one row per province.

Powers are counted from the observer, in alphabetical order and cyclically: a policy trained as one power can play any
other. Values of the whole game are repeated in every row. `observe` computes G games at once on their device; the
PettingZoo interface and training use the same function. Policies that decide in all phases see 12 more columns, float32
[75, 74]: the retreats of their dislodged units, which depend on where the attacks came from.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
import torch
import warp as wp
from torch import Tensor

from sparring.envs.diplomacy.adjudicator.calendar import FALL, SPRING, WINTER
from sparring.envs.diplomacy.adjudicator.retreats import can_retreat
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.positions import FIRST_YEAR
from sparring.envs.diplomacy.board.state import (
    LOCATIONS,
    POWERS,
    PROVINCES,
    SIDES,
    Games,
    Tables,
    form_of,
    location_of,
    power_of,
    tables,
)
from sparring.envs.diplomacy.board.tensors import FORMS, State, due
from sparring.envs.launcher import Copyable, stream_of

wp.set_module_options({"enable_backward": False, "optimization_level": 3, "max_unroll": 1})

COLUMNS = (
    ("unit_power", codes.NUM_POWERS),
    ("unit_form", FORMS),
    ("dislodged_power", codes.NUM_POWERS),
    ("dislodged_form", FORMS),
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
"""Column groups of an observation: name and width."""
SHAPE = (codes.NUM_PROVINCES, sum(size for _, size in COLUMNS))
AT = {
    name: slice(end - size, end)
    for (name, size), end in zip(COLUMNS, accumulate(size for _, size in COLUMNS), strict=True)
}
"""Column slice of each group."""
RETREATS = slice(SHAPE[1], SHAPE[1] + SIDES + 1)
"""Further columns of `observe(retreats=True)`: 1 for each legal retreat in the `Tables.landings` row of an own
dislodged unit."""
ALL_PHASES_SHAPE = (codes.NUM_PROVINCES, RETREATS.stop)


_AT_HEAD = ("unit_power", "dislodged_power", "owner", "home", "terrain", "contested", "slot", "phase", "years_left")
UNIT, DISLODGED, OWNER, HOME, TERRAIN, CONTESTED, SLOT, PHASE, YEARS = (
    wp.constant(AT[name].start) for name in _AT_HEAD
)
BUILDS, DISBANDS, WIDTH = (wp.constant(at) for at in (AT["builds"].start, AT["disbands"].start, SHAPE[1]))
LANDINGS = wp.constant(SIDES + 1)
STANDOFF, SLOTS = wp.constant(codes.CONTESTED), wp.constant(float(codes.SLOTS))


def observe(state: State, power: Tensor, *, last_year: int, retreats: bool = False) -> Tensor:
    """Return the observation of `power` int64 [G] in each game, float32 [G, 75, 62]; games end after `last_year`.

    With `retreats` it is [G, 75, 74] (`RETREATS`).
    """
    device = power.device
    winter = state["phase"] == codes.WINTER
    owed = torch.zeros(len(power), codes.NUM_POWERS, dtype=torch.int32, device=device)
    if device.type != "cpu" or bool(winter.any()):  # on a GPU any() would synchronize
        owed = (due(state["units"], state["owner"]) * winter.unsqueeze(1)).to(torch.int32)
    observation = torch.zeros(len(power), *(ALL_PHASES_SHAPE if retreats else SHAPE), device=device)
    with stream_of(device):
        launch = _launch_of(state, power.to(torch.int32), owed, observation, last_year)
        wp.launch(**launch)
        if retreats:
            games, board, _, _, observers, _, out = launch["inputs"]
            wp.launch(**launch | {"kernel": retreats_kernel, "inputs": [games, board, observers, out]})
    return observation


class PowerViews(Copyable):
    """Observations of one game on the CPU by all powers; the launch is described once, which takes longer than it runs.

    `state` are the tensors [1, ...] of its batch, which `process` changes; the game ends after `last_year`.
    """

    _references: ClassVar[tuple[str, ...]] = ("_command",)

    def __init__(self, state: State, *, last_year: int) -> None:
        self._state, self._last_year = dict(state), last_year
        self._powers = torch.arange(codes.NUM_POWERS, dtype=torch.int32)
        self._owed = torch.zeros(codes.NUM_POWERS, codes.NUM_POWERS, dtype=torch.int32)
        self._seen = torch.zeros(codes.NUM_POWERS, *SHAPE)
        self._bind()

    def __call__(self) -> np.ndarray:
        """Return each power's current observation, float32 [7, 75, 62], as new memory."""
        winter = int(self._state["phase"]) == codes.WINTER
        self._owed.copy_(due(self._state["units"], self._state["owner"])) if winter else self._owed.zero_()
        self._seen.zero_()
        self._command.launch()
        return self._seen.numpy().copy()

    def _bind(self) -> None:
        shared = {name: values.expand(codes.NUM_POWERS, *values.shape[1:]) for name, values in self._state.items()}
        launch = _launch_of(shared, self._powers, self._owed, self._seen, self._last_year)
        self._command = wp.launch(**launch, record_cmd=True)


def _launch_of(state: State, powers: Tensor, owed: Tensor, out: Tensor, last_year: int) -> dict[str, Any]:
    """Return the arguments of `wp.launch` for observations by `powers` int32 [G] into `out`."""
    wp.init()  # the caller may not have created a batch yet
    games = Games()
    for name, values in state.items():
        setattr(games, name, wp.from_torch(values))
    where, years = wp.device_from_torch(out.device), float(max(1, last_year - FIRST_YEAR))
    arrays = map(wp.from_torch, (powers, owed, out))
    inputs = [games, tables(str(where)), float(last_year), years, *arrays]
    return {"kernel": observe_kernel, "dim": out.shape[:2], "inputs": inputs, "device": where}


@wp.func
def from_seat(power: int, observer: int) -> int:
    """Return a power's index relative to the observer."""
    return (power - observer + POWERS) % POWERS


@wp.func
def show_unit(row: wp.array[float], at: int, unit: int, observer: int) -> None:
    """Mark a unit's power and form in the columns from `at` on."""
    if unit > 0:
        row[at + from_seat((unit - 1) % POWERS, observer)] = 1.0
        row[at + POWERS + (unit - 1) // POWERS] = 1.0


@wp.func
def is_slot(games: Games, board: Tables, power: int, owed: int, game: int, province: int) -> bool:
    """Return whether a power may give an order for a province; in winter it has `owed` builds, or disbands below 0."""
    phase = int(games.phase[game])
    unit, centre = int(games.units[game, province]), board.centre_of[province]
    if phase == WINTER and owed >= 0:
        if owed == 0 or centre < 0 or unit > 0 or board.home[province] != power:
            return False
        return int(games.owner[game, centre]) == power
    if phase != WINTER and phase != SPRING and phase != FALL:
        unit = int(games.dislodged[game, province])
    return unit > 0 and (unit - 1) % POWERS == power


@wp.func
def slot_number(games: Games, board: Tables, power: int, owed: int, game: int, province: int) -> float:
    """Return the number of a province's slot, from 1, by the alphabet."""
    number = float(1.0)
    for before in range(province):
        if is_slot(games, board, power, owed, game, before):
            number += 1.0
    return number


@wp.func
def retreats_are_due(games: Games, game: int) -> bool:
    """Return whether any unit is dislodged."""
    for province in range(PROVINCES):
        if games.dislodged[game, province] != wp.uint8(0):
            return True
    return False


@wp.kernel
def observe_kernel(
    games: Games,
    board: Tables,
    last_year: float,
    years: float,
    observers: wp.array[int],
    owed: wp.array2d[int],
    out: wp.array3d[float],
) -> None:
    """Write row `province` of the observation of a game, whose entries are 0.

    `owed` [G, 7] are builds due in winter, negative: disbands; else 0.
    """
    game, province = wp.tid()
    observer, row = observers[game], out[game, province]
    adjustments = owed[game, observer]
    show_unit(row, UNIT, int(games.units[game, province]), observer)
    show_unit(row, DISLODGED, int(games.dislodged[game, province]), observer)
    centre, home = board.centre_of[province], board.home[province]
    if centre >= 0:
        owner = int(games.owner[game, centre])
        row[OWNER + wp.where(owner < 0, POWERS, from_seat(owner, observer))] = 1.0
    if home >= 0:
        row[HOME + from_seat(home, observer)] = 1.0
    row[TERRAIN + board.terrain[province]] = 1.0
    if int(games.origin[game, province]) == STANDOFF:
        if retreats_are_due(games, game):
            row[CONTESTED] = 1.0
    if games.done[game] == wp.uint8(0):
        if is_slot(games, board, observer, adjustments, game, province):
            row[SLOT] = slot_number(games, board, observer, adjustments, game, province) / SLOTS
    row[PHASE + int(games.phase[game])] = 1.0
    row[YEARS] = (last_year - float(games.year[game])) / years
    for power in range(POWERS):
        number = float(owed[game, power])
        row[BUILDS + from_seat(power, observer)] = wp.max(number, 0.0) / SLOTS
        row[DISBANDS + from_seat(power, observer)] = wp.max(-number, 0.0) / SLOTS


@wp.kernel
def retreats_kernel(games: Games, board: Tables, observers: wp.array[int], out: wp.array3d[float]) -> None:
    """Mark the legal retreats of the observer's unit that was dislodged from a province, in `RETREATS` of its row."""
    game, province = wp.tid()
    unit = games.dislodged[game, province]
    if unit != wp.uint8(0):
        if power_of(unit) == observers[game]:
            landings = location_of(board, unit, province) + wp.where(form_of(unit) > 0, LOCATIONS, 0)
            for side in range(LANDINGS):
                target = board.landings[landings, side]
                if target >= 0:
                    if can_retreat(games, board, game, province, target) == target:
                        out[game, province, WIDTH + side] = 1.0
