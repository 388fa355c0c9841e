"""Match starts: randomized physics and spawns are in range, uniform, seeded and independent.

Frequencies are checked on 20,000 draws with a fixed seed, so the tests are exact repeats; limits are at about five
standard deviations.
"""

import numpy as np
import pytest
import torch

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.batch import DogfightBatch
from tests.envs.dogfight.worlds import physics_rows

DRAWS = 20_000
FULL = rules.ranges("full")
REAL = [index for index, parameter in enumerate(rules.PARAMETERS) if not parameter.integer]
INTEGER = [index for index, parameter in enumerate(rules.PARAMETERS) if parameter.integer]


@pytest.fixture(scope="module")
def drawn():
    """Return the first states of 20,000 fully randomized matches."""
    batch = DogfightBatch(DRAWS, seed=5)
    batch.set_ranges(FULL)
    batch.reset(seed=5)
    snapshot = batch.snapshot()
    batch.close()
    return snapshot


def assert_uniform(values, low, high, bins=20):
    """Chi-square test of a uniform draw over [low, high]: mean bins - 1, deviation sqrt(2 (bins - 1))."""
    assert values.min() >= low - 1e-6
    assert values.max() <= high + 1e-6
    counts, _ = np.histogram(values, bins=bins, range=(low, high))
    expected = len(values) / bins
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < bins - 1 + 5 * np.sqrt(2 * (bins - 1))


@pytest.mark.parametrize("column", REAL)
def test_real_parameters_are_uniform_over_range(drawn, column):
    assert_uniform(physics_rows(drawn)[:, column], *FULL[column])


@pytest.mark.parametrize("column", INTEGER)
def test_integer_parameters_are_uniform_including_both_ends(drawn, column):
    values, (low, high) = physics_rows(drawn)[:, column], FULL[column]
    assert (values == np.round(values)).all()
    assert set(values) == set(np.arange(low, high + 1))
    choices = int(high - low + 1)
    assert_uniform(values, low - 0.5, high + 0.5, bins=choices)


def test_draws_within_match_are_independent(drawn):
    fighters = drawn["fighters"]
    places = [fighters[name][:, seat] for name in ("x", "y", "speed") for seat in (0, 1)][1:]
    places += [np.arctan2(fighters["sin_yaw"], fighters["cos_yaw"])[:, seat] for seat in (0, 1)]
    columns = np.concatenate([physics_rows(drawn).T, places])
    correlation = np.corrcoef(columns)
    speeds = [16, 17]  # Spawn speeds start at min_speed + 15, so they follow it.
    correlation[np.ix_([4], speeds)] = correlation[np.ix_(speeds, [4])] = 0.0
    correlation[np.ix_(speeds, speeds)] = 0.0
    np.fill_diagonal(correlation, 0.0)
    assert np.abs(correlation).max() < 5 / np.sqrt(DRAWS)


def test_neighbouring_matches_and_seeds_are_independent(drawn):
    columns = np.concatenate([physics_rows(drawn).T, drawn["fighters"]["y"].T])
    batch = DogfightBatch(DRAWS, seed=6)
    batch.set_ranges(FULL)
    batch.reset(seed=6)
    other = np.concatenate([physics_rows(batch.snapshot()).T, batch.snapshot()["fighters"]["y"].T])
    batch.reset()
    later = np.concatenate([physics_rows(batch.snapshot()).T, batch.snapshot()["fighters"]["y"].T])
    batch.close()
    for row in range(len(columns)):
        for a, b in ((columns[row, 1:], columns[row, :-1]), (columns[row], other[row]), (other[row], later[row])):
            assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(DRAWS)
    for rows in (columns, other, later):
        assert len(np.unique(rows[0])) > 0.99 * DRAWS


def test_random_spawns_are_uniform_over_ranges(drawn):
    fighters = drawn["fighters"]
    np.testing.assert_array_equal(fighters["x"][:, 0], -fighters["x"][:, 1])
    assert_uniform(fighters["x"][:, 1], 100.0, 300.0)
    yaw = np.arctan2(fighters["sin_yaw"], fighters["cos_yaw"])
    slowest = drawn["physics"]["min_speed"] + 15.0
    for seat in (0, 1):
        assert_uniform(fighters["y"][:, seat], 150.0, 450.0)
        assert_uniform(yaw[:, seat], -np.pi, np.pi)
        assert_uniform((fighters["speed"][:, seat] - slowest) / (80.0 - slowest), 0.0, 1.0)
    np.testing.assert_array_equal(fighters["hp"], np.repeat(drawn["physics"]["max_hp"][:, None], 2, axis=1))
    for name in ("cooldown", "stall", "turn_rate"):
        assert (fighters[name] == 0).all()
    assert (drawn["bullets"]["life"] == 0).all()


def test_random_spawns_are_default():
    assert len(np.unique(DogfightBatch(8, threads=1).snapshot()["fighters"]["x"])) == 16


def test_fixed_spawns():
    fighters = DogfightBatch(3, spawn="fixed", threads=1).snapshot()["fighters"]
    for name, first, second in (("x", -200, 200), ("y", 300, 300), ("cos_yaw", 1, -1), ("speed", 50, 50), ("hp", 5, 5)):
        np.testing.assert_allclose(fighters[name], np.tile([first, second], (3, 1)), atol=1e-6)
    np.testing.assert_allclose(fighters["sin_yaw"], 0.0, atol=1e-6)


@pytest.mark.parametrize("name", ["none", "narrow", *rules.REGIMES])
def test_levels_and_regimes_reach_simulator(name):
    batch = DogfightBatch(500, seed=1, threads=1)
    batch.set_ranges(rules.ranges(name))
    batch.reset()
    low, high = rules.ranges(name).T
    rows = physics_rows(batch.snapshot())
    assert ((rows >= low - 1e-6) & (rows <= high + 1e-6)).all()
    for column in INTEGER:
        assert set(rows[:, column]) == set(np.arange(low[column], high[column] + 1))


def test_same_seed_repeats_draws_and_other_seed_differs():
    def states(seed):
        batch = DogfightBatch(16, seed=seed, threads=1)
        batch.set_ranges(FULL)
        batch.reset(seed=seed)
        return batch.snapshot()

    first, second, other = states(3), states(3), states(4)
    for name in ("physics", "fighters"):
        np.testing.assert_array_equal(first[name], second[name])
        assert (first[name] != other[name]).all()


def test_reseeding_restarts_sequence_and_plain_reset_continues():
    batch = DogfightBatch(4, seed=9, threads=1)
    first = batch.reset(seed=9).clone()
    second = batch.reset().clone()
    assert not torch.equal(first, second)
    assert torch.equal(batch.reset(seed=9), first)
    assert torch.equal(batch.reset(), second)


def test_finished_match_is_followed_by_new_draw():
    batch = DogfightBatch(6, seed=2, threads=1, max_ticks=20)
    batch.set_ranges(FULL)
    batch.reset(seed=2)
    before = batch.snapshot()
    for _ in range(2):
        batch.step(torch.zeros(6, 2, 3))
    after = batch.snapshot()
    assert bool(batch.truncated.all())
    assert (before["physics"]["gravity"] != after["physics"]["gravity"]).all()
    assert (after["clock"]["tick"] == 0).all()
    batch.reset(seed=2)
    np.testing.assert_array_equal(batch.snapshot()["physics"], before["physics"])
    batch.reset()
    np.testing.assert_array_equal(batch.snapshot()["physics"], after["physics"])


def test_new_ranges_apply_from_next_match():
    batch = DogfightBatch(6, seed=2, threads=1, max_ticks=20)
    batch.set_ranges(rules.ranges("sniper"))
    batch.step(torch.zeros(6, 2, 3))
    assert (batch.snapshot()["physics"]["bullet_speed"] == 400.0).all()
    batch.step(torch.zeros(6, 2, 3))
    assert (batch.snapshot()["physics"]["bullet_speed"] == 500.0).all()


def test_assign_restarts_only_marked_matches():
    batch = DogfightBatch(4, seed=2, threads=1)
    for _ in range(5):
        batch.step(torch.ones(4, 2, 3))
    before = batch.snapshot()
    bots = np.full((4, 2), rules.ACTIONS)
    bots[:, 1] = rules.bot_id("ace")
    batch.assign(bots, torch.tensor([True, False, False, True]))
    after = batch.snapshot()
    np.testing.assert_array_equal(batch.bots.numpy(), bots)
    assert after["clock"]["tick"].tolist() == [0, 50, 50, 0]
    np.testing.assert_array_equal(before["fighters"][1:3], after["fighters"][1:3])
    assert (before["fighters"][[0, 3]] != after["fighters"][[0, 3]]).all()
    assert (after["bullets"]["life"][[0, 3]] == 0).all()


def test_bots_reset_memory_between_matches():
    batch = DogfightBatch(10, seed=2, threads=1, max_ticks=300)
    batch.assign(np.stack([np.arange(10) % 5, (np.arange(10) + 1) % 5], axis=1))
    for _ in range(30):
        batch.step(torch.zeros(10, 2, 3))
    assert bool(batch.truncated.any())
    fresh = batch.truncated.numpy()
    memory = batch.snapshot()["memory"][fresh]
    for name in ("mode", "timer", "mode_ticks", "evade_ticks"):
        assert (memory[name] == 0).all()
    assert (memory["evade_direction"] == 1).all()
