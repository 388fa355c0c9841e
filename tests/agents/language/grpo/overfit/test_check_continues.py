"""A check that was cut continues bit for bit: the same rows, verdict and adapter."""

import pytest

pytest.importorskip("transformers")
pytest.importorskip("chess")

from sparring.agents.language.models.adapters import load_adapter
from tests.agents.language.grpo.overfit.small_check import pay, run_check


def timeless(report):
    return [{key: value for key, value in row.items() if key != "seconds"} for row in report["steps"]]


def test_cut_and_uncut_are_equal(model, no_picture, tmp_path, monkeypatch):
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
