"""The infrared missile, the flare and the seeker as numbers, in SI units.

Rounded figures of the AIM-9 class. Mass, diameter and burn time are as published; the rest is chosen to give the boost
(about 850 m/s), load factor and ranges of the class. They are not measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sparring.envs.air_combat.airframe import fighter


@dataclass(frozen=True)
class MissileData:
    """One missile. The kernels fly `MISSILE`; the float64 reference flies any."""

    launch_mass: float = 86.0
    """kg."""
    propellant: float = 27.0
    """kg, burnt at a constant rate."""
    burn_s: float = 5.0
    exhaust: float = 230.0 * fighter.STANDARD_GRAVITY
    """Exhaust speed, m/s: thrust over mass flow."""
    area: float = math.pi / 4.0 * 0.127**2
    """Cross-section, m^2, the reference of the coefficients."""
    drag_slow: float = 0.35
    """Drag coefficient without lift below `rise_mach`."""
    drag_peak: float = 0.60
    """The same at `peak_mach`; between the two it is linear."""
    rise_mach: float = 0.8
    peak_mach: float = 1.1
    drag_fall: float = 0.115
    """Fall of the coefficient per Mach number beyond the peak, down to `drag_least`."""
    drag_least: float = 0.33
    normal_most: float = 10.0
    """Greatest coefficient of the force across, at about 20 degrees of angle of attack."""
    normal_slope: float = 30.0
    """The same per rad. A force N across costs N alpha = N^2 / (slope q S) along: the induced drag."""
    load_most: float = 30.0
    """Structural load factor, g."""
    lag_s: float = 0.15
    """Time constant between the commanded and the flown acceleration."""
    navigation: float = 4.0
    """N of proportional navigation, a = N closing speed x rate of the line of sight."""
    life_s: float = 40.0
    """Time for which it is powered, after which it ends."""
    least_speed: float = 150.0
    """m/s; slower than this after the burn it ends."""


MISSILE = MissileData()

LAUNCH_ANGLE = math.radians(20.0)
"""Half angle about the aircraft's nose within which the seeker locks before the launch."""
GIMBAL_ANGLE = math.radians(45.0)
"""Greatest angle between the missile's flight and its line of sight."""
VIEW_ANGLE = math.radians(2.5)
"""Half angle of the seeker's field of view about its line of sight: what it may switch to."""
LOCK_RANGE = 9000.0
"""Detection range in m of a source of intensity 1; proportional to the square root of the intensity."""

FRONT = 0.12
"""Part of the intensity that is seen from ahead: J = J(power) (FRONT + (1 - FRONT) ((1 + cos tail angle) / 2)^2)."""
IDLE, MILITARY, AFTERBURNER = 0.2, 0.5, 1.0
"""J(power) from behind, at an engine's power of 0, 50 and 100 %, linear between."""

FLARE_INTENSITY = 0.35
"""Of a burning flare from all sides, after the seeker's rejection: less than military power from behind, more than an
afterburner from the side."""
FLARE_BURN_S = 3.5
FLARE_RISE_S, FLARE_FADE_S = 0.15, 1.0
"""The intensity grows linearly at the start of the burn and falls linearly at its end."""
FLARE_TERMINAL = 70.0
"""Speed at which drag balances its weight, m/s: deceleration g (v / terminal)^2."""
FLARE_EJECTION = 30.0
"""m/s out of the aircraft's belly."""
FLARE_INTERVAL_S = 0.4
FLARE_SLOTS = math.ceil(FLARE_BURN_S / FLARE_INTERVAL_S)
"""Maximum number of an aircraft's flares in the air at once."""

LAUNCH_INTERVAL_S = 1.0
ARMING_S = 0.8
"""After the launch, before which the fuze is safe."""
FUZE_RADIUS = 10.0
"""m; the warhead goes off at the closest approach to an opponent within this."""
LETHAL_RADIUS = 5.0
"""m; up to here it takes a whole life of 1, falling linearly to 0 at `FUZE_RADIUS`."""
WARNING_RANGE = 6000.0
"""m within which an aircraft is warned of a missile that homes on it."""
