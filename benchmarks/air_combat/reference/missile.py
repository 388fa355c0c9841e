"""The missile in float64: boost, drag, proportional navigation behind a lag, and the closest approach. SI units.

World axes are north, east and down. With r and u the target's position and velocity relative to the missile,

    omega = r x u / r^2,   closing speed = -r u / |r|,   a = N closing speed (omega x r / |r|) - gravity,

The missile flies the part of a across its path, behind a first-order lag and within its limits. A tick turns the
velocity and then adds gravity, thrust and drag, with the mass at its middle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.air_combat.reference.point_mass import density, mach_number
from sparring.envs.air_combat.airframe import fighter
from sparring.envs.air_combat.airframe.missile import (
    FLARE_BURN_S,
    FLARE_FADE_S,
    FLARE_INTENSITY,
    FLARE_RISE_S,
    MISSILE,
    MissileData,
)

GRAVITY = np.array([0.0, 0.0, fighter.STANDARD_GRAVITY])
Target = Callable[[float], tuple[np.ndarray, np.ndarray]]
"""Place [3] and velocity [3] of a target at a time in s."""


@dataclass
class MissileFlight:
    """A missile in the air."""

    pos: np.ndarray
    vel: np.ndarray
    age: float = 0.0
    """s since the launch."""
    across: np.ndarray = field(default_factory=lambda: np.zeros(3))
    """Acceleration that the lag has let through, m/s^2."""


def mass_at(data: MissileData, age: float) -> float:
    """Return the mass in kg at an age in s."""
    return data.launch_mass - data.propellant * min(max(age, 0.0) / data.burn_s, 1.0)


def drag_coefficient(data: MissileData, mach: float) -> float:
    """Return the drag coefficient without lift."""
    if mach <= data.peak_mach:
        part = (mach - data.rise_mach) / (data.peak_mach - data.rise_mach)
        return data.drag_slow + (data.drag_peak - data.drag_slow) * min(max(part, 0.0), 1.0)
    return max(data.drag_peak - data.drag_fall * (mach - data.peak_mach), data.drag_least)


def flare_intensity(age_s: float) -> float:
    """Return the intensity of a flare at an age in s, 0 once it is burnt out."""
    return FLARE_INTENSITY * max(0.0, min(age_s / FLARE_RISE_S, (FLARE_BURN_S - age_s) / FLARE_FADE_S, 1.0))


def navigation(gap: np.ndarray, relative: np.ndarray, gain: float) -> np.ndarray:
    """Return the acceleration of proportional navigation [3], m/s^2, without gravity's share."""
    distance = float(np.linalg.norm(gap))
    closing = -float(gap @ relative) / distance
    return gain * closing * np.cross(np.cross(gap, relative), gap) / distance**3


def across_part(vector: np.ndarray, ahead: np.ndarray, most: float) -> np.ndarray:
    """Return the part of a vector across a unit vector, shortened to `most`."""
    part = vector - ahead * (vector @ ahead)
    return part * min(1.0, most / max(float(np.linalg.norm(part)), 1e-9))


def fly(
    data: MissileData, missile: MissileFlight, target: tuple[np.ndarray, np.ndarray] | None, dt: float
) -> MissileFlight:
    """Return the missile after `dt` s, homing on a place and velocity or, without one, flying straight on."""
    speed = float(np.linalg.norm(missile.vel))
    ahead, height = missile.vel / speed, -missile.pos[2]
    pressure = 0.5 * density(height) * speed**2 * data.area
    mass = mass_at(data, missile.age + 0.5 * dt)
    most = min(data.load_most * fighter.STANDARD_GRAVITY, data.normal_most * pressure / mass)
    wanted = -GRAVITY
    if target is not None:
        wanted = wanted + navigation(target[0] - missile.pos, target[1] - missile.vel, data.navigation)
    wanted = across_part(wanted, ahead, most)
    part = 1.0 - np.exp(-dt / data.lag_s) if data.lag_s else 1.0
    across = across_part(missile.across + (wanted - missile.across) * part, ahead, most)
    normal = mass * float(np.linalg.norm(across))
    drag = pressure * drag_coefficient(data, mach_number(speed, height))
    if pressure > 0.0:
        drag += normal**2 / (data.normal_slope * pressure)
    burning = min(max(data.burn_s - missile.age, 0.0) / dt, 1.0)
    thrust = burning * data.propellant / data.burn_s * data.exhaust
    turned = missile.vel + across * dt
    turned *= speed / np.linalg.norm(turned)
    vel = turned + (ahead * ((thrust - drag) / mass) + GRAVITY) * dt
    pos = missile.pos + 0.5 * dt * (missile.vel + vel)
    return MissileFlight(pos, vel, missile.age + dt, across)


def engage(
    missile: MissileFlight, target: Target, *, data: MissileData = MISSILE, dt: float = 1.0 / 60.0
) -> tuple[float, float]:
    """Fly a missile at a target that it always sees; return the miss distance (m) and its time (s)."""
    time = 0.0
    while time < data.life_s:
        seen = target(time)
        gap = seen[0] - missile.pos
        missile = fly(data, missile, seen, dt)
        path = target(time + dt)[0] - missile.pos - gap
        part = -float(gap @ path) / max(float(path @ path), 1e-12)
        if part < 1.0:  # the distance was least within this tick
            return float(np.linalg.norm(gap + path * max(part, 0.0))), time + dt * max(part, 0.0)
        time += dt
    return float(np.linalg.norm(target(time)[0] - missile.pos)), time
