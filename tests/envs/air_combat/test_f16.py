"""The F-16 against the textbook's figures, in float64 and in the kernel, and its inner loop."""

import numpy as np
import pytest

from benchmarks.air_combat.reference import f16
from sparring.envs.air_combat.airframe.f16 import FT
from tests.envs.air_combat import flights

CHECK_STATE = np.array([500, 0.5, -0.2, -1, 1, -1, 0.7, -0.8, 0.9, 1000, 900, 10_000, 90.0])
CHECK_CONTROLS = np.array([0.9, 20, -15, -20])
CHECK_DERIVATIVES = np.array(
    [
        *(-75.23724, -0.8813491, -0.4759990, 2.505734, 0.3250820, 2.145926, 12.62679, 0.9649671, 0.5809759),
        *(342.4439, -266.7707, 248.1241, -58.68999),
    ]
)
"""Stevens and Lewis, table 3.5-2, for the centre of gravity at 0.40."""
LEVEL = {
    130: (0.816, 45.6, 20.1), 140: (0.736, 40.3, -1.36), 150: (0.619, 34.6, 0.173), 170: (0.464, 27.2, 0.621),
    200: (0.287, 19.7, 0.723), 260: (0.148, 11.6, -0.09), 300: (0.122, 8.49, -0.591), 350: (0.107, 5.87, -0.539),
    400: (0.108, 4.16, -0.591), 440: (0.113, 3.19, -0.671), 500: (0.137, 2.14, -0.756), 540: (0.16, 1.63, -0.798),
    600: (0.2, 1.04, -0.846), 640: (0.23, 0.742, -0.871), 700: (0.282, 0.382, -0.9), 800: (0.378, -0.045, -0.943),
}  # fmt: skip
"""Table 3.6-2: throttle, alpha and elevator (degrees) by speed in ft/s, at sea level."""
PRECISE = {0.35: (0.1385, -0.7588, 0.03691), 0.30: (0.1485, -1.931, 0.03936), 0.38: (0.1325, -0.0559, 0.03544)}
"""Table 3.6-3: throttle, elevator (degrees) and alpha (rad) at 502 ft/s by centre of gravity."""
TURN_STATE = np.array(
    [
        502,
        0.2392628,
        5.061803e-4,
        1.366289,
        0.05000808,
        0.2340769,
        -0.01499617,
        0.2933811,
        0.06084932,
        0,
        0,
        0,
        64.12363,
    ]
)
TURN_CONTROLS = np.array([0.8349601, -1.481766, 0.09553108, -0.4118124])
"""Example 3.6: a turn of 0.3 rad/s."""


def test_textbook_check_case():
    found = f16.derivatives(CHECK_STATE, CHECK_CONTROLS, cg=0.40)
    assert np.abs(found / CHECK_DERIVATIVES - 1.0).max() < 2e-5


def test_check_case_detects_common_table_errors(monkeypatch):
    """Rolling moment at beta 10 and 15, alpha 15 to 25: with the widespread values p' is 12.8290."""
    rows = [list(row) for row in f16.data.ROLLING]
    rows[2][5:8], rows[3][5:8] = (-0.041, -0.045, -0.040), (-0.054, -0.057, -0.054)
    monkeypatch.setattr(f16.data, "ROLLING", tuple(map(tuple, rows)))
    found = f16.derivatives(CHECK_STATE, CHECK_CONTROLS, cg=0.40)
    assert found[6] == pytest.approx(12.8289672, abs=1e-5)
    assert found[8] == pytest.approx(0.584122583, abs=1e-6)


def rounded(value, printed):
    """Return whether a value equals the printed one to its last digit, or half a unit beyond."""
    digits = len(f"{printed:g}".partition(".")[2])
    return abs(value - printed) <= 0.51 * 10.0**-digits


@pytest.mark.parametrize("speed", LEVEL)
def test_level_trims(speed):
    state, controls = f16.trim(speed)
    throttle, alpha, elevator = LEVEL[speed]
    assert all(map(rounded, (controls[0], np.degrees(state[1]), controls[1]), (throttle, alpha, elevator)))


@pytest.mark.parametrize("cg", PRECISE)
def test_trims_at_three_centres_of_gravity(cg):
    state, controls = f16.trim(502, cg=cg)
    assert all(map(rounded, (controls[0], controls[1], state[1]), PRECISE[cg]))


def test_coordinated_turn():
    rates = f16.derivatives(TURN_STATE, TURN_CONTROLS)
    assert np.abs(rates - np.array([0, 0, 0, 0, 0, 0.3, 0, 0, 0, 502, 0, 0, 0])).max() < 5e-5


def test_speed_without_level_flight_is_rejected():
    with pytest.raises(ValueError, match="speed=90: no level flight at 0 ft; take 140 to 800"):
        f16.trim(90)


def test_kernel_forces_match_reference():
    """The check case, trims, the turn, and two hundred draws within the tables."""
    rng = np.random.default_rng(3)
    trims = [f16.trim(speed) for speed in LEVEL if speed > 130]  # at 130 alpha is beyond the table
    states = np.zeros((200, 13))
    states[:, 0], states[:, 11] = rng.uniform(200, 700, 200), rng.uniform(0, 45_000, 200)
    states[150:, 0] = rng.uniform(800, 1900, 50)  # Mach 0.7 to 1.96
    states[:, 1], states[:, 2] = np.radians(rng.uniform(-9, 44, 200)), np.radians(rng.uniform(-25, 25, 200))
    states[:, 6:9], states[:, 12] = rng.uniform(-1, 1, (200, 3)), rng.uniform(0, 100, 200)
    surfaces = rng.uniform(-1, 1, (200, 3)) * (24, 21, 30)
    controls = np.column_stack([np.zeros(200), surfaces])
    states = np.stack([CHECK_STATE, TURN_STATE, *(state for state, _ in trims), *states])
    controls = np.stack([CHECK_CONTROLS, TURN_CONTROLS, *(control for _, control in trims), *controls])
    cg = np.where(np.arange(len(states)) == 0, 0.40, 0.35)
    found = flights.forces(states, controls, cg)
    for index, (state, control) in enumerate(zip(states, controls, strict=True)):
        force, rotation = f16.body_accelerations(state, control, cg[index], high_speed=True)
        assert np.abs(found["force"][index] - force).max() < 2e-4 * max(np.abs(force).max(), 32.0)
        assert np.abs(found["rotation"][index] - rotation).max() < 2e-4 * max(np.abs(rotation).max(), 1.0)
    assert np.abs(found["rotation"][0] / CHECK_DERIVATIVES[6:9] - 1.0).max() < 2e-5


def test_control_effectiveness_matches_reference():
    """The inner loop's gain of each surface equals the reference's derivative by differences."""
    state, control = CHECK_STATE.copy(), np.array([0.9, 3.0, -4.0, 5.0])
    state[1], state[2] = 0.15, 0.02
    found = flights.forces([state], [control], [0.35])["effects"][0]
    for surface, axis in enumerate((1, 0, 2)):
        sides = [f16.body_accelerations(state, control + 0.5 * s * np.eye(4)[surface + 1], 0.35)[1] for s in (-1, 1)]
        assert found[surface] == pytest.approx((sides[1] - sides[0])[axis], rel=0.03)


def angles(planes):
    """Euler angles phi, theta, psi of planes [N]."""
    x, y, z, w = planes["attitude"].astype(float).T
    phi = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    return np.stack([phi, np.arcsin(2 * (w * y - z * x)), np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))], -1)


def test_kinematics_match_euler_equations():
    """From the middle of a rolling pull, a tick changes angles and position as the book's equations say."""
    plane, _ = flights.trimmed()
    before = flights.fly(plane, (4.0, 1.5, 0.9), 40, six=True)
    after = flights.fly(before.copy(), (4.0, 1.5, 0.9), 1, six=True)
    x, y, z, w = before["attitude"][0].astype(float)
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    body = rotation.T @ before["vel"][0] / FT
    speed = np.linalg.norm(body)
    state = np.array(
        [
            *(speed, np.arctan2(body[2], body[0]), np.arcsin(body[1] / speed), *angles(before)[0]),
            *(*before["rates"][0], 0, 0, -before["pos"][0, 2] / FT, before["power"][0]),
        ]
    )
    rates = f16.derivatives(state, np.array([0.9, *before["surfaces"][0]]), cg=0.30)
    turned = (angles(after) - angles(before))[0] * 60
    assert turned == pytest.approx(rates[3:6], rel=0.05, abs=0.02)
    moved = (after["pos"] - before["pos"])[0] * 60 / FT
    assert moved == pytest.approx([rates[9], rates[10], -rates[11]], rel=0.02, abs=2.0)
    change = (np.linalg.norm(after["vel"]) - np.linalg.norm(before["vel"])) * 60 / FT
    assert change == pytest.approx(rates[0], rel=0.05, abs=0.5)


def test_trimmed_flight_stays_level():
    plane, throttle = flights.trimmed()
    flown = flights.fly(plane, (1.0, 0.0, throttle), 600, six=True)
    assert np.abs(flown["pos"] - plane["pos"])[0, 1:] == pytest.approx([0.0, 0.0], abs=3.0)
    assert np.linalg.norm(flown["vel"]) == pytest.approx(502 * FT, rel=0.002)
    assert flown["surfaces"][0, 0] == pytest.approx(plane["surfaces"][0, 0], abs=0.05)


@pytest.mark.parametrize("load", [-1.0, 0.0, 2.0, 4.0, 6.0])
def test_inner_loop_reaches_load(load):
    plane, _ = flights.trimmed(speed_ft=700.0, height_ft=5000.0)
    flown = flights.fly(plane, (load, 0.0, 1.0), 90, six=True)
    assert flown["load"][0] == pytest.approx(load, abs=0.15 + 0.05 * abs(load))


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_inner_loop_rolls_about_velocity_vector(side):
    """Sideslip stays small, and the roll rate is the command less what alpha takes."""
    plane, _ = flights.trimmed(speed_ft=700.0, height_ft=5000.0)
    flown = flights.fly(plane, (1.0, 3.0 * side, 1.0), 60, six=True)
    right = np.cross(flown["nose"][0], flown["up"][0])
    slip = -np.dot(flown["vel"][0], right) / np.linalg.norm(flown["vel"])
    assert flown["roll_rate"][0] * side == pytest.approx(2.8, abs=0.35)
    assert abs(np.degrees(slip)) < 3.0


def test_alpha_limit_holds_with_full_stick_at_low_speed():
    """The elevator moves 60 degrees/s, so a fast pitch overshoots by 15 degrees."""
    rng = np.random.default_rng(5)
    planes = flights.level(64, speed=rng.uniform(100, 150, 64), height=rng.uniform(2000, 7000, 64))
    most = 0.0
    for _ in range(25):
        # From stop to stop: push or pull, roll either way.
        stick = np.column_stack([rng.choice([-3.0, 9.0], 64), rng.choice([-3.8, 0.0, 3.8], 64), np.ones(64)])
        for _ in range(3):
            planes = flights.fly(planes, stick, 12, six=True)
            most = max(most, np.degrees(planes["alpha"]).max())
    assert 25.0 < most < 31.0


def test_alpha_limit_holds_at_full_pull():
    plane, _ = flights.trimmed()
    alphas = [np.degrees(flights.fly(plane, (9.0, 3.8, 1.0), ticks, six=True)["alpha"][0]) for ticks in (70, 90, 200)]
    assert alphas == pytest.approx([24.5, 24.5, 24.5], abs=2.5)
