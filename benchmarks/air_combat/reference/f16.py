"""The F-16 of Stevens and Lewis in float64: the derivatives of its 13 states, with Euler angles, in the book's units.

The check of the kernels (`kernels/f16.py`), which integrate the same forces with quaternions. Arrays have any leading
shape [...]; states are [..., 13]: speed ft/s, alpha, beta, phi, theta, psi rad, p, q, r rad/s, north, east, height ft,
power %. Controls are [..., 4]: throttle 0..1, elevator, aileron, rudder degrees. Beyond the tables the outer cells
are extrapolated, as in the book; the kernels clamp instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.air_combat.reference.engine import (
    commanded_power,
    drag_rise,
    interpolate,
    interpolate_two,
    power_rate,
    thrust,
)
from sparring.envs.air_combat.airframe import f16 as data

DEGREES = 180.0 / np.pi


class Air(NamedTuple):
    """Mach number and dynamic pressure (lbf/ft^2) at a height."""

    mach: np.ndarray
    pressure: np.ndarray


class Coefficients(NamedTuple):
    """Forces (x, y, z) and moments (rolling, pitching, yawing) without units, body axes."""

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray
    rolling: np.ndarray
    pitching: np.ndarray
    yawing: np.ndarray


def air(speed: np.ndarray, height: np.ndarray) -> Air:
    """Return the book's atmosphere at a speed (ft/s) and a height (ft)."""
    ratio = 1.0 - 0.703e-5 * height
    temperature = np.where(height >= 35_000.0, 390.0, 519.0 * ratio)
    density = 2.377e-3 * ratio**4.14
    return Air(speed / np.sqrt(1.4 * 1716.3 * temperature), 0.5 * density * speed**2)


def coefficients(state: np.ndarray, controls: np.ndarray, cg: float) -> Coefficients:
    """Return the coefficients of forces and moments of one state [13] and its controls [4]."""
    speed, alpha, beta = state[0], state[1] * DEGREES, state[2] * DEGREES
    p, q, r = state[6:9]
    _, elevator, aileron, rudder = controls
    by_elevator, by_beta = (data.ELEVATORS, data.ALPHAS), (data.BETAS, data.ALPHAS)
    by_absolute, side = (data.ABSOLUTE_BETAS, data.ALPHAS), np.sign(beta)
    ailerons, rudders = aileron / data.FULL_AILERON, rudder / data.FULL_RUDDER
    span, chord = data.SPAN / (2.0 * speed), data.CHORD / (2.0 * speed)
    damping = interpolate(np.asarray(data.DAMPING).T, data.ALPHAS, alpha)
    xq, yr, yp, zq, lr, lp, mq, nr, np_ = damping
    normal = interpolate(np.asarray(data.NORMAL, dtype=float), data.ALPHAS, alpha)
    x = interpolate_two(data.AXIAL, by_elevator, elevator, alpha) + chord * q * xq
    y = data.SIDE_BETA * beta + data.SIDE_AILERON * ailerons + data.SIDE_RUDDER * rudders + span * (yr * r + yp * p)
    z = normal * (1.0 - state[2] ** 2) + data.NORMAL_ELEVATOR * elevator / data.FULL_ELEVATOR + chord * q * zq
    rolling = side * interpolate_two(data.ROLLING, by_absolute, abs(beta), alpha) + span * (lr * r + lp * p)
    rolling += ailerons * interpolate_two(data.ROLLING_AILERON, by_beta, beta, alpha)
    rolling += rudders * interpolate_two(data.ROLLING_RUDDER, by_beta, beta, alpha)
    pitching = interpolate_two(data.PITCHING, by_elevator, elevator, alpha) + chord * q * mq
    pitching += z * (data.REFERENCE_CG - cg)
    yawing = side * interpolate_two(data.YAWING, by_absolute, abs(beta), alpha) + span * (nr * r + np_ * p)
    yawing += ailerons * interpolate_two(data.YAWING_AILERON, by_beta, beta, alpha)
    yawing += rudders * interpolate_two(data.YAWING_RUDDER, by_beta, beta, alpha)
    yawing -= y * (data.REFERENCE_CG - cg) * data.CHORD / data.SPAN
    return Coefficients(x, y, z, rolling, pitching, yawing)


def body_accelerations(
    state: np.ndarray, controls: np.ndarray, cg: float, *, high_speed: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the specific force [3] (ft/s^2, without gravity) and the angular acceleration [3] (rad/s^2), body axes.

    `high_speed` adds drag above Mach 0.86, which the book lacks and the kernels have.
    """
    p, q, r = state[6:9]
    mach, pressure = air(state[0], state[11])
    c = coefficients(state, controls, cg)
    surface = pressure * data.WING_AREA
    force = data.INVERSE_MASS * surface * np.array([c.x, c.y, c.z])
    force[0] += data.INVERSE_MASS * thrust(state[12], state[11], float(mach))
    if high_speed:
        ahead, all_forces = _direction(state), np.array([c.x, c.y, c.z])
        lift = np.linalg.norm(all_forces - ahead * (all_forces @ ahead))
        force -= data.INVERSE_MASS * surface * drag_rise(float(mach), float(lift)) * ahead
    c1, c2, c3, c4, c5, c6, c7, c8, c9 = data.INERTIA
    moments, engine = surface * data.SPAN, data.ENGINE_MOMENTUM
    return force, np.array(
        [
            (c2 * p + c1 * r + c4 * engine) * q + moments * (c3 * c.rolling + c4 * c.yawing),
            (c5 * p - c7 * engine) * r + c6 * (r * r - p * p) + surface * data.CHORD * c7 * c.pitching,
            (c8 * p - c2 * r + c9 * engine) * q + moments * (c4 * c.rolling + c9 * c.yawing),
        ]
    )


def derivatives(state: np.ndarray, controls: np.ndarray, cg: float = data.REFERENCE_CG) -> np.ndarray:
    """Return the time derivative [13] of one state [13] under controls [4], as the book's subroutine F."""
    speed, _, beta, phi, theta, psi = state[:6]
    p, q, r = state[6:9]
    force, rotation = body_accelerations(state, controls, cg)
    u, v, w = speed * _direction(state)
    sin_phi, cos_phi, sin_theta, cos_theta = np.sin(phi), np.cos(phi), np.sin(theta), np.cos(theta)
    sin_psi, cos_psi = np.sin(psi), np.cos(psi)
    du = r * v - q * w - data.GRAVITY * sin_theta + force[0]
    dv = p * w - r * u + data.GRAVITY * cos_theta * sin_phi + force[1]
    dw = q * u - p * v + data.GRAVITY * cos_theta * cos_phi + force[2]
    forward = u * u + w * w
    change = (u * du + v * dv + w * dw) / speed
    yaw_rate = (q * sin_phi + r * cos_phi) / cos_theta
    return np.array(
        [
            change,
            (u * dw - w * du) / forward,
            (speed * dv - v * change) * np.cos(beta) / forward,
            p + sin_theta * yaw_rate,
            q * cos_phi - r * sin_phi,
            yaw_rate,
            *rotation,
            u * cos_theta * cos_psi
            + v * (sin_phi * cos_psi * sin_theta - cos_phi * sin_psi)
            + w * (cos_phi * sin_theta * cos_psi + sin_phi * sin_psi),
            u * cos_theta * sin_psi
            + v * (cos_phi * cos_psi + sin_phi * sin_theta * sin_psi)
            + w * (cos_phi * sin_theta * sin_psi - sin_phi * cos_psi),
            u * sin_theta - v * sin_phi * cos_theta - w * cos_phi * cos_theta,
            power_rate(state[12], commanded_power(controls[0])),
        ]
    )


def trim(speed: float, height: float = 0.0, cg: float = data.REFERENCE_CG) -> tuple[np.ndarray, np.ndarray]:
    """Return state [13] and controls [4] of level flight at a speed (ft/s) and a height (ft), by Newton's method.

    Raises `ValueError` below the slowest and above the fastest level flight.
    """

    def residual(unknown: np.ndarray) -> np.ndarray:
        rates = derivatives(*_level(speed, height, unknown), cg=cg)
        return rates[[0, 1, 7]]

    best = min((_newton(residual, start) for start in _STARTS), key=lambda one: float(np.abs(residual(one)).max()))
    inside = 0.0 <= best[0] <= 1.0 and np.degrees(best[2]) < _STEEPEST
    if np.abs(residual(best)).max() > 1e-9 or not inside:
        raise ValueError(f"speed={speed}: no level flight at {height:g} ft; take 140 to 800 ft/s near sea level")
    return _level(speed, height, best)


_STARTS = (np.array([0.15, -1.0, 0.05]), np.array([0.3, 0.0, 0.35]), np.array([0.7, 0.0, 0.65]))
"""Throttle, elevator (degrees) and alpha (rad) from which Newton's method starts."""
_STEEPEST = 46.0
"""Alpha, degrees, up to which the book extrapolates its tables for a trim."""


def _level(speed: float, height: float, unknown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    throttle, elevator, alpha = unknown
    state = np.array([speed, alpha, 0, 0, alpha, 0, 0, 0, 0, 0, 0, height, commanded_power(throttle)], dtype=float)
    return state, np.array([throttle, elevator, 0.0, 0.0])


def _newton(residual: Callable[[np.ndarray], np.ndarray], unknown: np.ndarray, steps: int = 40) -> np.ndarray:
    for _ in range(steps):
        value = residual(unknown)
        if np.abs(value).max() < 1e-12:
            break
        jacobian = np.stack([(residual(unknown + move) - value) / 1e-6 for move in 1e-6 * np.eye(3)], axis=1)
        change = np.linalg.lstsq(jacobian, -value, rcond=None)[0]
        unknown = unknown + change * min(1.0, *(np.array([0.3, 10.0, 0.2]) / np.maximum(np.abs(change), 1e-12)))
    return unknown


def _direction(state: np.ndarray) -> np.ndarray:
    """Return the unit vector of the velocity through the air, body axes."""
    alpha, beta = state[1], state[2]
    return np.array([np.cos(alpha) * np.cos(beta), np.sin(beta), np.sin(alpha) * np.cos(beta)])
