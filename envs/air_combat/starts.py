"""Starts from outside: aircraft beyond the tables are moved to their edge, and counted.

The tables say nothing beyond Mach 0.1 to 1, 0 to 50,000 ft, alpha -10 to 45 and beta -30 to 30 degrees; a model that
extrapolated them would be wrong without a word.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.airframe import f16

LOWEST = 30.0
"""Least height of a start, m."""


def clamp_planes(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return planes of any shape within the tables, and bool of that shape: which of them were moved.

    Heights and speeds are clamped; an aircraft whose alpha or beta is outside gets its nose into its velocity and its
    turn rates are zeroed. `planes` is unchanged.
    """
    rows = planes.copy()
    moved = np.zeros(planes.shape, dtype=bool)
    for index in np.ndindex(planes.shape):
        moved[index] = _clamp(rows[index])
    return rows, moved


def _clamp(plane: Any) -> bool:
    """Move one struct into the tables and return whether it was outside."""
    height = -float(plane["pos"][2])
    allowed = min(max(height, LOWEST), rules.CEILING - LOWEST)
    velocity = plane["vel"].astype(float)
    speed = float(np.linalg.norm(velocity))
    sound = np.sqrt(1.4 * 287.053 * (288.15 - 0.0065 * min(allowed, 11_000.0)))  # m/s, in the standard atmosphere
    slowest, fastest = (mach * sound for mach in f16.MACH_LIMITS)
    wanted = min(max(speed, slowest), fastest)
    direction = velocity / speed if speed > 1e-3 else plane["nose"].astype(float)
    nose, up = plane["nose"].astype(float), plane["up"].astype(float)
    alpha = np.degrees(np.arctan2(-direction @ up, direction @ nose))
    beta = np.degrees(np.arcsin(np.clip(direction @ np.cross(nose, up), -1.0, 1.0)))
    turned = not (f16.ALPHA_LIMITS[0] <= alpha <= f16.ALPHA_LIMITS[1] and abs(beta) <= f16.BETA_LIMIT)
    if turned:
        _align(plane, direction, up)
    if height == allowed and speed == wanted and not turned:
        return False
    plane["pos"][2], plane["vel"] = -allowed, direction * wanted
    return True


def _align(plane: Any, direction: np.ndarray, up: np.ndarray) -> None:
    """Point the nose along `direction`, with the roof as near to `up` as it can be, and stop all rotation."""
    roof = up - direction * (up @ direction)
    if np.linalg.norm(roof) < 1e-3:
        roof = np.cross(direction, np.eye(3)[np.abs(direction).argmin()])
    roof /= np.linalg.norm(roof)
    x, y, z = direction, np.cross(direction, roof), -roof
    plane["nose"], plane["up"], plane["attitude"] = direction, roof, _quaternion(np.stack([x, y, z], axis=1))
    plane["alpha"], plane["roll_rate"] = 0.0, 0.0
    for name in ("rates", "past_acceleration", "past_rotation"):
        plane[name] = 0.0


def _quaternion(m: np.ndarray) -> np.ndarray:
    """Return the unit quaternion (x, y, z, w) of a rotation matrix, by its largest component."""
    squares = np.array(
        [
            1.0 + m[0, 0] - m[1, 1] - m[2, 2],
            1.0 - m[0, 0] + m[1, 1] - m[2, 2],
            1.0 - m[0, 0] - m[1, 1] + m[2, 2],
            1.0 + m[0, 0] + m[1, 1] + m[2, 2],
        ]
    )
    products = np.array(
        [
            [squares[0], m[1, 0] + m[0, 1], m[0, 2] + m[2, 0], m[2, 1] - m[1, 2]],
            [m[1, 0] + m[0, 1], squares[1], m[2, 1] + m[1, 2], m[0, 2] - m[2, 0]],
            [m[0, 2] + m[2, 0], m[2, 1] + m[1, 2], squares[2], m[1, 0] - m[0, 1]],
            [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1], squares[3]],
        ]
    )
    row = products[squares.argmax()]
    return row / np.linalg.norm(row)
