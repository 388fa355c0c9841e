"""Interquartile mean, bootstrap and probability of improvement: by hand and in simulation."""

import numpy as np
import pytest
from scipy import stats

from sparring.curriculum.student import student_95
from sparring.eval.analysis.trends import kendall_tau
from sparring.eval.stats.aggregate import bounded_estimate, improvement, interquartile_mean, spread

RESAMPLES = 1000


def test_iqm_averages_middle_half():
    scores = np.array([[0.0, 0.1, 0.2, 0.9], [1.0, 0.3, 0.4, 1.0]])
    assert interquartile_mean(scores) == pytest.approx((0.2 + 0.3 + 0.4 + 0.9) / 4)
    assert interquartile_mean(np.array([[0.1, 0.2, 0.9]])) == pytest.approx(0.4)  # Three: nothing is cut.


def test_failed_seed_is_listed_without_deciding():
    scores = np.full((3, 8), 0.9)
    scores[:, 0] = 0.0
    found = spread(scores, 0, RESAMPLES)
    assert (found.iqm.value, found.least) == (0.9, 0.0)
    assert found.mean == pytest.approx(0.7875)


def test_equal_scores_have_zero_width():
    found = spread(np.full((2, 3), 0.5), 0, RESAMPLES)
    assert (found.iqm.value, found.iqm.interval) == (0.5, (0.5, 0.5))


def test_same_seed_gives_same_interval():
    scores = np.random.default_rng(1).random((5, 4))
    assert spread(scores, 3, RESAMPLES) == spread(scores, 3, RESAMPLES)
    assert spread(scores, 3, RESAMPLES) != spread(scores, 4, RESAMPLES)


def test_strata_keep_their_scores():
    # Drawn without strata, an easy and a hard task would mix and the mean of everything would scatter.
    found = spread(np.array([[0.1] * 6, [0.9] * 6]), 0, RESAMPLES)
    assert found.iqm.interval == pytest.approx((0.5, 0.5))


def coverage(runs, tasks=5, simulations=200):
    """Return the share of 95 % intervals that contain the true IQM of scores with five means."""
    rng, means = np.random.default_rng(5), np.linspace(0.3, 0.7, tasks)
    truth = interquartile_mean(means[:, None] + 0.1 * rng.standard_normal((tasks, 100_000)))
    held = 0
    for _ in range(simulations):
        low, high = spread(means[:, None] + 0.1 * rng.standard_normal((tasks, runs)), 0, 500).iqm.interval
        held += low <= truth <= high
    return held / simulations


def test_bootstrap_interval_has_documented_coverage():
    assert 0.89 < coverage(runs=20) < 0.99
    assert coverage(runs=3) < 0.93


def test_improvement_is_mann_whitney_statistic():
    rng = np.random.default_rng(2)
    ours, theirs = rng.integers(0, 6, (3, 7)) / 5.0, rng.integers(0, 6, (3, 4)) / 5.0
    wanted = np.mean([stats.mannwhitneyu(x, y).statistic / 28 for x, y in zip(ours, theirs, strict=True)])
    found = improvement(ours, theirs, 0, RESAMPLES)
    assert found.value == pytest.approx(wanted)
    assert found.interval[0] < found.value < found.interval[1]


def test_improvement_at_limits():
    low, high = np.array([[0.1, 0.2]]), np.array([[0.8, 0.9, 0.7]])
    assert improvement(high, low, 0, RESAMPLES).value == 1.0
    assert improvement(low, high, 0, RESAMPLES).interval == (0.0, 0.0)
    assert improvement(low, low, 0, RESAMPLES).value == 0.5


@pytest.mark.parametrize("n", [2, 20, 400])
def test_equal_games_have_exact_binomial_interval(n):
    """Games return -1 or 1: all won, all lost; a middle value has both limits."""
    low = stats.binomtest(n, n).proportion_ci(method="exact").low
    assert bounded_estimate(np.ones(n), -1.0, 1.0).interval == pytest.approx((2 * low - 1, 1.0))
    assert bounded_estimate(-np.ones(n), -1.0, 1.0).interval == pytest.approx((-1.0, 1 - 2 * low))
    assert bounded_estimate(np.zeros(n), -1.0, 1.0).interval == pytest.approx((low - 1, 1 - low))


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 30, 101, 1000])
def test_quantiles_match_scipy(freedom):
    assert student_95(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-10)


@pytest.mark.parametrize("n", [2, 3, 7, 64, 65, 300])
def test_rank_correlations_match_scipy(n):
    rng = np.random.default_rng(n)
    for values in (
        rng.standard_normal(n),
        rng.integers(0, 3, n),
        np.arange(n),
        -np.arange(n),
        np.cumsum(rng.random(n)),
    ):
        expected = stats.kendalltau(np.arange(n), values).statistic
        np.testing.assert_allclose(kendall_tau(values), expected, rtol=0, atol=1e-15)
    assert np.isnan(kendall_tau([1.0] * n))
    assert np.isnan(kendall_tau([1.0]))


def test_intervals_match_scipy():
    scores = np.random.default_rng(4).random((3, 5))
    expected = stats.bootstrap(
        list(scores),
        lambda *samples, axis: stats.trim_mean(np.concatenate(samples, axis=axis), 0.25, axis=axis),
        n_resamples=1500, batch=1000, vectorized=True, axis=-1, method="percentile", rng=np.random.default_rng(3),
    ).confidence_interval  # fmt: skip
    assert spread(scores, 3, 1500).iqm.interval == pytest.approx(tuple(expected), abs=1e-12)
