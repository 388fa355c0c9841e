"""The point-mass model in float64: forces, and the turn rates and specific excess power that follow from them.

The aircraft is a mass with a lift direction; lift L, drag D, and thrust T at alpha to the velocity. The load factor
across the velocity is `n = (L + T sin alpha) / (m g)`, the force along it `T cos alpha - D`. SI units.
"""

from __future__ import annotations

import numpy as np

from benchmarks.air_combat.reference.engine import drag_rise
from benchmarks.air_combat.reference.engine import thrust as thrust_lbf
from sparring.envs.air_combat.airframe import f16 as limits
from sparring.envs.air_combat.airframe import fighter as data

WEIGHT = data.MASS * data.STANDARD_GRAVITY
"""N."""


def density(height: float) -> float:
    """Return the density of the standard atmosphere at a height in m, kg/m^3; up to 20 km."""
    if height <= 11_000.0:
        return float(1.225 * (_temperature(height) / 288.15) ** 4.25588)
    return float(0.36391 * np.exp(-(height - 11_000.0) / 6341.62))


def mach_number(speed: float, height: float) -> float:
    """Return the Mach number at a speed (m/s) and a height (m)."""
    return float(speed / np.sqrt(1.4 * 287.053 * _temperature(height)))


def _temperature(height: float) -> float:
    return 288.15 - 0.0065 * min(height, 11_000.0)


def thrust(power: float, speed: float, height: float) -> float:
    """Return the thrust in N at a power of 0 to 100 %, within the limits of the table."""
    mach = min(mach_number(speed, height), limits.MACH_LIMITS[1])
    feet = min(max(height / limits.FT, limits.HEIGHT_LIMITS[0]), limits.HEIGHT_LIMITS[1])
    return thrust_lbf(power, feet, mach) * data.POUND_FORCE


def angle_of_attack(lift: float) -> float:
    """Return alpha in rad at a lift coefficient."""
    return float(np.radians((lift - data.LIFT_AT_ZERO) / data.LIFT_SLOPE))


def drag_coefficient(lift: float, mach: float) -> float:
    """Return the drag coefficient at a lift coefficient and a Mach number."""
    drag = float(np.polyval(data.POLAR[::-1], lift))
    if lift > data.POLAR_FROM:
        drag = max(drag, float(np.polyval(data.POLAR_HIGH[::-1], lift)))
    return drag + drag_rise(mach, lift)


def lift_for(load: float, speed: float, height: float, power: float) -> float:
    """Return the lift coefficient that gives a load factor, without limits."""
    pressure, push = 0.5 * density(height) * speed**2 * data.WING_AREA, thrust(power, speed, height)
    lift = load * WEIGHT / pressure
    for _ in range(50):  # thrust carries a part that grows with alpha
        lift = (load * WEIGHT - push * np.sin(angle_of_attack(lift))) / pressure
    return float(lift)


def greatest_load(speed: float, height: float, power: float) -> float:
    """Return the load factor at the limit of lift or of the structure, the smaller."""
    pressure = 0.5 * density(height) * speed**2 * data.WING_AREA
    push = thrust(power, speed, height) * np.sin(angle_of_attack(data.LIFT_MOST))
    return float(min((pressure * data.LIFT_MOST + push) / WEIGHT, data.LOAD_MOST))


def specific_excess_power(load: float, speed: float, height: float, power: float) -> float:
    """Return the rate of energy height, V (T cos alpha - D) / (m g), in m/s."""
    lift = lift_for(load, speed, height, power)
    pressure = 0.5 * density(height) * speed**2 * data.WING_AREA
    drag = pressure * drag_coefficient(lift, mach_number(speed, height))
    along = thrust(power, speed, height) * np.cos(angle_of_attack(lift)) - drag
    return float(speed * along / WEIGHT)


def sustained_load(speed: float, height: float, power: float) -> float:
    """Return the load factor in level flight at which no energy is gained or lost, within the limits, by bisection."""
    low, high = 0.0, greatest_load(speed, height, power)
    if specific_excess_power(high, speed, height, power) >= 0.0:
        return high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if specific_excess_power(middle, speed, height, power) > 0.0 else (low, middle)
    return low


def turn_rate(load: float, speed: float) -> float:
    """Return the rate of a level turn, g sqrt(n^2 - 1) / V, in rad/s."""
    return float(data.STANDARD_GRAVITY * np.sqrt(max(load**2 - 1.0, 0.0)) / speed)
