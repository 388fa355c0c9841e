"""A check that was cut continues bit for bit: the same rows, verdict and adapter."""

import pytest

pytest.importorskip("transformers")
pytest.importorskip("chess")

from sparring.agents.llm.models.adapters import load_adapter
from tests.agents.grpo.overfit.small_check import make_model, pay, run_check


def timeless(report):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in report["steps"]]


def test_cut_and_uncut_are_equal(tmp_path, monkeypatch):
    monkeypatch.setattr("sparring.envs.chess.rollouts.task.reward_of", pay)
    model = make_model(tmp_path)
    short = ("grpo.steps=5", "overfit.window=2")
    whole = run_check(model, tmp_path, "whole", *short)
    run_check(model, tmp_path, "cut", *short, "max_updates=2")
    cut = run_check(model, tmp_path, "cut", *short)
    assert cut[0] == whole[0]
    assert timeless(cut[1]) == timeless(whole[1])
    assert len(cut[1]["steps"]) == 5
    first, second = (load_adapter(tmp_path / name / "final.pt").weights for name in ("whole", "cut"))
    assert all(first[name].equal(second[name]) for name in first)
