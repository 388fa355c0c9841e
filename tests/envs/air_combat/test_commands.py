"""Heading, altitude and speed commands: the autopilot's flight and the spaces."""

import numpy as np
import pytest
import torch

from sparring.envs.air_combat import rules
from sparring.envs.air_combat.batch import AirCombatBatch
from sparring.envs.air_combat.parallel_env import parallel_env
from tests.envs.air_combat import flights


def flown(model, command, steps, *, speed=200.0, height=5000.0):
    """Return the first plane after steps of a command (heading, altitude, speed) from level northward flight."""
    options = rules.CombatOptions(action_form="commands")
    game = AirCombatBatch(1, model=model, gun="cone", threads=1, options=options)
    planes = flights.level(2, speed=speed, height=height)
    planes["attitude"][:] = (0.0, 0.0, 0.0, 1.0)
    planes["pos"][1] += (0.0, 9000.0, 0.0)
    game.load({"planes": planes.reshape(1, 2)})
    for _ in range(steps):
        game.step(torch.tensor([*command, -1.0]).expand(1, 2, 4))
    return game.snapshot()["planes"][0, 0], game


def course(plane):
    return np.degrees(np.arctan2(plane["vel"][1], plane["vel"][0]))


def climb(plane):
    return np.degrees(np.arcsin(-plane["vel"][2] / np.linalg.norm(plane["vel"])))


@pytest.mark.parametrize("model", rules.MODELS)
def test_zero_command_holds_heading_height_and_speed(model):
    plane, _ = flown(model, (0.0, 0.0, 0.0), 300)  # 20 s
    assert abs(course(plane)) < 1.0
    assert -plane["pos"][2] == pytest.approx(5000.0, abs=40.0)
    assert np.linalg.norm(plane["vel"]) == pytest.approx(200.0, abs=12.0)


@pytest.mark.parametrize("model", rules.MODELS)
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_heading_command_turns_and_levels(model, side):
    """Two seconds of a 30-degree change, right positive."""
    plane, _ = flown(model, (side / 6.0, 0.0, 0.0), 45)
    assert 20.0 < side * course(plane) < 70.0
    assert abs(climb(plane)) < 12.0


@pytest.mark.parametrize("model", rules.MODELS)
@pytest.mark.parametrize(("altitude", "angle"), [(0.5, 26.6), (-0.5, -26.6), (0.1, 5.7)])
def test_altitude_command_climbs_proportionally(model, altitude, angle):
    """The tangent is the change over 2,000 m."""
    plane, _ = flown(model, (0.0, altitude, 0.5), 75, speed=260.0)
    assert climb(plane) == pytest.approx(angle, abs=4.0)
    assert abs(course(plane)) < 5.0


def test_speed_command_moves_throttle():
    """100 m/s more is full afterburner, 100 m/s less idle."""
    speeds = [np.linalg.norm(flown("point_mass", (0.0, 0.0, part), 150)[0]["vel"]) for part in (-1.0, 0.0, 1.0)]
    assert speeds[0] < 192.0 < speeds[1] < 212.0 < speeds[2]


def test_autopilot_avoids_ground():
    plane, game = flown("f16", (0.0, -1.0, 0.0), 450, height=2500.0)
    assert game.length[0] == 0  # no match ended
    assert -plane["pos"][2] > 150.0


def test_non_finite_actions_change_nothing_and_are_counted():
    _, game = flown("point_mass", (float("nan"), 0.0, 0.0), 1)
    assert game.invalid_actions.tolist() == [2]
    plane, _ = flown("point_mass", (0.0, float("inf"), 0.0), 60)
    assert -plane["pos"][2] == pytest.approx(5000.0, abs=20.0)


def test_spaces_and_contract_describe_commands():
    options = rules.CombatOptions(action_form="commands", missiles=1)
    assert options.actions == ("heading", "altitude", "speed", "trigger", "launch", "flare")
    assert options.action_sizes == {"continuous": 3, "binary": 3}
    assert options.layout != rules.CombatOptions(missiles=1).layout
    env = parallel_env(action_form="commands", opponent="straight")
    assert env.action_space("player_0").shape == (4,)
    env.reset(seed=1)
    env.step({"player_0": np.zeros(4, dtype=np.float32)})
    env.close()
