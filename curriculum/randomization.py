"""Physics randomization, interpolated from one level or regime to the next.

The ranges move linearly between the two ends: lower = (1 - f) lower0 + f lower1, upper alike. From none to narrow to
full every level contains the one before it, so a growing fraction f only ever widens a range. A regime is a single
point, so the ranges move away from it. Bounds of integer parameters are rounded inward, which keeps that order and
never leaves the new level; if no whole number lies between them, both become the nearest one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparring.envs.dogfight.rules import PARAMETERS, ranges

INTEGERS = np.array([parameter.integer for parameter in PARAMETERS])


@dataclass(frozen=True)
class Randomization:
    """`fraction` in [0, 1] of the way from `previous` to `level`, each a level or a regime."""

    previous: str = "none"
    level: str = "none"
    fraction: float = 1.0

    def ranges(self) -> np.ndarray:
        """Return the lower and upper bound of every parameter, float32 [13, 2], in the order of `rules.PARAMETERS`."""
        start, end = ranges(self.previous).astype(np.float64), ranges(self.level).astype(np.float64)
        bounds = (1.0 - self.fraction) * start + self.fraction * end
        bounds[INTEGERS] = _whole(bounds[INTEGERS])
        return bounds.astype(np.float32)

    @property
    def width(self) -> float:
        """Mean width of the ranges relative to those of the level full, 0 to 1; logged as a metric."""
        sizes, full = np.diff(self.ranges().astype(np.float64)), np.diff(ranges("full").astype(np.float64))
        return float((sizes / full).mean())

    def __str__(self) -> str:
        return self.level if self.fraction == 1.0 else f"{self.previous} to {self.level} {self.fraction:.0%}"


def _whole(bounds: np.ndarray) -> np.ndarray:
    """Return bounds [K, 2] rounded inward to whole numbers."""
    # The tolerance keeps whole bounds whole where interpolation left them off by rounding.
    lower, upper = np.ceil(bounds[:, 0] - 1e-9), np.floor(bounds[:, 1] + 1e-9)
    nearest = np.rint(bounds.mean(axis=1))
    empty = lower > upper
    return np.stack([np.where(empty, nearest, lower), np.where(empty, nearest, upper)], axis=1)
