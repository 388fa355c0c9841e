import itertools

import numpy as np
import pytest

from sparring.curriculum.schedule import Randomization
from sparring.envs.dogfight.rules import LEVELS, PARAMETER_INDEX, ranges


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_reached_is_that_level(level):
    for previous in LEVELS:
        assert np.array_equal(Randomization(previous, level, 1.0).ranges(), ranges(level))
        assert np.array_equal(Randomization(level, previous, 0.0).ranges(), ranges(level))


def test_halfway_by_hand():
    bounds = Randomization("none", "narrow", 0.5).ranges()
    assert bounds[PARAMETER_INDEX["gravity"]].tolist() == [70.0, 90.0]
    assert bounds[PARAMETER_INDEX["gun_cooldown_ticks"]].tolist() == [80.0, 100.0]
    assert bounds[PARAMETER_INDEX["max_hp"]].tolist() == [5.0, 6.0]  # 4.5 .. 6, rounded inward
    assert Randomization("narrow", "full", 0.5).ranges()[PARAMETER_INDEX["gravity"]].tolist() == [50.0, 110.0]


@pytest.mark.parametrize("steps", [1, 3, 4, 7, 50])
def test_every_step_contains_the_one_before_it(steps):
    fractions = [step / steps for step in range(1, steps + 1)]
    path = [Randomization()]
    path += [Randomization("none", "narrow", fraction) for fraction in fractions]
    path += [Randomization("narrow", "full", fraction) for fraction in fractions]
    for before, after in itertools.pairwise(step.ranges() for step in path):
        assert np.all(after[:, 0] <= before[:, 0])
        assert np.all(after[:, 1] >= before[:, 1])


def test_integer_parameters_stay_whole_and_in_order():
    for fraction in np.linspace(0, 1, 23):
        bounds = Randomization("none", "full", float(fraction)).ranges()
        integers = bounds[[PARAMETER_INDEX[name] for name in ("gun_cooldown_ticks", "bullet_lifetime_ticks", "max_hp")]]
        assert np.array_equal(integers, np.round(integers))
        assert np.all(bounds[:, 0] <= bounds[:, 1])
        assert bounds.dtype == np.float32


def test_from_a_regime_the_physics_moves_as_one_point():
    path = [Randomization("sniper", "none", fraction).ranges() for fraction in np.linspace(0, 1, 61)]
    assert np.array_equal(path[0], ranges("sniper"))
    assert np.array_equal(path[-1], ranges("none"))
    assert all(np.array_equal(bounds[:, 0], bounds[:, 1]) for bounds in path)
    lifetimes = np.array([bounds[PARAMETER_INDEX["bullet_lifetime_ticks"], 0] for bounds in path])
    assert np.abs(lifetimes - np.linspace(90, 60, 61)).max() <= 0.5
    assert np.array_equal(lifetimes, np.round(lifetimes))


def test_width():
    assert Randomization("none", "sniper").width == Randomization().width == 0.0
    assert Randomization("none", "full").width == pytest.approx(1.0)
    assert 0.0 < Randomization("none", "full", 0.25).width < Randomization("none", "full", 0.5).width < 1.0


def test_as_text():
    assert str(Randomization("narrow", "full", 0.25)) == "narrow to full 25%"
    assert str(Randomization("narrow", "full", 1.0)) == "full"
