"""Physics randomization on its way from one level to the next.

The ranges move linearly between the two levels' ends: lower = (1 - f) lower0 + f lower1, upper alike. Every level
contains the one before it, so a growing fraction f only ever widens a range. Bounds of integer parameters are rounded
inward, which keeps that order and never leaves the new level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from envs.dogfight.rules import PARAMETERS, ranges

INTEGERS = np.array([parameter.integer for parameter in PARAMETERS])


@dataclass(frozen=True)
class Widening:
    """`fraction` in [0, 1] of the way from the level `previous` to `level`."""

    previous: str = "none"
    level: str = "none"
    fraction: float = 1.0

    def ranges(self) -> np.ndarray:
        """Lower and upper bound of every parameter, float32 [13, 2], in the order of `rules.PARAMETERS`."""
        start, end = ranges(self.previous).astype(np.float64), ranges(self.level).astype(np.float64)
        bounds = (1.0 - self.fraction) * start + self.fraction * end
        bounds[INTEGERS, 0] = np.ceil(bounds[INTEGERS, 0] - 1e-9)
        bounds[INTEGERS, 1] = np.floor(bounds[INTEGERS, 1] + 1e-9)
        return bounds.astype(np.float32)

    def __str__(self) -> str:
        return self.level if self.fraction == 1.0 else f"{self.previous} to {self.level} {self.fraction:.0%}"
