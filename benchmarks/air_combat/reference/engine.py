"""Thrust of the F-16's engine, the lag of its power, and interpolation of tables, in float64 and the book's units."""

from __future__ import annotations

import numpy as np

from sparring.envs.air_combat.airframe import f16 as tables
from sparring.envs.air_combat.airframe import high_speed


def interpolate(values: np.ndarray, axis: tuple[float, ...], at: np.ndarray) -> np.ndarray:
    """Interpolate `values` [K, ...] linearly over its first axis."""
    grid = np.asarray(axis)
    cell = np.clip(np.searchsorted(grid, at, side="right") - 1, 0, len(grid) - 2)
    part = (at - grid[cell]) / (grid[cell + 1] - grid[cell])
    return values[cell] + part * (values[cell + 1] - values[cell])


def interpolate_two(table: tables.Table, axes: tuple[tables.Row, tables.Row], first: float, second: float) -> float:
    """Interpolate a table [first axis, second axis] linearly in both."""
    columns = interpolate(np.asarray(table, dtype=float), axes[0], np.asarray(first))
    return float(interpolate(columns, axes[1], np.asarray(second)))


def thrust(power: float, height: float, mach: float) -> float:
    """Return the thrust in lbf at a power of 0 to 100 %: idle at 0, military at 50, full afterburner at 100."""
    axes = (high_speed.SUBSONIC + high_speed.SUPERSONIC, tables.HEIGHTS)
    military = interpolate_two(high_speed.THRUST_MILITARY, axes, mach, height)
    if power < 50.0:
        idle = interpolate_two(high_speed.THRUST_IDLE, axes, mach, height)
        return idle + (military - idle) * power * 0.02
    maximum = interpolate_two(high_speed.THRUST_MAXIMUM, axes, mach, height)
    return military + (maximum - military) * (power - 50.0) * 0.02


def commanded_power(throttle: float) -> float:
    """Return the power that a throttle (0 to 1) commands, %."""
    return 64.94 * throttle if throttle <= 0.77 else 217.38 * throttle - 117.38


def drag_rise(mach: float, lift: float) -> float:
    """Return the drag coefficient that the tables lack at a Mach number, for a lift coefficient."""
    shape = high_speed.F16
    part = min(max((mach - shape.critical) / (shape.peak - shape.critical), 0.0), 1.0)
    falling = 1.0 - 0.3 * np.sqrt(max(mach - shape.peak, 0.0))
    return float(part * (shape.wave * falling + shape.lift_drag(max(mach, shape.peak)) * lift**2))


def power_rate(power: float, commanded: float) -> float:
    """Return the rate of the engine's power, % per s: fast within afterburner and within dry thrust, 5 at least."""
    if commanded >= 50.0:
        if power >= 50.0:
            return 5.0 * (commanded - power)
        return _lag(60.0 - power) * (60.0 - power)
    if power >= 50.0:
        return 5.0 * (40.0 - power)
    return _lag(commanded - power) * (commanded - power)


def _lag(difference: float) -> float:
    if difference <= 25.0:
        return 1.0
    return 0.1 if difference >= 50.0 else 1.9 - 0.036 * difference
