"""One of two processes is killed or signalled: the run saves, stops, and resumes in one process."""

import json
import os
import signal
import time
from dataclasses import replace

import pytest

from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.agents.trainers import train
from sparring.configs.schema import PhaseConfig, StageConfig
from tests.agents.distributed.launch_processes import end, start
from tests.agents.ppo.small_run import config, metrics

ENDLESS = [PhaseConfig("curriculum", 100_000, stages=[StageConfig(bots=["ace"])])]


def endless(folder, **options):
    return replace(config(folder, phases=ENDLESS), checkpoint_every=100_000, **options)


@pytest.fixture
def two(tmp_path):
    """Start two processes in the middle of a long run."""
    members = start(endless(tmp_path), 2, tmp_path)
    rows = tmp_path / "small" / "metrics.jsonl"
    while not rows.exists() or rows.read_text().count("\n") < 3:
        assert [process.exitcode for process, _ in members] == [None, None], end(members)
        time.sleep(0.01)
    yield members
    for process, _ in members:
        process.kill()


def final(root):
    return load_checkpoint(root / "small" / "final.pt").training


def test_killed_process_leaves_resumable_checkpoint(two, tmp_path, capsys):
    two[1].process.kill()
    (code, out), (killed, _) = end(two)
    assert (code, killed) == (75, -signal.SIGKILL)
    assert "process 0 of 2: another process of the run is gone" in out
    assert "continue with: python train.py resume=small" in out
    updates, rows = final(tmp_path)["update"], len(metrics(tmp_path))
    assert final(tmp_path)["interrupted"]
    assert updates == rows >= 2
    train(endless(tmp_path, max_updates=updates + 1))
    said = capsys.readouterr().out
    assert f"resumed after update {updates} from update_{updates:06d}" in said
    assert "the matches were lost with a process and start again" in said
    assert len(metrics(tmp_path)) == final(tmp_path)["update"] == updates + 1


def test_surviving_process_saves_policy_if_first_is_killed(two, tmp_path):
    two[0].process.kill()
    (killed, _), (code, out) = end(two)
    assert (killed, code) == (-signal.SIGKILL, 75)
    assert "the policy after" in out
    assert final(tmp_path)["update"] >= 2


def test_signal_to_any_process_stops_all_after_same_update(two, tmp_path):
    os.kill(two[1].process.pid, signal.SIGTERM)
    (first, out), (second, _) = end(two)
    assert (first, second) == (75, 75)
    assert "interrupted after" in out
    (state,) = sorted((tmp_path / "small" / "state").glob("update_*[1-9]*"))
    summary = json.loads((state / "manifest.json").read_text())["summary"]
    assert summary["episodes"]
    assert summary["update"] == final(tmp_path)["update"] == len(metrics(tmp_path))
