"""`analyze` on synthetic runs: faults named by the original analysis, and figures of its log."""

import json

import numpy as np
import pytest
import yaml

from benchmarks.run_analysis.symptoms import (
    BEST,
    ELO,
    FAULTS,
    HEALTHY,
    HITS,
    REWARD,
    around,
    faulty,
    healthy,
    rules_fired,
    stopped,
)
from sparring.eval import runs
from sparring.eval.analysis.record import History, RunRecord
from sparring.eval.analysis.reports.rules import apply_rules, load_rules
from sparring.eval.analysis.reports.series import elo_gap, no_elo_gap, with_derived

SEEDS = range(2000, 2003)
"""Neither those of the thresholds nor those of the page of results."""


@pytest.mark.parametrize("kind", FAULTS)
def test_fault_is_found_by_right_rule(kind):
    assert sum(FAULTS[kind][0] in rules_fired(faulty(kind, seed)) for seed in SEEDS) >= 2


@pytest.mark.parametrize("shape", HEALTHY)
def test_no_rule_fires_on_healthy_runs(shape):
    assert [rules_fired(healthy(shape, seed)) for seed in SEEDS] == [set()] * len(SEEDS)


@pytest.mark.parametrize("step", [0, 5, 29, 59])
@pytest.mark.parametrize(
    ("metric", "usual", "size", "rule"),
    [
        *(("kl/mean", 0.02, size, "kl_spikes") for size in (8.0, 24.0, 3.5)),
        *(("benchmark/kl", 0.02, size, "kl_spikes") for size in (8.0, 24.0)),
        *(("train/approx_kl", 0.01, size, "kl_high") for size in (8.0, 24.0)),
    ],
)
def test_large_kl_in_single_step_is_found(metric, usual, size, rule, step):
    values = np.random.default_rng(step).normal(usual, usual / 5, 60)
    assert rules_fired({metric: values}) == set()
    values[step] = size
    assert rules_fired({metric: values}) == {rule}


@pytest.mark.parametrize("best", ["running maximum", "constant", "not recorded"])
def test_stalled_rating_is_found_despite_best_of_league(best):
    found = 0
    for seed in range(24):
        random = np.random.default_rng([7, seed])
        rating = 1000 + 80 * stopped(random, (60, 100, 150, 250)[seed % 4], 0.08)
        league = {"running maximum": np.maximum.accumulate(rating), "constant": np.full(len(rating), 1090.0)}
        columns = {ELO: rating} | ({BEST: league[best]} if best in league else {})
        found += "rating_plateau" in rules_fired(columns)
    assert found >= 23


def random(seed):
    return np.random.default_rng(seed)


def exp7_rating():
    """Return checkpoints from 960 to 1068 Elo at step 150 of 250, and none better afterwards."""
    return np.minimum(1068, 960 + 108 * np.arange(250) / 150)


FIGURES = {
    "exp7: Elo stops at step 150 of 250": ("rating_plateau", {ELO: around(random(1), exp7_rating(), 5)}, {}),
    "exp7: the best of the league stops": (
        "rating_plateau", {BEST: np.maximum.accumulate(around(random(2), exp7_rating(), 5))}, {},
    ),
    "exp7: checkpoints after 150 are no better": (
        "checkpoints_plateau",
        {f"elo/adapter_v{step}": np.full(250, exp7_rating()[step] + (step % 7) - 3) for step in range(0, 250, 10)}, {},
    ),
    "exp10 B: KL mean 0.267, crashed at step 57": (
        "kl_to_reference_high", {"kl/mean": 0.267 * np.exp(random(3).normal(-0.125, 0.5, 57))}, {},
    ),
    "exp10 B: the same mean, growing to the crash": (
        "kl_to_reference_high", {"kl/mean": 0.267 * np.geomspace(0.05, 4, 57)}, {},
    ),
    "a KL of 0.15 against a target of 0.1": (
        "kl_to_reference_high", {"kl/mean": random(4).normal(0.15, 0.03, 40)}, {"kl_target": 0.1},
    ),
    "a KL of 0.06 against a target of 0.02": (
        "kl_to_reference_high", {"kl/mean": random(4).normal(0.06, 0.01, 40)}, {"grpo": {"kl_target": 0.02}},
    ),
    "exp12 B: dumbbot gains 68": (
        "bot_gains",
        {"elo/dumbbot": around(random(5), np.linspace(1000, 1068, 100), 4), "elo/base_model": np.full(100, 979.0)},
        {},
    ),
    "exp12 B: fewer games against dumbbot are won": (
        "benchmark_declines", {"dumbbot/win_rate": around(random(6), np.linspace(0.3, 0.1, 100), 0.05)}, {},
    ),
    "used_cached_ref_logprobs with an EMA reference": (
        "reference_cached", {"benchmark/used_cached_ref_logprobs": np.ones(40)}, {"use_ema_reference": True},
    ),
    "used_cached_ref_logprobs, options unknown": ("reference_cached", {"used_cached_ref_logprobs": np.ones(40)}, {}),
    "r1: a KL share of 95 % and a flat reward": (
        "kl_penalty_dominates",
        {"loss/kl_share": random(8).uniform(0.9, 1.0, 50), REWARD: random(9).normal(0.394, 0.02, 50)}, {},
    ),
    "hit rate of 40 %": ("cache_inefficient", {HITS: random(10).normal(0.4, 0.02, 30)}, {}),
}  # fmt: skip
"""Figures of the original logs and targets: the rule, metrics and configuration."""


@pytest.mark.parametrize("figure", FIGURES)
def test_recorded_log_figure_fires_its_rule(figure):
    rule, columns, config = FIGURES[figure]
    assert rule in rules_fired(columns, config)


@pytest.mark.parametrize(
    ("rule", "columns", "config"),
    [
        ("bot_gains", {"elo/dumbbot": around(random(5), np.linspace(1000, 1007, 100), 4)}, {}),  # exp12 A
        ("kl_to_reference_high", {"kl/mean": random(3).normal(0.049, 0.01, 75)}, {}),  # exp10 A
        ("reference_cached", {"benchmark/used_cached_ref_logprobs": np.ones(40)}, {"use_ema_reference": False}),
        ("reference_cached", {"benchmark/used_cached_ref_logprobs": np.zeros(40)}, {"use_ema_reference": True}),
        ("kl_penalty_dominates", {"loss/kl_share": np.full(50, 0.3), REWARD: random(9).normal(0.4, 0.02, 50)}, {}),
        ("cache_inefficient", {HITS: np.linspace(0.2, 0.7, 30)}, {}),
        ("rollouts_slow", {"benchmark/rollout_time_s": np.full(30, 400.0),
                           "benchmark/pipeline_overlap_s": np.full(30, 380.0)}, {}),  # training does not wait
        ("reward_plateau", {REWARD: np.linspace(0, 5, 60) + random(1).normal(0, 0.3, 60)}, {}),
    ],
)  # fmt: skip
def test_healthy_neighbour_of_figure_fires_no_rule(rule, columns, config):
    assert rule not in rules_fired(columns, config)


def rated(**last):
    """Return three rows of ratings in the original's format; the last has the values of `last`."""
    rows = [{"elo/base_model": 1000.0 - 10 * i, "elo/adapter_v5": 1010.0 + i} for i in range(2)]
    return [*rows, {name.replace("__", "/"): value for name, value in last.items()}]


@pytest.mark.parametrize(
    ("rows", "gap", "metric"),
    [
        (rated(elo__base_model=1001.0, elo__adapter_v15=1251.0, elo__challenger=1221.0), 250.0, "elo/adapter_v15"),
        (rated(elo__base_model=1001.0, elo__checkpoint_000015=1251.0), 250.0, "elo/checkpoint_000015"),
        (rated(elo__base_model=1001.0, elo__adapter_v10=1251.0, elo__adapter_v15=1240.0), 250.0, "elo/adapter_v10"),
        (rated(elo__adapter_v15=1251.0), 21.0, "elo/adapter_v5"),  # the last row that has both: 1011 and 990
        ([{"elo/adapter_v15": 1251.0}, {"elo/base_model": 1001.0}], 250.0, "elo/adapter_v15"),
        ([{"league/best_elo": 1251.0, "elo/base_model": 1001.0, "elo/challenger": 1300.0}], 250.0, "league/best_elo"),
    ],
)
def test_elo_gap_uses_best_checkpoint(rows, gap, metric):
    found = elo_gap(rows)
    assert (found.value, found.metric) == (gap, metric)


@pytest.mark.parametrize(
    ("metrics", "problem"),
    [
        (["elo/challenger", "elo/base_model"], "no rating of a checkpoint (elo/checkpoint_N, elo/adapter_vN or"),
        (["elo/adapter_v15"], "no value of elo/base_model"),
        (["train/loss"], ""),
    ],
)
def test_missing_elo_gap_has_reason(metrics, problem):
    assert elo_gap([dict.fromkeys(metrics, 1000.0)]) is None
    assert no_elo_gap(metrics).startswith(problem)


@pytest.fixture
def write_run(tmp_path):
    def write(name, rows, **config):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        text = "".join(json.dumps({"env_steps": 8 * i} | row) + "\n" for i, row in enumerate(rows, 1))
        (folder / "metrics.jsonl").write_text(text)
        return folder

    return write


def test_analyze_and_analyze_sweep_report_same_gap(write_run, tmp_path, capsys, printed):
    """Exp 9 H: the best checkpoint at 1251, the base model at 1001, and the learner itself at 1221."""
    rows = [*rated(elo__base_model=1001.0, elo__adapter_v15=1251.0, elo__challenger=1221.0, league__best_elo=1251.0)]
    folder = write_run("ablation-H", rows)
    write_run("ablation-X", [{"elo/challenger": 1100.0, "elo/base_model": 1000.0}])
    assert "Elo gap +250: the best checkpoint's 1251 (elo/adapter_v15)" in printed(runs.main, ["analyze", str(folder)])
    assert runs.main(["analyze-sweep", "ablation", "--dir", str(tmp_path), "--json"]) == 0
    first, other = sorted(json.loads(capsys.readouterr().out)["runs"], key=lambda run: run["run"])
    assert first["mean"]["Elo gap"] == 250.0
    assert other["no_elo_gap"].startswith("no rating of a checkpoint")
    assert runs.main(["analyze-sweep", "ablation", "--dir", str(tmp_path)]) == 0
    assert "R2 has no Elo gap: no rating of a checkpoint" in capsys.readouterr().out


def test_run_without_rule_metrics_is_not_called_healthy(write_run, tmp_path, printed):
    folder = write_run("foreign", [{"accuracy": 0.1 * i} for i in range(9)])
    count = len(load_rules())
    shown = printed(runs.main, ["analyze", str(folder), "--markdown", str(tmp_path / "a.md")])
    assert f"No rule could be looked at: the run lacks metrics or enough values for each of the {count}." in shown
    assert "No rule could be looked at" in (tmp_path / "a.md").read_text()
    assert json.loads(printed(runs.main, ["analyze", str(folder), "--json"]))["rules"] == {"looked_at": 0, "all": count}
    some = write_run("some", [{"kl/max": 0.1} for _ in range(5)])
    assert f"No rule fired; 2 of {count} could be looked at." in printed(runs.main, ["analyze", str(some)])


def test_compare_without_metrics_lists_common_ones(write_run, tmp_path, capsys, printed):
    for name in "ab":
        write_run(name, [{"accuracy": 0.1 * i, f"only_{name}": 1.0} for i in range(9)], trainer=name)
    write_run("c", [{"lr": 0.1} for i in range(9)], trainer="c")
    assert runs.main(["compare", "a", "b", "--dir", str(tmp_path), "--json"]) == 0
    (section,) = (
        part for part in json.loads(capsys.readouterr().out)["sections"] if part["title"].startswith("Metrics")
    )
    assert [row[0] for row in section["tables"][0]["rows"]] == ["accuracy"]
    assert "The runs have no metric in common." in printed(runs.main, ["compare", "a", "c", "--dir", str(tmp_path)])


def test_compare_names_omitted_metrics(write_run, tmp_path, capsys):
    for name in "ab":
        write_run(name, [{f"m{k:02}": float(i) for k in range(20)} for i in range(9)], trainer=name)
    assert runs.main(["compare", "a", "b", "--dir", str(tmp_path)]) == 0
    assert "Also in all runs, to choose with -m: m16, m17, m18, m19." in " ".join(capsys.readouterr().out.split())


def test_any_rule_needs_one_condition(tmp_path):
    """The rule has two conditions, and the run only has the second one's metric."""
    path = tmp_path / "rules.yaml"
    signs = "[{metrics: a, above: {limit: 1}}, {metrics: b, above: {limit: 1}}]"
    rule = "{name: x, pattern: cache, severity: info, finding: f, next: n, signs: %s%s}"
    rows = History(np.arange(1, 4), np.full(3, np.nan), np.full(3, -1), {"b": np.full(3, 2.0)})
    for more, fires in ((", any: true", True), ("", False)):
        path.write_text(f"rules: [{rule % (signs, more)}]")
        assert bool(apply_rules(load_rules(path), rows, {})) is fires


def test_derived_columns_by_hand():
    """The shorter overlap is 10 of 40 s; 80 of 90 s rollout time is waiting; rewards are 2 with spread 1."""
    values = {
        "benchmark/rollout_time_s": 90.0, "benchmark/training_time_s": 40.0, "benchmark/pipeline_overlap_s": 10.0,
        REWARD: 2.0, "benchmark/reward_std": 1.0, "kl/mean": 0.06,
    }  # fmt: skip
    columns = {name: np.full(4, value) for name, value in values.items()}
    rows = History(np.arange(1, 5), np.full(4, np.nan), np.full(4, -1), columns)
    record = RunRecord("x", "folder", "", "completed", 0.0, 0.0, config={"grpo": {"kl_target": 0.02}})
    found = with_derived(record, rows).columns
    assert {name: float(found[f"derived/{name}"][0]) for name in ("overlap_share", "rollout_wait_s")} == {
        "overlap_share": 0.25, "rollout_wait_s": 80.0,
    }  # fmt: skip
    assert (found["derived/reward_spread"][0], found["derived/kl_over_target"][0]) == (0.5, pytest.approx(3.0))
