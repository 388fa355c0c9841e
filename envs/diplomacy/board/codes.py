"""Integer codes of orders, units, phases and results, shared by kernels, masks and saved games.

An order is one int32, `kind | target << 4 | other << 11 | via << 18`. Its column identifies the unit: orders of G games
are [G, 75], by the province of the unit (in winter, of the centre). `target` and `other` are locations as in
`board.locations`, 0 to 80:

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

from sparring.configs.games import DIPLOMACY_BOTS as DEFAULT_BOTS
from sparring.configs.games import SEED_BOTS

ENV_ID = "sparring/Diplomacy-v0"
BOTS = (*DEFAULT_BOTS, *SEED_BOTS)
"""Bots that may play a power, by number. Results between them: docs/results/diplomacy_bots.md."""
ACTIONS = -1
"""Used instead of a bot's number if the caller writes the power's orders."""

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
"""Maximum units of one power: with one more it would have 18 centres and would have won."""
MAX_UNITS = 34
"""Maximum units in a game, one per centre; positions with more are refused."""

SPRING, SPRING_RETREATS, FALL, FALL_RETREATS, WINTER = range(5)
PHASES = ("spring", "spring retreats", "fall", "fall retreats", "winter")
PHASE_LETTERS = (("S", "M"), ("S", "R"), ("F", "M"), ("F", "R"), ("W", "A"))
RETREATS = (SPRING_RETREATS, FALL_RETREATS)

CAME_BY_CONVOY, CONTESTED, NOTHING = 75, 76, 77
"""Codes of `origin` besides the province of an attacker (0 to 74): dislodged by convoy, standoff, no mark."""

UNORDERED, DONE, VOID, FAILED, BOUNCED, CUT, DISRUPTED = range(7)
RESULTS = ("unordered", "done", "void", "failed", "bounced", "cut", "disrupted")
"""Results of orders. `void`: not legal, counted as a hold; `failed`: legal but without an effect."""
DISLODGED_FLAG = 8
"""Added to the result of a unit that was dislodged."""


def pack(kind: int, target: int = 0, other: int = 0, *, via: bool = False) -> int:
    """Pack one order into an int; `target` and `other` are locations (0 to 80)."""
    return kind | target << TARGET_SHIFT | other << OTHER_SHIFT | int(via) << VIA_SHIFT


def unpack(order: int) -> tuple[int, int, int, bool]:
    """Return (kind, target, other, via) of a packed order."""
    target, other = order >> TARGET_SHIFT & LOCATION_MASK, order >> OTHER_SHIFT & LOCATION_MASK
    return order & KIND_MASK, target, other, bool(order >> VIA_SHIFT & 1)


def phase_name(year: int, phase: int) -> str:
    """Return the short name of a phase: season, year and kind, as in S1901M."""
    season, kind = PHASE_LETTERS[phase]
    return f"{season}{year}{kind}"


def unit_code(power: int, form: int) -> int:
    """Return the uint8 code of one unit."""
    return 1 + power + NUM_POWERS * form


def power_of(units: np.ndarray) -> np.ndarray:
    """Return the powers int32 of unit codes of any shape, -1 for no unit."""
    codes = units.astype(np.int32)
    return np.where(codes == 0, -1, (codes - 1) % NUM_POWERS)
