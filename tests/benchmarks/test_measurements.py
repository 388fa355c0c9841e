"""The measurement scripts run, print complete tables and compute their ratios; no figure is asserted."""

import sys

import pytest

from benchmarks import dogfight, trainer, training
from benchmarks.command import run_script
from benchmarks.report import table
from sparring.envs.dogfight import rules


def cells(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines()]


def test_table_has_header_rule_and_rows():
    assert cells(table(["a", "b"], [["x", "1"]])) == [["a", "b"], ["---", "---:"], ["x", "1"]]


def test_every_bot_is_measured_at_every_size():
    rows = cells(dogfight.against_numpy([3, 4], 0.0, "cpu"))[2:]
    assert [row[0] for row in rows] == [f"{matches} x {bot}" for matches in (3, 4) for bot in rules.BOTS]


def test_interfaces_are_compared_with_native_batch():
    _, _, *rows = cells(dogfight.interfaces([4], 0.0))
    assert [row[0] for row in rows] == ["VectorEnv, 4 matches", "gymnasium.make, one match"]
    assert all(float(figure.replace(",", "")) > 0 for row in rows for figure in row[1:3])


def test_parts_of_update_add_up():
    update = {
        "time/steps_per_second": 50.0,
        "time/rollout_seconds": 0.8,
        "time/update_seconds": 1.0,
        "time/simulator_share": 0.1,
    }
    assert training.parts(update, seconds=2.0) == pytest.approx((0.1, 0.3, 0.5, 0.1))
    assert training.row("name", [update] * 3, steps=100) == ["name", "50", "2.00", "10%", "30%", "50%", "10%"]


def test_unknown_run_is_rejected_in_one_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["training.py", "--runs", "quikstart"])
    assert run_script(training.main) == 2
    error = capsys.readouterr().err
    assert error.startswith("benchmarks/training.py: ")
    assert error.count("\n") == 1
    assert "did you mean 'quickstart'" in error


SMALL = ["env.num_envs=8", "ppo.rollout_steps=16", "ppo.minibatch_size=64", "network.hidden=8", "threads=1"]


@pytest.mark.parametrize("name", ["ours fp32", "floor"])
def test_contestant_accounts_for_every_update(name, tmp_path):
    options = [*trainer.OPTIONS, *SMALL, "max_updates=2", f"checkpoint_dir={tmp_path}"]
    updates = trainer.CONTESTANTS[name](options)
    assert len(updates) == 2
    for parts in updates:
        assert parts["steps"] == 8 * 16
        spent = parts["simulate"] + parts["act"] + parts["learn"]
        assert 0 < spent <= parts["total"] + 1e-9
        assert (parts["simulate"] == 0) == (name == "floor")
        assert min(parts["act"], parts["learn"]) > 0


def test_row_compares_with_sb3_and_floor():
    part = {"steps": 100.0, "simulate": 0.5, "act": 0.5, "learn": 0.75, "peak": 10.0}
    medians = {name: part | {"total": total} for name, total in (("SB3", 4.0), ("ours", 2.0), ("floor", 1.0))}
    assert trainer.row("ours", medians) == ["ours", "50", "2.00", "50%", "0.50", "0.50", "0.75", "0.25", "10"]
