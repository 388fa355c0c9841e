"""Sweep files: the original sweeps compose, and faults give one line with key, value and fix."""

import copy
import re

import pytest
import yaml

from sparring.configs.core.errors import InputError
from sparring.configs.load import load
from sparring.configs.serialization import options
from sparring.eval.analysis.sweeps import file as sweep_file
from sparring.eval.analysis.sweeps.file import parse_sweep, read_sweep_file, sweep_files
from sparring.eval.analysis.sweeps.plan import read_sweep

GOOD = {
    "hypothesis": "More clipping learns less.",
    "run": "quickstart",
    "seeds": [0, 1],
    "defaults": {"ppo": {"epochs": 2}},
    "runs": {"A": {"description": "small"}, "B": {"description": "large", "changes": {"ppo": {"clip": 0.3}}}},
    "primary": {"measure": "final(rollout/win_rate)", "goal": "higher"},
    "secondary": ["mean(train/approx_kl)"],
    "expected": ["A", "B"],
    "criteria": ["every run: max(train/approx_kl) < 1"],
}
SPACE = {"ppo.clip": {"low": 0.1, "high": 0.3}}


def changed(**parts):
    return {key: value for key, value in {**copy.deepcopy(GOOD), **parts}.items() if value is not None}


@pytest.mark.parametrize("name", sweep_files())
def test_every_sweep_file_composes_and_states_purpose(name):
    assert sweep_files()[name]
    assert read_sweep([f"+sweep={name}"]).runs


@pytest.mark.parametrize(
    ("name", "steps", "letters", "expected"),
    [
        ("stability_ablation", 20, "ABCDEFGH", ""), ("mlp_ablation", 75, "AB", ""), ("mlp_stability", 30, "ABCD", ""),
        ("reward_structure", 100, "AB", "BA"), ("grpo_grouping", 30, "ABCD", "DBCA"),
        ("reward_discount", 100, "ABC", "BCA"), ("signal_noise", 100, "ABC", "CBA"),
        ("horizon_scoring", 100, "ABCD", "DCBA"),
    ],
)  # fmt: skip
def test_original_sweeps_match_log(name, steps, letters, expected):
    """Steps, runs and expected rankings match the log."""
    file, plan = read_sweep_file(name), read_sweep([f"+sweep={name}"])
    assert "".join(file.runs) == letters
    assert "".join(file.expected) == expected
    assert {run.grpo.steps for run in plan.runs} == {steps}


def test_experiments_take_one_optimizer_step_per_step():
    """The original accumulates gradients over all chunks of a step before one AdamW step."""
    runs = [load([f"+run=diplomacy_exp{number}"]) for number in (1, 3, 4, 5, 6, 7, 8)]
    assert {run.grpo.minibatch_samples for run in [*runs, *read_sweep(["+sweep=mlp_ablation"]).runs]} == {1_000_000}


def test_ablation_changes_one_option_per_run():
    plan = read_sweep(["+sweep=stability_ablation"])
    base = options(plan.runs[0])
    differing = [{k: v for k, v in options(run).items() if base[k] != v} for run in plan.runs]
    assert differing == [
        {},
        {"grpo.use_ppo_clipping": True},
        {"grpo.use_token_level_loss": True},
        {"model.lora_rank": 32},
        {"grpo.entropy_coef": 0.01},
        {"grpo.kl_beta": 0.01},
        {"model.lora_targets": "all"},
        {"model.lora_rank": 32, "model.lora_targets": "all"},
    ]
    assert (plan.runs[0].grpo.learning_rate, plan.runs[0].grpo.max_grad_norm) == (5e-6, 5.0)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"hypothesys": "x"}, r"sweep\.hypothesys: unknown key; choose from .*did you mean 'hypothesis'"),
        ({"hypothesis": None}, r"sweep\.hypothesis is missing; add it"),
        ({"run": "quickstrat"}, "unknown run 'quickstrat': .*did you mean 'quickstart'"),
        ({"seeds": [1, 1]}, r"seeds=\[1, 1\]: a seed is given twice"),
        ({"seeds": [-1]}, r"seeds\.0=-1: must be a whole number in \[0, 2147483647\]"),
        ({"runs": None}, "runs, search: give exactly one"),
        ({"runs": {}}, "runs={}: must name at least one run"),
        ({"runs": {"A-B": {"description": "x"}}}, r"runs\.A-B: a run's name is 1 to 16 letters"),
        ({"runs": {"A": {"changes": {}}}}, r"runs\.A\.description is missing"),
        ({"expected": ["A", "C"]}, "expected='C': choose from A, B"),
        ({"expected": ["A", "A"]}, "expected=.*a run is given twice"),
        ({"primary": {"measure": "final(x)", "goal": "lowest"}}, r"primary\.goal='lowest': .*did you mean 'lower'"),
        ({"primary": {"measure": "final x", "goal": "lower"}}, r"primary\.measure='final x': column 7"),
        ({"criteria": ["every run: max(x) < y"]}, r"criteria\.0='every run: max\(x\) < y': column 21"),
        ({"search": {"trials": 2, "space": SPACE}}, "runs, search: give exactly one"),
        ({"runs": None, "search": {"trials": 0, "space": SPACE}}, r"search\.trials=0: must be a whole number in \[1"),
        ({"runs": None, "search": {"trials": 2, "space": {}}}, "must name at least one option"),
        ({"runs": None, "expected": None, "search": {"trials": 2, "space": {"ppo.clip": {"low": 0.3, "high": 0.1}}}},
         r"search\.space\.ppo\.clip\.high=0\.1: must be above low=0\.3"),
        ({"runs": None, "search": {"trials": 2, "space": {"ppo.clip": {"low": "1e-4", "high": 1}}}},
         r"low='1e-4': must be a finite number; write 1\.0e-4"),
        ({"runs": None, "search": {"sampler": "tpee", "trials": 2, "space": SPACE}}, "did you mean 'tpe'"),
    ],
)  # fmt: skip
def test_faults_give_one_line_error(parts, message):
    with pytest.raises(InputError, match=message) as raised:
        parse_sweep("mine", changed(**parts), "mine.yaml")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", ["run: !!python/name:os.system", "run: [", "\x00"])
def test_error_names_file_that_is_not_yaml(content, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_file, "FOLDER", tmp_path)
    (tmp_path / "mine.yaml").write_text(content)
    with pytest.raises(InputError, match=rf"^{re.escape(str(tmp_path))}/mine\.yaml: not YAML of plain data") as raised:
        read_sweep(["+sweep=mine"])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("parts", "option"),
    [
        ({"defaults": {"reward": "my_bots:reward"}}, "reward=my_bots:reward"),
        ({"runs": {"A": {"description": "x", "changes": {"opponents": ["my_bots:M"]}}}}, "opponents=[my_bots:M]"),
        ({"runs": {"A": {"description": "x", "changes": {"against": "my_bots:M"}}}}, "against=my_bots:M"),
        (
            {"runs": None, "seeds": [0], "search": {"trials": 2, "space": {"reward": {"choices": ["my_bots:r"]}}}},
            "reward=my_bots:r",
        ),
    ],
)
def test_module_named_only_by_file_must_be_typed(parts, option, tmp_path, monkeypatch):
    """As for run files, naming a module runs its code."""
    monkeypatch.setattr(sweep_file, "FOLDER", tmp_path)
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(changed(expected=None, **parts)))
    trust = rf"^mine: .* runs the code of the module my_bots; if you trust it, add {re.escape(option)}$"
    with pytest.raises(InputError, match=trust):
        read_sweep(["+sweep=mine"])
    assert read_sweep(["+sweep=mine", option]).runs


def test_runs_seeds_and_typed_options():
    plan = read_sweep(["+sweep=mlp_stability", "seed=3,4", "runs=D,A", "grpo.steps=2", "launcher=local", "name=mine"])
    assert plan.labels == ["D-seed3", "D-seed4", "A-seed3", "A-seed4"]
    assert [(run.seed, run.grpo.steps, run.grpo.kl_beta) for run in plan.runs[:3]] == [
        (3, 2, 0.02), (4, 2, 0.02), (3, 2, 0.01),
    ]  # fmt: skip
    assert (plan.name, plan.launcher.name) == ("mine", "submitit_local")
