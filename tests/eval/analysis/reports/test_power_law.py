"""Power laws: known exponents, scipy's regression, and interval coverage."""

import numpy as np
import pytest
from scipy import stats

from sparring.eval.analysis.reports.power_law import ComputeChoice, PowerLawError, Price, compute_of, fit_run, fit_runs


def test_exact_power_law_is_found():
    compute = np.geomspace(1, 1e6, 50)
    law = fit_run(compute, 3.0 * compute**0.25)
    assert law.exponent.value == pytest.approx(0.25)
    assert law.coefficient == pytest.approx(3.0)
    assert law.r_squared == pytest.approx(1.0)
    assert law.exponent.interval == pytest.approx((0.25, 0.25))


def test_fit_matches_scipy_regression_in_logarithms():
    rng = np.random.default_rng(2)
    compute = np.sort(rng.uniform(1, 1000, 80))
    reward = np.exp(rng.normal(size=80)) * compute**0.4
    law, wanted = fit_run(compute, reward), stats.linregress(np.log(compute), np.log(reward))
    assert law.exponent.value == pytest.approx(wanted.slope)
    assert law.coefficient == pytest.approx(np.exp(wanted.intercept))
    assert law.r_squared == pytest.approx(wanted.rvalue**2)


def lasting(rng, count, points, correlation):
    """Return noise [count, points] with this correlation between neighbours."""
    noise = rng.normal(size=(count, points)) / 10
    noise[:, 0] /= (1 - correlation**2) ** 0.5
    for k in range(1, points):
        noise[:, k] += correlation * noise[:, k - 1]
    return noise


def covered(compute, noise):
    intervals = [fit_run(compute, compute**0.3 * np.exp(one)).exponent.interval for one in noise]
    return float(np.mean([low <= 0.3 <= high for low, high in intervals]))


@pytest.mark.parametrize("compute", [np.geomspace(1, 1e4, 200), np.arange(1.0, 201)], ids=["geometric", "even"])
@pytest.mark.parametrize("kind", ["independent", "lasting", "long", "falling", "slow and quick"])
def test_run_interval_covers_exponent(compute, kind):
    """Of 200 runs at least 92 % (95 % minus two standard errors); block bootstraps covered 80 to 94 %."""
    rng = np.random.default_rng(4)
    last = {"independent": 0.0, "lasting": 0.8, "long": 0.93, "falling": 0.6, "slow and quick": 0.9}[kind]
    noise = lasting(rng, 200, 200, last)
    noise *= np.linspace(3, 0.5, 200) if kind == "falling" else 1
    noise += rng.normal(size=noise.shape) / 5 if kind == "slow and quick" else 0
    assert covered(compute, noise) >= 0.92


def test_short_run_coverage_is_low_only_with_lasting_noise():
    rng, compute = np.random.default_rng(5), np.geomspace(1, 1e4, 20)
    assert covered(compute, lasting(rng, 200, 20, 0.0)) >= 0.92
    assert covered(compute, lasting(rng, 200, 20, 0.9)) >= 0.80  # as stated


@pytest.mark.parametrize("count", [3, 5, 12])
def test_interval_across_runs_covers_exponent(count):
    """Runs differ in level, compute and slightly in exponent."""
    rng, hits = np.random.default_rng(6), 0
    for _ in range(200):
        noise, runs = lasting(rng, count, 60, 0.8), []
        for one in noise:
            compute = np.geomspace(1, 1e3, 60) * 10 ** rng.uniform(0, 2)
            exponent, level = 0.3 + 0.05 * rng.normal(), 0.2 * rng.normal()
            runs.append((compute, compute**exponent * np.exp(level + one)))
        low, high = fit_runs(runs).exponent.interval
        hits += low <= 0.3 <= high
    assert hits / 200 >= 0.9


def test_interval_matches_scipy_for_independent_noise():
    rng, compute = np.random.default_rng(7), np.geomspace(1, 1e4, 2000)
    reward = compute**0.3 * np.exp(rng.normal(size=2000))
    low, high = fit_run(compute[:19], reward[:19]).exponent.interval  # too few for averages
    line = stats.linregress(np.log(compute[:19]), np.log(reward[:19]))
    assert (high - low) / 2 == pytest.approx(stats.t.ppf(0.975, 17) * line.stderr, rel=0.35)


def test_points_without_logarithm_are_counted():
    compute = np.arange(20.0)
    law = fit_run(compute, np.where(compute < 5, -1.0, compute))
    assert (law.points, law.left_out) == (15, 5)
    with pytest.raises(PowerLawError, match="0 of 20 points have positive"):
        fit_run(compute, -compute)


def test_constant_reward_is_rejected_for_power_law():
    compute = np.geomspace(1, 100, 30)
    with pytest.raises(PowerLawError, match=r"all 30 rewards are 0\.3: a constant has no exponent"):
        fit_run(compute, np.full(30, 0.3))
    with pytest.raises(PowerLawError, match=r"all 90 rewards are 0\.3"):
        fit_runs([(compute, np.full(30, 0.3))] * 3)


def test_interval_unit_of_sweep_is_run():
    """Three runs with different levels: many points per run do not narrow the interval."""
    compute = np.geomspace(1, 100, 1000)
    runs = [(compute * scale, compute**0.2 * level) for scale, level in ((1, 1.0), (10, 3.0), (100, 2.0))]
    law = fit_runs(runs)
    low, high = law.exponent.interval
    assert high - low > 0.05
    assert low <= law.exponent.value <= high
    with pytest.raises(PowerLawError, match="2 runs have positive points"):
        fit_runs(runs[:2])


def test_compute_of_ppo_run(read_run):
    """P weights, E epochs: (2 + 6 E) P for each env step."""
    record, history = read_run("sick_no_learning")
    compute = compute_of(record, history, ComputeChoice(parameters=1000, price=Price(2.0, "EUR")))
    steps, epochs = 160 * 128 * 64, 3
    assert compute.total("env_steps") == steps
    assert compute.total("flops") == pytest.approx((2 + 6 * epochs) * 1000 * steps)
    assert compute.total("games") == history.columns["rollout/matches"].sum()
    assert compute.total("seconds") is None  # the trace holds no times


def test_compute_of_grpo_run(read_run):
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
