"""Transonic drag and thrust: by hand, against published speeds, and in the kernels."""

import numpy as np
import pytest

from benchmarks.air_combat.reference import engine, point_mass
from sparring.envs.air_combat.airframe import f16, high_speed
from tests.envs.air_combat import flights

FT = f16.FT


def test_drag_rise_by_hand():
    """Brandt's F-16A: 25.11 ft^2 over 48.30 ft, leading edge 40 degrees, E 2.2; his K is 0.128, 0.252 and 0.367."""
    shape = high_speed.F16
    assert shape.critical == pytest.approx(0.865, abs=5e-4)
    assert shape.peak == pytest.approx(1.0547, abs=5e-5)
    assert shape.wave == pytest.approx(4.5 * np.pi / 300 * 0.270268 * 2.2 * 1.023446, abs=2e-6)  # 0.02868
    for mach, total in ((1.06, 0.128), (1.5, 0.252), (2.0, 0.367)):
        assert shape.lift_drag(mach) + 0.1167 == pytest.approx(total, abs=5e-4)
    assert engine.drag_rise(0.864, 1.5) == 0.0
    assert engine.drag_rise(0.96, 0.0) == pytest.approx(0.02868 * 0.5, rel=0.01)  # half of the way to the peak
    assert engine.drag_rise(1.5547, 0.0) == pytest.approx(0.02868 * (1 - 0.3 * 0.5**0.5), abs=2e-5)


def test_thrust_beyond_table_by_hand():
    """Sea level, afterburner: 28,886 lbf at Mach 1, 1.4443 of the static; theta 1.2, delta 1.2^3.5 = 1.8929.

    1 - 3.5 (1.2 - TR) / 1.2 = 1.4443 / 1.8929, so TR = 1.1187. At Mach 1.2 theta is 1.288, delta 2.4249:
    2.4249 (1 - 3.5 (1.288 - 1.1187) / 1.288) / 1.4443 = 0.9067.
    """
    assert engine.thrust(100.0, 0.0, 1.2) == pytest.approx(28_886 * 0.9067, rel=2e-4)
    assert engine.thrust(100.0, 0.0, 1.0) == 28_886
    # At 40,000 ft theta stays below TR to Mach 1.4 (1.046): thrust grows as the total pressure, (1.392 / 1.2)^3.5.
    assert engine.thrust(100.0, 40_000.0, 1.4) == pytest.approx(8642 * (1.392 / 1.2) ** 3.5, rel=1e-6)
    assert engine.thrust(0.0, 0.0, 1.4) == -3600
    assert min(min(row) for row in high_speed.THRUST_MILITARY) == 0.0  # never a brake


@pytest.mark.parametrize(("height", "published", "within"), [(0, 1.2, 0.1), (40_000, 2.05, 0.1)])
def test_maximum_speeds_are_near_published_values(height, published, within):
    """The Air Force's fact sheet: Mach 2 at altitude; about 1.2 at sea level. The table's drag at low lift is high."""
    sound = 340.29 * np.sqrt(1 - 0.0065 * min(height * FT, 11_000) / 288.15)
    speeds = [m for m in np.arange(0.9, 2.4, 0.01) if _excess(m * sound, height * FT) > 0]
    assert max(speeds) == pytest.approx(published, abs=within)


def _excess(speed, height):
    return point_mass.specific_excess_power(1.0, speed, height, 100.0)


@pytest.mark.parametrize("mach", [0.8, 0.95, 1.04, 1.2, 1.5, 1.9])
@pytest.mark.parametrize("load", [1.0, 4.0])
def test_point_mass_kernel_matches_reference_drag_and_thrust(mach, load):
    height = 9000.0
    speed = mach * 303.8
    planes = flights.level(1, speed=speed, height=height, bank=np.arccos(1.0 / load))
    planes["power"], planes["load"] = 100.0, load
    before = flights.fly(planes, (load, 0.0, 1.0), 2)
    after = flights.fly(before.copy(), (load, 0.0, 1.0), 3)
    power = np.diff([_energy(row[0]) for row in (before, after)])[0] * 60 / 3
    now = np.linalg.norm(before["vel"][0])
    assert power == pytest.approx(point_mass.specific_excess_power(load, now, height, 100.0), rel=0.02, abs=3.0)


def _energy(plane):
    return -float(plane["pos"][2]) + (plane["vel"].astype(float) ** 2).sum() / (2 * 9.80665)
