import itertools

import numpy as np
import pytest

from curriculum.widening import Widening
from envs.dogfight.rules import LEVELS, PARAMETER_INDEX, ranges


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_reached_is_that_level(level):
    for previous in LEVELS:
        assert np.array_equal(Widening(previous, level, 1.0).ranges(), ranges(level))
        assert np.array_equal(Widening(level, previous, 0.0).ranges(), ranges(level))


def test_halfway_by_hand():
    bounds = Widening("none", "narrow", 0.5).ranges()
    assert bounds[PARAMETER_INDEX["gravity"]].tolist() == [70.0, 90.0]
    assert bounds[PARAMETER_INDEX["gun_cooldown_ticks"]].tolist() == [80.0, 100.0]
    assert bounds[PARAMETER_INDEX["max_hp"]].tolist() == [5.0, 6.0]  # 4.5 .. 6, rounded inward
    assert Widening("narrow", "full", 0.5).ranges()[PARAMETER_INDEX["gravity"]].tolist() == [50.0, 110.0]


@pytest.mark.parametrize("steps", [1, 3, 4, 7, 50])
def test_every_step_contains_the_one_before_it(steps):
    fractions = [step / steps for step in range(1, steps + 1)]
    path = [Widening()]
    path += [Widening("none", "narrow", fraction) for fraction in fractions]
    path += [Widening("narrow", "full", fraction) for fraction in fractions]
    for before, after in itertools.pairwise(widening.ranges() for widening in path):
        assert np.all(after[:, 0] <= before[:, 0])
        assert np.all(after[:, 1] >= before[:, 1])


def test_integer_parameters_stay_whole_and_in_order():
    for fraction in np.linspace(0, 1, 23):
        bounds = Widening("none", "full", float(fraction)).ranges()
        integers = bounds[[PARAMETER_INDEX[name] for name in ("gun_cooldown_ticks", "bullet_lifetime_ticks", "max_hp")]]
        assert np.array_equal(integers, np.round(integers))
        assert np.all(bounds[:, 0] <= bounds[:, 1])
        assert bounds.dtype == np.float32


def test_as_text():
    assert str(Widening("narrow", "full", 0.25)) == "narrow to full 25%"
    assert str(Widening("narrow", "full", 1.0)) == "full"
