"""Interquartile mean, its bootstrap and the probability of improvement: by hand and in simulation."""

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from sparring.eval.stats.aggregate import improvement, interquartile_mean, spread

RESAMPLES = 1000


def test_the_middle_half_is_averaged():
    scores = np.array([[0.0, 0.1, 0.2, 0.9], [1.0, 0.3, 0.4, 1.0]])
    assert interquartile_mean(scores) == pytest.approx((0.2 + 0.3 + 0.4 + 0.9) / 4)
    assert interquartile_mean(np.array([[0.1, 0.2, 0.9]])) == pytest.approx(0.4)  # Three: nothing is cut.


def test_a_failed_seed_does_not_decide_but_is_shown():
    scores = np.full((3, 8), 0.9)
    scores[:, 0] = 0.0
    found = spread(scores, 0, RESAMPLES)
    assert (found.iqm.value, found.least) == (0.9, 0.0)
    assert found.mean == pytest.approx(0.7875)


def test_equal_scores_have_no_width():
    found = spread(np.full((2, 3), 0.5), 0, RESAMPLES)
    assert (found.iqm.value, found.iqm.interval) == (0.5, (0.5, 0.5))


def test_the_same_seed_gives_the_same_interval():
    scores = np.random.default_rng(1).random((5, 4))
    assert spread(scores, 3, RESAMPLES) == spread(scores, 3, RESAMPLES)
    assert spread(scores, 3, RESAMPLES) != spread(scores, 4, RESAMPLES)


def test_strata_keep_their_scores():
    # Drawn without strata, an easy and a hard task would mix and the mean of everything would scatter.
    found = spread(np.array([[0.1] * 6, [0.9] * 6]), 0, RESAMPLES)
    assert found.iqm.interval == pytest.approx((0.5, 0.5))


def coverage(runs, tasks=5, simulations=200):
    """Share of 95 % intervals that hold the true IQM of scores around five different means."""
    rng, means = np.random.default_rng(5), np.linspace(0.3, 0.7, tasks)
    truth = interquartile_mean(means[:, None] + 0.1 * rng.standard_normal((tasks, 100_000)))
    held = 0
    for _ in range(simulations):
        low, high = spread(means[:, None] + 0.1 * rng.standard_normal((tasks, runs)), 0, 500).iqm.interval
        held += low <= truth <= high
    return held / simulations


def test_the_interval_holds_the_truth_as_often_as_it_promises_and_says_where_it_does_not():
    assert 0.89 < coverage(runs=20) < 0.99
    assert coverage(runs=3) < 0.93


def test_improvement_is_the_mann_whitney_statistic():
    rng = np.random.default_rng(2)
    ours, theirs = rng.integers(0, 6, (3, 7)) / 5.0, rng.integers(0, 6, (3, 4)) / 5.0
    wanted = np.mean([mannwhitneyu(x, y).statistic / 28 for x, y in zip(ours, theirs, strict=True)])
    found = improvement(ours, theirs, 0, RESAMPLES)
    assert found.value == pytest.approx(wanted)
    assert found.interval[0] < found.value < found.interval[1]


def test_improvement_at_its_ends():
    low, high = np.array([[0.1, 0.2]]), np.array([[0.8, 0.9, 0.7]])
    assert improvement(high, low, 0, RESAMPLES).value == 1.0
    assert improvement(low, high, 0, RESAMPLES).interval == (0.0, 0.0)
    assert improvement(low, low, 0, RESAMPLES).value == 0.5
