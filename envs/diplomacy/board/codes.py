"""Orders, units and phases as integers: what the kernels, the masks and the saved games all speak.

An order is one int32, `kind | target << 4 | other << 11 | via << 18`. Whose order it is follows from its place: orders
of G games are [G, 75], by the province of the unit (in winter, of the centre) that carries them out. `target` and
`other` are locations as in `board.locations`, 0 to 80:

| kind | target | other |
| --- | --- | --- |
| HOLD, DISBAND | | |
| MOVE | where to; `via` asks for a convoy | |
| SUPPORT | the unit that holds | |
| SUPPORT_MOVE | where that unit moves | the unit that moves |
| CONVOY | where the army goes | the army |
| RETREAT | where to | |
| BUILD | where, with its coast for a fleet | ARMY or FLEET |

A unit is one uint8: 0 for none, else `1 + power + 7 * form`, where form is ARMY_FORM, FLEET_FORM, or FLEET_FORM + 1 or
+ 2 on the first or second coast of a split province.
"""

from __future__ import annotations

import numpy as np

ENV_ID = "sparring/Diplomacy-v0"

BOTS = ("random", "chaos", "defensive", "territorial", "coordinated", "dumbbot")
"""Who may play a power, by number. How they fare against each other: docs/results/diplomacy_bots.md."""
ACTIONS = -1
"""In a bot's place: the power's orders come from outside."""

NO_ORDER, HOLD, MOVE, SUPPORT, SUPPORT_MOVE, CONVOY, RETREAT, DISBAND, BUILD = range(9)
KINDS = 9
TARGET_SHIFT, OTHER_SHIFT, VIA_SHIFT = 4, 11, 18
KIND_MASK, LOCATION_MASK = 15, 127

ARMY_FORM, FLEET_FORM = 0, 1
NUM_POWERS = 7
NUM_PROVINCES = 75
NUM_LOCATIONS = 81
NUM_CENTRES = 34
SOLO = 18
"""Centres that win the game."""
SLOTS = SOLO - 1
"""Units of one power that there is room for: with one more it would have won, or been refused."""
MAX_UNITS = 34
"""No more units than centres, once the first winter is over; a position with more is refused."""

SPRING, SPRING_RETREATS, FALL, FALL_RETREATS, WINTER = range(5)
PHASES = ("spring", "spring retreats", "fall", "fall retreats", "winter")
PHASE_LETTERS = (("S", "M"), ("S", "R"), ("F", "M"), ("F", "R"), ("W", "A"))
RETREATS = (SPRING_RETREATS, FALL_RETREATS)

CAME_BY_CONVOY, CONTESTED, NOTHING = 75, 76, 77
"""Beside an attacker's province (0 to 74): what `origin` says of a province after movement."""

UNORDERED, DONE, VOID, FAILED, BOUNCED, CUT, DISRUPTED = range(7)
RESULTS = ("unordered", "done", "void", "failed", "bounced", "cut", "disrupted")
"""How an order ended. `void` was not legal and became a hold; `failed` had nothing to act on."""
DISLODGED_FLAG = 8
"""Added to the result of a unit that was dislodged."""


def pack(kind: int, target: int = 0, other: int = 0, *, via: bool = False) -> int:
    """One order."""
    return kind | target << TARGET_SHIFT | other << OTHER_SHIFT | int(via) << VIA_SHIFT


def unpack(order: int) -> tuple[int, int, int, bool]:
    """Kind, target, other and via of an order."""
    target, other = order >> TARGET_SHIFT & LOCATION_MASK, order >> OTHER_SHIFT & LOCATION_MASK
    return order & KIND_MASK, target, other, bool(order >> VIA_SHIFT & 1)


def phase_name(year: int, phase: int) -> str:
    """Season, year and kind, as in S1901M."""
    season, kind = PHASE_LETTERS[phase]
    return f"{season}{year}{kind}"


def unit_code(power: int, form: int) -> int:
    """One unit."""
    return 1 + power + NUM_POWERS * form


def power_of(units: np.ndarray) -> np.ndarray:
    """The powers of unit codes of any shape, -1 where there is no unit."""
    codes = units.astype(np.int32)
    return np.where(codes == 0, -1, (codes - 1) % NUM_POWERS)
