"""The silhouette of an aircraft in pictures and on the pages: shapes in body coordinates, and how it rolls.

Body coordinates have the nose along +x and the left side along +y; a fighter's drawn radius is 1. The view is from the
side, so a roll shows either the fin (`lift` 1 or -1) or both wings (`lift` 0). A pilot pulls toward the canopy:
`lift` follows the turn, and level flight leans upright. `arena.js` draws the same shapes with the same `lift`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Outline = tuple[tuple[float, float], ...]

BODY: Outline = (
    (1.6, 0.0), (1.25, 0.1), (0.6, 0.17), (-0.4, 0.15), (-1.0, 0.08),
    (-1.0, -0.08), (-0.4, -0.15), (0.6, -0.17), (1.25, -0.1),
)  # fmt: skip
WING: Outline = ((0.55, 0.1), (-0.4, 1.0), (-0.7, 1.0), (-0.45, 0.1))
TAIL: Outline = ((-0.6, 0.08), (-0.95, 0.5), (-1.15, 0.5), (-1.0, 0.05))
FIN: Outline = ((-0.3, 0.1), (-0.95, 0.68), (-1.2, 0.68), (-1.0, 0.05))
CANOPY: Outline = ((0.85, 0.08), (0.6, 0.32), (0.25, 0.32), (-0.1, 0.1))

UPRIGHT = 0.6
"""`lift` of level flight without a turn; the wings stay visible at 0.8 of their span."""
FULL_TURN = 2.5
"""Turn rate in rad/s that alone rolls the aircraft by all of `lift`."""
LEAST_SPAN = 0.3
"""Share of the wings' span that is always drawn."""
TURN_TICKS = 6
"""Ticks on either side of a moment over which its turn rate is measured."""


def lift(yaw: float, turn: float) -> float:
    """Return the side in [-1, 1] that the canopy faces, 1 left of the heading; `yaw` in rad, `turn` in rad/s."""
    return min(max(UPRIGHT * math.cos(yaw) + turn / FULL_TURN, -1.0), 1.0)


def span(lift: float) -> float:
    """Return the share of the wings' span that is seen at a roll."""
    return max(LEAST_SPAN, math.sqrt(1.0 - lift * lift))


def turn_rate(rows: np.ndarray, row: int, cos: int, ticks_per_second: int) -> float:
    """Return the turn rate, rad/s, at `row` of a trace with the heading's cosine in column `cos` and sine in the next.

    The difference of the headings `TURN_TICKS` before and after, counter-clockwise; shorter at the ends.
    """
    first, last = max(row - TURN_TICKS, 0), min(row + TURN_TICKS, len(rows) - 1)
    if first == last:
        return 0.0
    (c0, s0), (c1, s1) = rows[first, cos : cos + 2].astype(float), rows[last, cos : cos + 2].astype(float)
    return math.atan2(c0 * s1 - s0 * c1, c0 * c1 + s0 * s1) * ticks_per_second / (last - first)


def shapes() -> dict[str, Any]:
    """Return the outlines and constants by their names in `arena.js`."""
    return {
        "body": BODY,
        "wing": WING,
        "tail": TAIL,
        "fin": FIN,
        "canopy": CANOPY,
        "upright": UPRIGHT,
        "fullTurn": FULL_TURN,
        "leastSpan": LEAST_SPAN,
        "turnTicks": TURN_TICKS,
    }
