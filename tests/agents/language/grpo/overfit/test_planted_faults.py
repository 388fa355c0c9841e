"""The overfit check passes without faults and catches five planted faults by their own criteria."""

from importlib.util import find_spec

import pytest

pytest.importorskip("transformers")
pytest.importorskip("chess")

from sparring.agents.language.models.adapters import load_adapter
from tests.agents.language.grpo.overfit.faults import FAULTS
from tests.agents.language.grpo.overfit.small_check import failures, pay, run_check


@pytest.fixture(autouse=True)
def paid(monkeypatch):
    monkeypatch.setattr("sparring.envs.chess.rollouts.task.reward_of", pay)


def test_overfit_check_passes_without_fault(model, tmp_path):
    code, report = run_check(model, tmp_path, "good")
    assert failures(report) == []
    assert (code, report["verdict"]) == (0, "PASS")
    steps = report["steps"]
    assert steps[0]["before"] < steps[-1]["after"]
    assert [one["before"] for one in steps[1:]] == [one["after"] for one in steps[:-1]]
    assert [one["beta"] for one in steps[:3]] == [0.0, 0.0, 0.005]
    drawn = (tmp_path / "good" / "overfit.png").is_file()
    assert drawn == (find_spec("matplotlib") is not None)


@pytest.mark.usefixtures("no_picture")
def test_zero_learning_rate_fails(model, tmp_path):
    """The smallest allowed rate leaves every answer unchanged, and with sampling every draw."""
    code, report = run_check(model, tmp_path, "still", "grpo.learning_rate=1e-12", "overfit.greedy=false")
    assert (code, report["verdict"]) == (1, "FAIL")
    assert "reward slope" in failures(report)
    assert [one["after"] for one in report["steps"]] == [one["control"] for one in report["steps"]]


@pytest.mark.usefixtures("no_picture")
@pytest.mark.parametrize("fault", ["shuffled", "reference", "end"])
def test_planted_fault_fails_its_criterion(fault, model, tmp_path):
    with FAULTS[fault]():
        code, report = run_check(model, tmp_path, fault, *(["grpo.steps=8"] if fault == "end" else []))
    criterion = {"shuffled": "reward slope", "reference": "reference", "end": "end of text"}[fault]
    assert code == 1
    assert criterion in failures(report)
    assert fault != "reference" or failures(report) == [criterion]


@pytest.mark.parametrize("fault", ["mask", "dropout"])
def test_disagreeing_trainer_stops_run(fault, model, tmp_path):
    with FAULTS[fault]():
        assert run_check(model, tmp_path, fault) == (1, {})


def timeless(report):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in report["steps"]]


def test_interrupted_and_uninterrupted_runs_are_equal(model, no_picture, tmp_path, monkeypatch):
    monkeypatch.setattr("sparring.envs.chess.rollouts.task.reward_of", pay)
    short = ("grpo.steps=3", "overfit.window=2")  # the window reaches over the cut
    whole = run_check(model, tmp_path, "whole", *short)
    run_check(model, tmp_path, "cut", *short, "max_updates=1")
    cut = run_check(model, tmp_path, "cut", *short)
    assert cut[0] == whole[0]
    assert timeless(cut[1]) == timeless(whole[1])
    assert len(cut[1]["steps"]) == 3
    first, second = (load_adapter(tmp_path / name / "final.pt").weights for name in ("whole", "cut"))
    assert all(first[name].equal(second[name]) for name in first)
