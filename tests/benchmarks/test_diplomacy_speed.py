"""The Diplomacy speed scripts run and print complete tables; no figure is asserted."""

import sys

import pytest
import torch

pytest.importorskip("diplomacy", reason="the package diplomacy is not installed: pip install -e '.[peers]'")

from benchmarks import diplomacy
from sparring.envs.diplomacy.board import codes


def test_script_runs_and_writes_tables(tmp_path, monkeypatch):
    out = tmp_path / "speed.md"
    monkeypatch.setattr(sys, "argv", ["diplomacy.py", "--quick", "--out", str(out)])
    diplomacy.main()
    lines = out.read_text().splitlines()
    assert sum(line.startswith("| ") for line in lines) == 2 + 6 + 2 + 1 + 2 + 1 + 2 + 2
    assert any(line.startswith("| phases, whole loop") for line in lines)


def test_pool_holds_movement_phases_with_orders():
    pool = diplomacy.Pool(50, seed=1)
    assert len(pool.rows["phase"]) == 50
    assert set(pool.rows["phase"].tolist()) == {codes.SPRING, codes.FALL}
    assert torch.equal(pool.rows["orders"] != 0, pool.rows["units"] != 0)
    assert pool.rows["year"].max() > pool.rows["year"].min()


def test_speed_is_work_per_second_of_both_clocks(monkeypatch):
    class Counted(diplomacy.Work):
        def work(self):
            return 6

    clocks = {"thread_time": iter([1.0, 3.0]), "perf_counter": iter([10.0, 13.0])}
    for name, times in clocks.items():
        monkeypatch.setattr(diplomacy.time, name, lambda times=times: next(times))
    assert diplomacy.rate(Counted(), 1.0) == (3.0, 2.0)
