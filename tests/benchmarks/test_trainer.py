"""Every contestant runs and accounts for its time, and the table divides what it says it divides."""

import pytest

from benchmarks import trainer

SMALL = ["env.num_envs=8", "ppo.rollout_steps=16", "ppo.minibatch_size=64", "network.hidden=8", "threads=1"]


@pytest.mark.parametrize("name", ["ours fp32", "SB3", "plain loop", "floor"])
def test_a_contestant_accounts_for_every_update(name, tmp_path):
    options = [*trainer.OPTIONS, *SMALL, "max_updates=2", f"checkpoint_dir={tmp_path}"]
    updates = trainer.CONTESTANTS[name](options)
    assert len(updates) == 2
    for parts in updates:
        assert parts["steps"] == 8 * 16
        spent = parts["simulate"] + parts["act"] + parts["learn"]
        assert 0 < spent <= parts["total"] + 1e-9
        assert (parts["simulate"] == 0) == (name == "floor")
        assert min(parts["act"], parts["learn"]) > 0


def test_a_row_compares_with_sb3_and_with_the_floor():
    part = {"steps": 100.0, "simulate": 0.5, "act": 0.5, "learn": 0.75, "peak": 10.0}
    medians = {name: part | {"total": total} for name, total in (("SB3", 4.0), ("ours", 2.0), ("floor", 1.0))}
    assert trainer.row("ours", medians) == ["ours", "50", "2.00", "50%", "0.50", "0.50", "0.75", "0.25", "10"]


def test_medians_are_taken_part_by_part():
    assert trainer.middle([{"a": 1.0, "b": 9.0}, {"a": 3.0, "b": 7.0}, {"a": 2.0, "b": 8.0}]) == {"a": 2.0, "b": 8.0}
