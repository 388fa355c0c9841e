"""Rules on recorded runs: none fires on a healthy run, and the right ones fire on faulty runs."""

import re

import numpy as np
import pytest

from sparring.configs.core.errors import InputError
from sparring.eval.analysis.record import History
from sparring.eval.analysis.reports.detectors import DETECTORS, Plateau
from sparring.eval.analysis.reports.rules import PATTERNS, apply_rules, load_rules, skipped_rules
from sparring.eval.analysis.reports.series import Series, curriculum_shifts, with_derived


@pytest.fixture
def fired(read_run):
    def find(name, **how):
        record, history = read_run(name, **how)
        return {
            finding.rule: finding for finding in apply_rules(load_rules(), with_derived(record, history), record.config)
        }

    return find


@pytest.mark.parametrize("name", ["healthy_quickstart", "healthy_cartpole", "healthy_grpo"])
def test_no_rule_fires_on_healthy_run(fired, name):
    assert fired(name) == {}


SICK = {
    "sick_learning_rate": {"kl_high", "clip_fraction_high", "value_loss_exploded"},
    "sick_entropy": {"entropy_collapse", "guard_interventions", "gradient_spikes", "gradient_growth"},
    "sick_no_learning": {"policy_does_not_move"},
    "sick_guard": {"guard_interventions", "kl_high"},
    "sick_cartpole": {"return_plateau", "policy_does_not_move"},
    "sick_grpo_rate": {"kl_to_reference_far", "kl_to_reference_high", "kl_max_high"},
    "sick_grpo_no_learning": {"reward_flat"},
}


@pytest.mark.parametrize("name", SICK)
def test_right_rules_fire_on_faulty_run(fired, name):
    assert set(fired(name)) == SICK[name]


def test_evidence_names_steps_and_values_of_run(fired, read_run):
    evidence = fired("sick_learning_rate")["kl_high"].evidence[0]
    _, history = read_run("sick_learning_rate", to="again")
    kl = dict(zip(history.step, history.columns["train/approx_kl"], strict=True))
    assert evidence.metric == "train/approx_kl"
    assert evidence.steps
    assert [kl[step] for step in evidence.steps] == list(evidence.values)
    assert min(evidence.values) > 0.1


def change(**metrics):
    """Overwrite metrics of a recorded run from the eighth row, as a broken machine or model would."""

    def edit(number, row):
        if number >= 8:
            row.update(metrics)

    return edit


def ramp(metric, start, slope):
    def edit(number, row):
        row[metric] = start + slope * number

    return edit


BROKEN = {
    "rollouts_failed": change(**{"rollout/failed_count": 2.0}),
    "workers_restarted": change(**{"rollout/restarts": 1.0}),
    "weights_slow": change(**{"rollout/max_volume_reload_s": 45.0}),
    "no_overlap": change(**{"benchmark/pipeline_overlap_s": 0.0}),
    "extraction_low": change(**{"extraction/rate": 0.8}),
    "empty_responses": ramp("extraction/empty_responses", 0.0, 1.0),
    "cache_inefficient": change(**{"cache/hit_rate": 0.1}),
    "kl_to_reference_far": change(**{"benchmark/kl": 4.0}),
    "reward_falls_at_low_loss": ramp("benchmark/reward_mean", 5.0, -0.05),
    "reward_collapse": ramp("benchmark/reward_mean", 14.0, -0.4),
    "token_entropy_collapse": change(**{"policy/entropy_mean": 0.02}),
    "groups_without_signal": change(**{"processing/skip_rate": 0.9}),
    "steps_skipped": change(**{"guard/skipped_steps": 3.0}),
    "uneven_compute": ramp("power_law/simulated_years_per_step", 1.0, 40.0),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_fault_planted_in_recorded_run_is_found(fired, rule):
    assert rule in fired("healthy_grpo", edit=BROKEN[rule])


def test_run_without_cache_metrics_fires_cache_absent(fired):
    def edit(number, row):
        for key in [key for key in row if key.startswith("cache/")]:
            del row[key]

    assert set(fired("healthy_grpo", edit=edit)) == {"cache_absent"}


def test_forgotten_bot_is_found(fired):
    def edit(number, row):
        if number > 200:
            row["curriculum/do_nothing/win_rate"] = 0.3

    assert set(fired("healthy_quickstart", edit=edit)) == {"bot_forgotten"}


def test_every_workflow_pattern_has_rule():
    assert {rule.pattern for rule in load_rules()} == set(PATTERNS)
    assert len({rule.name for rule in load_rules()}) == len(load_rules())


def test_curriculum_shifts_are_found(read_run):
    """The run file adds four bots at update 60 (row 61); each update has 512 x 64 env steps."""
    (shift,) = curriculum_shifts(read_run("healthy_quickstart")[1])
    assert (shift.row, shift.env_steps) == (61, 61 * 512 * 64)
    assert shift.before > 0.9 > shift.after


def test_plateau_is_flat_noise_but_not_slow_rise():
    rng = np.random.default_rng(1)
    rows = np.arange(1, 101)
    flat, rising = (Series("x", rows, rows, rng.normal(size=100) * 0.1 + slope * rows / 100) for slope in (0.0, 1.0))
    assert Plateau().find(flat)
    assert Plateau().find(rising) is None
    assert Plateau(ceiling=-1.0).find(flat) is None


def history(**columns):
    length = max(map(len, columns.values()))
    known = {name.replace("__", "/"): np.asarray(values, float) for name, values in columns.items()}
    return History(np.arange(1, length + 1), np.full(length, np.nan), np.full(length, -1), known)


def noise(seed, size, mean=0.0, spread=1.0):
    return np.random.default_rng(seed).normal(mean, spread, size)


def test_flat_reward_with_rising_rating_fires_no_plateau():
    rows = history(benchmark__reward_mean=noise(5, 30, 5.5, 0.45), elo__challenger=np.linspace(1000, 1100, 30))
    assert apply_rules(load_rules(), rows, {}) == []


@pytest.mark.parametrize(
    ("config", "fires", "said"),
    [
        ({}, True, "does not record grpo.buffer_depth"),
        ({"buffer_depth": 3}, True, ""),
        ({"grpo": {"buffer_depth": 1}}, True, ""),
        ({"grpo": {"buffer_depth": 0}}, False, "grpo.buffer_depth is 0"),
    ],
)
def test_unknown_option_defers_to_metrics(config, fires, said):
    rows = history(benchmark__pipeline_overlap_s=np.zeros(30))
    texts = [finding.text for finding in apply_rules(load_rules(), rows, config)]
    assert bool(texts) is fires
    assert said in (texts[0] if fires else dict(skipped_rules(load_rules(), rows, config))["no_overlap"])


def test_inapplicable_rules_are_listed_with_reason():
    rules, rows = load_rules(), history(benchmark__reward_mean=np.arange(12.0))
    skipped = dict(skipped_rules(rules, rows, {}))
    assert skipped["kl_max_high"] == "the run has no kl/max"
    assert skipped["reward_flat"] == "benchmark/reward_mean has 12 values, fewer than 20"
    assert "reward_collapse" not in skipped  # looked at, and not seen


RULE = "rules: [{name: x, pattern: cache, severity: info, finding: a, next: b, signs: [%s]}]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1", "is not a readable YAML file"),
        ("#" * 1_100_000, "is not a readable YAML file"),
        ("a: 1", "list of mappings under `rules`"),
        ("rules: [{nam: x}]", "did you mean 'name'?"),
        (RULE.replace("cache", "y") % "1", "unknown pattern"),
        (RULE % "", "at least one sign"),
        (RULE % "1", "must be a mapping with metrics and a detector"),
        (RULE % "{metrics: m, above: {limit: .nan}}", "above.limit=nan: must be a finite number"),
        (RULE % "{metrics: m, above: {}}", "'limit'"),
        (RULE % "{metrics: m, above: {limi: 1}}", "did you mean 'limit'?"),
        (RULE % "{metrics: m, abov: {limit: 1}}", "did you mean 'above'?"),
        (RULE % "{metrics: m}", "exactly one detector"),
        (RULE % "{metrics: m, first: 1, above: {limit: 1}}", "first=1: must be true or false"),
        (
            RULE.replace("name: x", "name: x, any: 2") % "{metrics: m, above: {limit: 1}}",
            "any=2: must be true or false",
        ),
    ],
)
def test_invalid_rules_file_is_rejected_in_one_line(tmp_path, text, message):
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=re.escape(message)) as error:
        load_rules(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", sorted(set(DETECTORS) - {"missing"}))
def test_detectors_ignore_empty_series(kind):
    needed = {"above": {"limit": 0}, "below": {"limit": 0}, "spikes": {"times": 2}, "growth": {"times": 2}}
    needed |= {"varies": {"limit": 1}, "noisy": {"limit": 1}, "drops": {"drop": 0.1}}
    empty = Series("x", np.array([]), np.array([]), np.array([]))
    assert DETECTORS[kind](**needed.get(kind, {})).find(empty) is None
