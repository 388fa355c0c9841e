"""The F-4 as a point mass: closed forms of its published tables, and a speed record."""

import numpy as np
import pytest

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.airframe.f4 import F4
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.kernels.tables import AIRFRAMES
from sparring.envs.air_combat.parallel_env import parallel_env
from tests.envs.air_combat import flights

G, FT, LBF = 9.80665, 0.3048, 4.4482216
WEIGHT, AREA = 41_998 * LBF, 530 * FT**2
MACHS = (0, 0.4, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8)
SLOPE = (3.44, 3.44, 3.44, 3.58, 4.44, 3.44, 3.01, 2.86, 2.44)
ZERO_LIFT = (0.013, 0.013, 0.013, 0.014, 0.031, 0.041, 0.039, 0.036, 0.035)
FACTOR = (0.54, 0.54, 0.54, 0.75, 0.79, 0.78, 0.89, 0.93, 0.93)
THRUST_MACHS = (0.6, 0.8, 1.0, 1.2)
THRUST = {0: (30.8, 34.5, 37.9, 36.1), 10_000: (23.8, 26.6, 30.4, 34.9), 30_000: (12.3, 14.1, 16.8, 20.1)}
"""Bryson, Desai and Hoffman 1969, at some heights in ft: klbf."""


def air(height):
    """Return density and speed of sound of the standard atmosphere below 11 km."""
    ratio = 1 - 0.0065 * height / 288.15
    return 1.225 * ratio**4.25588, np.sqrt(1.4 * 287.053 * 288.15 * ratio)


def thrust(mach, height):
    below, above = (0, 10_000) if height <= 10_000 * FT else (10_000, 30_000)
    low, high = (np.interp(mach, THRUST_MACHS, THRUST[feet]) for feet in (below, above))
    return 1000 * LBF * (low + (high - low) * (height / FT - below) / (above - below))


def forces(load, mach, height):
    """Return alpha, thrust and drag (N): L + T sin(alpha) = n W, L = q S a alpha, D = q S (C0 + e a alpha^2)."""
    density, sound = air(height)
    pressure = 0.5 * density * (mach * sound) ** 2 * AREA
    slope, zero, factor = (np.interp(mach, MACHS, row) for row in (SLOPE, ZERO_LIFT, FACTOR))
    push, alpha = thrust(mach, height), 0.0
    for _ in range(50):
        alpha = (load * WEIGHT - push * np.sin(alpha)) / (pressure * slope)
    return alpha, push, pressure * (zero + factor * slope * alpha**2)


def fly(planes, orders, ticks):
    return flights.fly(planes, orders, ticks, model="f4")


@pytest.mark.parametrize("height", [0.0, 10_000 * FT, 30_000 * FT], ids=["0", "10,000 ft", "30,000 ft"])
@pytest.mark.parametrize(("mach", "load"), [(0.6, 1.0), (0.8, 3.0), (0.9, 4.0), (1.0, 1.0), (1.1, 2.0)])
def test_energy_gain_matches_published_tables(height, mach, load):
    """dE/dt = V (T cos(alpha) - D) / W, where lift suffices."""
    alpha, push, drag = forces(load, mach, height)
    if alpha * np.interp(mach, MACHS, SLOPE) > 0.95:
        pytest.skip("beyond the limit of lift")
    speed = mach * air(height)[1]
    planes = flights.level(1, speed=speed, height=height, bank=np.arccos(1 / load))
    planes["power"], planes["load"] = 100.0, load
    before = fly(planes, (load, 0.0, 1.0), 2)
    after = fly(before.copy(), (load, 0.0, 1.0), 3)
    gained = (_energy(after) - _energy(before)) * 60 / 3
    now = np.linalg.norm(before["vel"][0])
    assert gained == pytest.approx(now * (push * np.cos(alpha) - drag) / WEIGHT, rel=0.02, abs=2.0)


def _energy(planes):
    return -float(planes["pos"][0, 2]) + (planes["vel"][0].astype(float) ** 2).sum() / (2 * G)


def test_level_speed_is_near_record():
    """In 1961 an F4H-1F flew 902.77 mph over 3 km at White Sands, 1,200 m above the sea; nothing is fitted to it."""
    height = 1200.0
    sound = air(height)[1]
    speeds = np.arange(0.9, 1.2, 0.0005)
    excess = [push - drag for _, push, drag in (forces(1.0, mach, height) for mach in speeds)]
    fastest = speeds[np.flatnonzero(np.array(excess) > 0).max()] * sound
    planes = flights.level(2, speed=np.array([0.97, 1.03]) * fastest, height=height)
    planes["power"] = 100.0
    for _ in range(60):
        planes["pos"][:, 2] = -height
        planes["vel"][:, 2] = 0.0
        planes = fly(planes, (1.0, 0.0, 1.0), 60)
    assert np.linalg.norm(planes["vel"], axis=1) == pytest.approx(fastest, rel=0.005)
    assert fastest == pytest.approx(902.77 * 0.44704, rel=0.05)


@pytest.mark.parametrize("height", [0.0, 6000.0])
def test_lift_falls_with_speed_squared_below_stall(height):
    """V = sqrt(2 W / (rho S CL)) without thrust: 78.7 m/s at sea level, 153 knots."""
    density = air(height)[0]
    stall = np.sqrt(2 * WEIGHT / (density * AREA * 1.0))
    parts = np.array([0.8, 0.9, 1.05])
    planes = flights.level(3, speed=parts * stall, height=height + 1.0)
    planes["power"] = 0.0
    now = fly(planes, (1.0, 0.0, 0.0), 1)
    assert now["load"] == pytest.approx(np.minimum(parts**2, 1.0), rel=0.01)
    if not height:
        assert stall == pytest.approx(78.7, abs=0.1)


@pytest.mark.parametrize(("load", "mach"), [(3.0, 0.8), (5.0, 0.9)])
def test_level_turn_rate_follows_load(load, mach):
    """g sqrt(n^2 - 1) / V."""
    height = 3000.0
    speed = mach * air(height)[1]
    planes = flights.level(1, speed=speed, height=height, bank=np.arccos(1 / load))
    planes["power"], planes["load"] = 100.0, load
    after = fly(planes, (load, 0.0, 1.0), 30)
    turned = np.arctan2(after["vel"][0, 1], after["vel"][0, 0])
    mean = 0.5 * (speed + np.linalg.norm(after["vel"][0]))
    assert turned / 0.5 == pytest.approx(G * np.sqrt(load**2 - 1) / mean, rel=0.01)


def test_full_stick_stops_at_load_limit():
    planes = flights.level(1, speed=330.0, height=1000.0, bank=1.4)
    after = fly(planes, (rules.LOAD_MOST, 0.0, 1.0), 180)
    assert after["load"][0] == pytest.approx(8.5 * 37_500 / 41_998, rel=1e-3)
    assert F4.pull_out[1] == pytest.approx(0.9 * 7.59, abs=0.01)


def test_military_power_is_dry_engine_rating():
    """10,900 of 17,000 lbf; idle is none. At Mach 0.8, 30,000 ft, 14,100 lbf with afterburner."""
    height, sound = 30_000 * FT, air(30_000 * FT)[1]
    gains = []
    for power in (0.0, 50.0, 100.0):
        planes = flights.level(1, speed=0.8 * sound, height=height)
        planes["power"] = power
        throttle = (power + 117.38) / 217.38 if power >= 50 else 0.0
        after = fly(planes, (1.0, 0.0, throttle), 1)
        gains.append((_energy(after) - _energy(planes)) * 60 / (0.8 * sound) * WEIGHT)
    idle, military, maximum = gains
    assert maximum - idle == pytest.approx(14_100 * LBF, rel=0.01)
    assert (military - idle) / (maximum - idle) == pytest.approx(10_900 / 17_000, rel=0.01)


def test_cone_matches_accept_policies_of_other_models():
    f4, f16 = AirCombatBatch(2, model="f4", threads=1), AirCombatBatch(2, model="point_mass", threads=1)
    assert (f4.gun, f4.contract) == ("cone", f16.contract)
    assert parallel_env(model="f4").observation_space("player_0").shape == (44,)


def test_every_flight_model_has_airframe():
    assert tuple(AIRFRAMES) == rules.MODELS
