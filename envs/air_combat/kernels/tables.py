"""The airframe's tables as Warp arrays, and the two atmospheres.

A row of a table is a vector of all its coefficients, so one interpolation reads them all. Outside its cells a table
holds its edge value (the textbook extrapolates).
"""

# Annotations stay unquoted in files with Warp functions: Warp reads them as objects.
import numpy as np
import warp as wp

from sparring.envs.air_combat.airframe import f16, high_speed
from sparring.envs.air_combat.airframe.f4 import F4
from sparring.envs.air_combat.airframe.fighter import Airframe

Row10 = wp.types.vector(length=10, dtype=float)
"""CXq, CYr, CYp, CZq, Clr, Clp, Cmq, Cnr, Cnp, CZ."""

SHAPE = high_speed.F16
CRITICAL, PEAK, WAVE = wp.constant(SHAPE.critical), wp.constant(SHAPE.peak), wp.constant(SHAPE.wave)
PEAK_LIFT_DRAG, SUBSONIC = wp.constant(SHAPE.lift_drag(SHAPE.peak)), wp.constant(SHAPE.subsonic)
SWEPT, ASPECT = wp.constant(SHAPE.aspect * SHAPE.cosine), wp.constant(SHAPE.aspect)


@wp.struct
class AirframeTables:
    """Coefficients by alpha (12 cells of 5 degrees from -10), and thrust."""

    by_alpha: wp.array[Row10]
    by_elevator: wp.array2d[wp.vec2]
    """CX and Cm [12, 5]; elevator from -24 degrees in steps of 12."""
    by_slip: wp.array2d[wp.vec2]
    """Cl and Cn [12, 7], odd in beta; |beta| in steps of 5 degrees."""
    by_beta: wp.array2d[wp.vec4]
    """Cl and Cn of 20 degrees of aileron, Cl and Cn of 30 degrees of rudder [12, 7]; beta from -30 in steps of 10."""
    thrust: wp.array2d[wp.vec3]
    """Idle, military and maximum thrust, lbf [11, 6]; Mach in steps of 0.2, height in steps of 10,000 ft."""
    by_mach: wp.array[wp.vec3]
    """Of the point mass [21]: `Airframe.by_mach`; empty for the F-16. So are the numbers below."""
    inverse_mass: float
    weight: float
    wing_area: float
    lift_most: float
    lift_least: float
    load_most: float


F16 = Airframe(thrust=(high_speed.THRUST_IDLE, high_speed.THRUST_MILITARY, high_speed.THRUST_MAXIMUM))
AIRFRAMES = {"point_mass": F16, "f16": F16, "f4": F4}
"""The airframe of each flight model, `rules.MODELS`."""


def load_tables(device: object, model: str = "point_mass") -> AirframeTables:
    """Return the tables of a flight model in the memory of a Warp device."""

    def stacked(*parts: f16.Table) -> np.ndarray:
        return np.stack([np.asarray(part, dtype=np.float32).T for part in parts], axis=-1)

    t = f16
    tables = AirframeTables()
    rows = np.asarray((*t.DAMPING, t.NORMAL), dtype=np.float32).T
    increments = (t.ROLLING_AILERON, t.YAWING_AILERON, t.ROLLING_RUDDER, t.YAWING_RUDDER)
    fighter = AIRFRAMES[model]
    engine = [np.asarray(part, dtype=np.float32) for part in fighter.thrust]
    by_mach = np.asarray(fighter.by_mach, dtype=np.float32).reshape(-1, 3)
    tables.by_alpha = wp.array(np.ascontiguousarray(rows), dtype=Row10, device=device)
    tables.by_elevator = wp.array(stacked(t.AXIAL, t.PITCHING), dtype=wp.vec2, device=device)
    tables.by_slip = wp.array(stacked(t.ROLLING, t.YAWING), dtype=wp.vec2, device=device)
    tables.by_beta = wp.array(stacked(*increments), dtype=wp.vec4, device=device)
    tables.thrust = wp.array(np.stack(engine, axis=-1), dtype=wp.vec3, device=device)
    tables.by_mach = wp.array(by_mach, dtype=wp.vec3, device=device)
    tables.inverse_mass = 1.0 / fighter.mass
    for name in ("weight", "wing_area", "lift_most", "lift_least", "load_most"):
        setattr(tables, name, getattr(fighter, name))
    return tables


@wp.func
def cell(at: float, last: int) -> int:
    """Return the number of the cell that holds a coordinate in steps of the table, 0 to last."""
    return wp.clamp(int(wp.floor(at)), 0, last)


@wp.func
def thrust_lbf(tables: AirframeTables, mach: float, height_ft: float, power: float) -> float:
    """Return the thrust at a power of 0 to 100 %: idle at 0, military at 50, full afterburner at 100."""
    m = wp.clamp(mach * 5.0, 0.0, 10.0)  # in cells of Mach 0.2
    h = wp.clamp(height_ft * 1.0e-4, 0.0, 5.0)  # in cells of 10,000 ft
    i = cell(m, 9)
    j = cell(h, 4)
    s = m - float(i)
    t = h - float(j)
    low = tables.thrust[i, j] * (1.0 - t) + tables.thrust[i, j + 1] * t
    high = tables.thrust[i + 1, j] * (1.0 - t) + tables.thrust[i + 1, j + 1] * t
    row = low * (1.0 - s) + high * s
    if power < 50.0:
        return row[0] + (row[1] - row[0]) * power * 0.02
    return row[1] + (row[2] - row[1]) * (power - 50.0) * 0.02


@wp.func
def drag_rise(mach: float) -> wp.vec2:
    """Return zero-lift drag and drag per squared lift at high speed (`airframe/high_speed.py`)."""
    if mach < CRITICAL:
        return wp.vec2(0.0, 0.0)
    if mach < PEAK:
        return wp.vec2(WAVE, PEAK_LIFT_DRAG) * ((mach - CRITICAL) / (PEAK - CRITICAL))
    square = mach * mach - 1.0
    lifting = SWEPT * square / (4.0 * ASPECT * wp.sqrt(square) - 2.0) - SUBSONIC
    return wp.vec2(WAVE * (1.0 - 0.3 * wp.sqrt(mach - PEAK)), lifting)


@wp.func
def logarithm(ratio: float) -> float:
    """Return ln(ratio) by a series, within 0.003 for 0.65 <= ratio <= 1."""
    d = ratio - 1.0
    return d * (1.0 + d * (-0.5 + d * (0.33333333 + d * (-0.25 + d * 0.2))))


@wp.func
def book_air(height_ft: float) -> wp.vec2:
    """Return density (slug/ft^3) and speed of sound (ft/s) of the textbook's atmosphere."""
    ratio = 1.0 - 0.703e-5 * height_ft
    temperature = wp.where(height_ft >= 35000.0, 390.0, 519.0 * ratio)  # degrees Rankine
    # ratio^4.14 = ratio^4 ratio^(1/8) ratio^0.015, the last by a series: a power costs more than all the rest.
    squared = ratio * ratio
    density = 2.377e-3 * squared * squared * wp.sqrt(wp.sqrt(wp.sqrt(ratio))) * (1.0 + 0.015 * logarithm(ratio))
    return wp.vec2(density, wp.sqrt(1.4 * 1716.3 * temperature))


@wp.func
def standard_air(height: float) -> wp.vec2:
    """Return density (kg/m^3) and speed of sound (m/s) of the standard atmosphere, height in m, up to 20 km."""
    temperature = 288.15 - 0.0065 * wp.min(height, 11000.0)  # K; constant in the stratosphere
    density = float(0.0)
    if height <= 11000.0:
        ratio = temperature / 288.15  # ratio^4.25588 = ratio^4 ratio^(1/4) ratio^0.00588
        squared = ratio * ratio
        density = 1.225 * squared * squared * wp.sqrt(wp.sqrt(ratio)) * (1.0 + 0.00588 * logarithm(ratio))
    else:
        density = 0.36391 * wp.exp((11000.0 - height) / 6341.62)  # scale height R T / g at 216.65 K, m
    return wp.vec2(density, wp.sqrt(1.4 * 287.053 * temperature))


@wp.func
def commanded_power(throttle: float) -> float:
    """Return the power that a throttle (0 to 1) commands, %."""
    return wp.where(throttle <= 0.77, 64.94 * throttle, 217.38 * throttle - 117.38)


@wp.func
def spool_rate(difference: float) -> float:
    """Return the inverse time constant of the engine below military power, 1/s."""
    return wp.clamp(1.9 - 0.036 * difference, 0.1, 1.0)


@wp.func
def power_rate(power: float, commanded: float) -> float:
    """Return the rate of the engine's power, % per s."""
    if commanded >= 50.0:
        if power >= 50.0:
            return 5.0 * (commanded - power)
        return spool_rate(60.0 - power) * (60.0 - power)
    if power >= 50.0:
        return 5.0 * (40.0 - power)
    return spool_rate(commanded - power) * (commanded - power)
