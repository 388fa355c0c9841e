"""The point mass: turn rates and specific excess power at three heights, and symmetries of both models."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.air_combat.reference import point_mass
from sparring.envs.air_combat.airframe.f16 import FT
from tests.envs.air_combat import flights

PERFORMANCE = {
    (0, 500): (7.20, 5.39, 510), (15_000, 600): (None, 4.38, 411), (30_000, 700): (None, 3.14, 283),
    (0, 700): (9.0, 7.92, None),
}  # fmt: skip
"""Greatest and sustained load factor (g) and specific excess power at 1 g (ft/s) by height (ft) and speed (ft/s).

Computed from the trimmed tables of the F-16 at 20,500 lb in full afterburner.
"""


@pytest.mark.parametrize("case", PERFORMANCE)
def test_reference_performance(case):
    height, speed = case[0] * FT, case[1] * FT
    greatest, sustained, power = PERFORMANCE[case]
    assert point_mass.sustained_load(speed, height, 100.0) == pytest.approx(sustained, rel=0.01)
    if greatest:
        assert point_mass.greatest_load(speed, height, 100.0) == pytest.approx(greatest, rel=0.01)
    if power:
        assert point_mass.specific_excess_power(1.0, speed, height, 100.0) / FT == pytest.approx(power, rel=0.01)


def flown(height, speed, load, ticks=6):
    """Return planes before and after `ticks` of a level turn of `load` in full afterburner, lags settled."""
    planes = flights.level(1, speed=speed, height=height, bank=np.arccos(1.0 / load))
    planes["power"], planes["load"] = 100.0, load
    alpha = point_mass.angle_of_attack(point_mass.lift_for(load, speed, height, 100.0))
    ahead, lift = planes["nose"].copy(), planes["up"].copy()
    planes["nose"] = ahead * np.cos(alpha) + lift * np.sin(alpha)
    planes["up"] = lift * np.cos(alpha) - ahead * np.sin(alpha)
    settled = flights.fly(planes, (load, 0.0, 1.0), 1)
    return settled, flights.fly(settled.copy(), (load, 0.0, 1.0), ticks)


def energy(planes):
    return -planes["pos"][:, 2].astype(float) + (planes["vel"].astype(float) ** 2).sum(-1) / (2 * 9.80665)


@pytest.mark.parametrize("case", PERFORMANCE)
@pytest.mark.parametrize("load", [1.5, "sustained", "greatest"])
def test_kernel_turns_and_climbs_like_reference(case, load):
    height, speed = case[0] * FT, case[1] * FT
    loads = {"sustained": point_mass.sustained_load, "greatest": point_mass.greatest_load}
    wanted = loads[load](speed, height, 100.0) if load in loads else load
    before, after = flown(height, speed, wanted)
    headings = [np.arctan2(one["vel"][0, 1], one["vel"][0, 0]) for one in (before, after)]
    rate = (headings[1] - headings[0]) * 60 / 6
    assert rate == pytest.approx(point_mass.turn_rate(wanted, speed), rel=0.02)
    expected = point_mass.specific_excess_power(wanted, speed, height, 100.0)
    assert (energy(after) - energy(before))[0] * 60 / 6 == pytest.approx(expected, abs=2.0 + 0.02 * abs(expected))


COMMANDS = st.tuples(st.floats(-2.5, 8.5), st.floats(-3.5, 3.5), st.floats(0.0, 1.0))
STARTS = st.fixed_dictionaries(
    {"speed": st.floats(120.0, 280.0), "height": st.floats(4000.0, 9000.0), "heading": st.floats(-3.1, 3.1)}
)
few = settings(derandomize=True, database=None)


@few
@given(command=COMMANDS, start=STARTS)
def test_energy_is_conserved_without_thrust_and_drag(command, start):
    planes = flights.level(1, **start)
    for six, bound in ((False, 2e-5), (True, 2e-3)):
        after = flights.fly(planes, command, 120, six=six, thrust=0.0, drag=0.0)
        assert energy(after)[0] == pytest.approx(energy(planes)[0], rel=bound)


@few
@given(command=COMMANDS, start=STARTS, turn=st.floats(-3.0, 3.0))
def test_heading_and_place_do_not_matter(command, start, turn):
    planes, moved = flights.level(1, **start), flights.level(1, **(start | {"heading": start["heading"] + turn}))
    moved["pos"][:, :2] += (4096.0, -2048.0)
    cos, sin = np.cos(turn), np.sin(turn)
    for six in (False, True):
        one, two = (flights.fly(rows, command, 60, six=six) for rows in (planes, moved))
        north, east, down = one["pos"][0].astype(float)
        rotated = np.array([cos * north - sin * east + 4096.0, sin * north + cos * east - 2048.0, down])
        assert two["pos"][0] == pytest.approx(rotated, abs=0.05 if not six else 0.5)


@few
@given(command=COMMANDS, start=STARTS)
def test_mirrored_commands_fly_mirrored_path(command, start):
    """Exact for the point mass; the F-16's tables and engine momentum differ slightly between sides."""
    planes = flights.level(1, **(start | {"heading": 0.0}))
    load, roll, throttle = command
    for six, bound in ((False, 1e-3), (True, 12.0)):
        one, two = (flights.fly(planes, (load, side * roll, throttle), 60, six=six) for side in (1.0, -1.0))
        assert two["pos"][0] == pytest.approx(one["pos"][0] * (1.0, -1.0, 1.0), abs=bound)


def test_lift_limit_bounds_load():
    planes = flights.level(1, speed=120.0, height=6000.0)
    after = flights.fly(planes, (9.0, 0.0, 1.0), 60)
    speed, height = np.linalg.norm(after["vel"]), -after["pos"][0, 2]
    assert after["load"][0] == pytest.approx(point_mass.greatest_load(speed, height, after["power"][0]), rel=0.03)
    assert after["load"][0] < 4.0


def test_load_and_roll_lag_behind_commands():
    planes = flights.level(1, speed=260.0, height=1000.0)
    after = flights.fly(planes, (9.0, 0.0, 1.0), 30)
    assert after["load"][0] == pytest.approx(4.0, abs=0.05)  # six g a second
    rolled = flights.fly(planes, (1.0, 3.0, 1.0), 15)
    assert 1.2 < rolled["roll_rate"][0] < 2.0


def test_vertical_flight_has_no_singularity():
    """A loop passes the vertical twice and returns."""
    planes = flights.level(1, speed=260.0, height=2000.0)
    heights = [-flights.fly(planes, (5.0, 0.0, 1.0), ticks)["pos"][0, 2] for ticks in range(0, 1500, 30)]
    assert max(heights) > 2700.0
    assert min(heights[20:]) < max(heights) - 500.0
