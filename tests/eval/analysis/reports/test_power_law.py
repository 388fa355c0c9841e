"""Power laws: exponents known in advance, scipy's regression, and the coverage of the interval."""

import numpy as np
import pytest
from scipy import stats

from sparring.eval.analysis.reports.power_law import ComputeChoice, PowerLawError, Price, compute_of, fit_run, fit_runs


def test_an_exact_power_law_is_found():
    compute = np.geomspace(1, 1e6, 50)
    law = fit_run(compute, 3.0 * compute**0.25)
    assert law.exponent.value == pytest.approx(0.25)
    assert law.coefficient == pytest.approx(3.0)
    assert law.r_squared == pytest.approx(1.0)
    assert law.exponent.interval == pytest.approx((0.25, 0.25))


def test_it_is_the_regression_of_scipy_in_logarithms():
    rng = np.random.default_rng(2)
    compute = np.sort(rng.uniform(1, 1000, 80))
    reward = np.exp(rng.normal(size=80)) * compute**0.4
    law, wanted = fit_run(compute, reward), stats.linregress(np.log(compute), np.log(reward))
    assert law.exponent.value == pytest.approx(wanted.slope)
    assert law.coefficient == pytest.approx(np.exp(wanted.intercept))
    assert law.r_squared == pytest.approx(wanted.rvalue**2)


def test_the_interval_of_dependent_updates_covers_the_exponent():
    """Of 100 runs with noise that lasts, most intervals hold the exponent; those for independent noise do not."""
    compute, blocks, naive = np.geomspace(1, 1e4, 200), 0, 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        noise = np.zeros(200)
        for k in range(1, 200):
            noise[k] = 0.8 * noise[k - 1] + 0.1 * rng.normal()
        reward = compute**0.3 * np.exp(noise)
        low, high = fit_run(compute, reward, seed=seed, resamples=300).exponent.interval
        blocks += low <= 0.3 <= high
        line = stats.linregress(np.log(compute), np.log(reward))
        naive += abs(line.slope - 0.3) <= 1.96 * line.stderr
    assert blocks >= 80
    assert naive < 65


def test_points_without_a_logarithm_are_counted():
    compute = np.arange(20.0)
    law = fit_run(compute, np.where(compute < 5, -1.0, compute))
    assert (law.points, law.left_out) == (15, 5)
    with pytest.raises(PowerLawError, match="0 of 20 points have positive"):
        fit_run(compute, -compute)


def test_a_constant_reward_has_no_exponent():
    compute = np.geomspace(1, 100, 30)
    with pytest.raises(PowerLawError, match=r"all 30 rewards are 0\.3: a constant has no exponent"):
        fit_run(compute, np.full(30, 0.3))
    with pytest.raises(PowerLawError, match=r"all 90 rewards are 0\.3"):
        fit_runs([(compute, np.full(30, 0.3))] * 3)


def test_runs_of_a_sweep_are_the_unit_of_the_interval():
    """Three runs with different levels: many points each do not make the interval narrow."""
    compute = np.geomspace(1, 100, 1000)
    runs = [(compute * scale, compute**0.2 * level) for scale, level in ((1, 1.0), (10, 3.0), (100, 2.0))]
    law = fit_runs(runs)
    low, high = law.exponent.interval
    assert high - low > 0.05
    assert low <= law.exponent.value <= high
    with pytest.raises(PowerLawError, match="2 runs have positive points"):
        fit_runs(runs[:2])


def test_compute_of_a_ppo_run(read_run):
    """P weights, E epochs: (2 + 6 E) P for each env step."""
    record, history = read_run("sick_no_learning")
    compute = compute_of(record, history, ComputeChoice(parameters=1000, price=Price(2.0, "EUR")))
    steps, epochs = 160 * 128 * 64, 3
    assert compute.total("env_steps") == steps
    assert compute.total("flops") == pytest.approx((2 + 6 * epochs) * 1000 * steps)
    assert compute.total("games") == history.columns["rollout/matches"].sum()
    assert compute.total("seconds") is None  # the trace holds no times


def test_compute_of_a_grpo_run(read_run):
    record, history = read_run("healthy_grpo")
    compute = compute_of(record, history, ComputeChoice(parameters=1000, price=Price(3.6)))
    get = history.columns.get
    seconds = get("benchmark/rollout_time_s") + get("benchmark/training_time_s") - get("benchmark/pipeline_overlap_s")
    assert compute.total("seconds") == pytest.approx(seconds.sum())
    assert compute.total("money") == pytest.approx(seconds.sum() / 1000)
    assert compute.total("tokens") == get("cache/prompt_tokens").sum()
    assert compute.total("years") == get("power_law/cumulative_simulated_years")[-1]
    sampled = (get("cache/total_queries") - get("cache/total_hits")).sum()
    trained = (get("cache/prompt_tokens") * (1 - get("processing/skip_rate"))).sum()
    assert compute.total("flops") == pytest.approx(1000 * (2 * sampled + 8 * trained))
