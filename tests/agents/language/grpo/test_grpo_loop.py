"""GRPO at toy size: it runs, reproduces, resumes bit for bit, and survives dying workers."""

import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch

from sparring.agents.distributed import pools
from sparring.agents.distributed.pools import PoolWorker
from sparring.agents.language.grpo.trainer import GRPOTrainer
from sparring.curriculum.league.file import LeagueFile
from tests.agents.faults import victims
from tests.agents.language.grpo.small_runs import events, in_process, rows, run, warm_workers, weights

ROOT = Path(__file__).resolve().parents[4]


def test_run_split_in_two_is_bit_equal(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(GRPOTrainer, "_new_players", in_process)
    options = ("grpo.buffer_depth=2", "grpo.steps=4", "grpo.use_ema_reference=true", "grpo.learning_rate=1e-2")
    whole = run(toy, tmp_path, "whole", *options)
    run(toy, tmp_path, "cut", *options, "max_updates=2")
    cut = run(toy, tmp_path, "cut", *options)
    assert all(torch.equal(value, weights(cut)[name]) for name, value in weights(whole).items())
    assert any(value.abs().max() > 0 for name, value in weights(whole).items() if "lora_B" in name)
    assert rows(whole) == rows(cut)
    assert len(rows(whole)) == 4
    assert [row["buffer/lag"] for row in rows(whole)] == [0, 1, 2, 2]
    assert (whole.parent / "league.json").read_bytes() == (cut.parent / "league.json").read_bytes()


def test_checkpoints_join_league_and_are_met(toy, tmp_path):
    shares = ["league.self_play=0", "league.peer=1", "league.exploitable=0", "league.baseline=0"]
    final = run(toy, tmp_path, "league", "grpo.steps=4", *shares, "league.dumbbot_game_probability=0")
    league = LeagueFile(final.parent).read()
    assert [agent.name for agent in league.of_kind("checkpoint")] == ["checkpoint_000002", "checkpoint_000004"]
    assert league["checkpoint_000002"].games > 0
    path = final.parent / league["checkpoint_000002"].path
    assert path.exists()
    page = (ROOT / "checkpoints/README.md").read_text(encoding="utf-8")
    assert f"`{path.name.replace('000002', '<steps>')}`" in page  # what files are called there is what they are called


def test_worker_death_does_not_change_results(toy, tmp_path, monkeypatch):
    killed = []
    begin = PoolWorker._begin

    def begin_and_kill(worker):
        pool = begin(worker)
        if not killed:
            killed.append(worker.process.pid)
            os.kill(worker.process.pid, signal.SIGKILL)
        return pool

    options = ("grpo.buffer_depth=1", "grpo.steps=2")
    with monkeypatch.context() as patch:
        patch.setattr(GRPOTrainer, "_new_players", in_process)
        whole = run(toy, tmp_path, "whole", *options)
    monkeypatch.setattr(pools, "multiprocessing", warm_workers())
    monkeypatch.setattr(PoolWorker, "_begin", begin_and_kill)
    hurt = run(toy, tmp_path, "hurt", *options)
    assert killed
    assert all(torch.equal(value, weights(hurt)[name]) for name, value in weights(whole).items())
    assert rows(hurt)[-1]["rollout/restarts"] == 1.0
    assert "another repeats it" in (hurt.parent / "events.jsonl").read_text()


OPTIONS = ("grpo.steps=4", "grpo.buffer_depth=1", "grpo.learning_rate=1e-2", "grpo.use_ema_reference=true")


def run_telling(toy, folder, name, sender):
    """Run and report the start and each written row; games are planned ahead and played in-process."""
    GRPOTrainer._new_players = in_process
    advance, restore = GRPOTrainer.advance, GRPOTrainer.restore_or_init

    def ready(trainer, session):
        restore(trainer, session)
        sender.send(trainer.updates_done)

    def telling(trainer):
        advance(trainer)
        sender.send(trainer.updates_done)

    GRPOTrainer.restore_or_init, GRPOTrainer.advance = ready, telling
    run(toy, folder, name, *OPTIONS)


def told_all(receiver):
    """Return everything the victim reports until it ends."""
    return list(iter(lambda: victims.told(receiver), None))


@pytest.mark.slow
def test_repeatedly_killed_run_is_bit_equal(toy, tmp_path):
    process, receiver = victims.start_telling(run_telling, toy, tmp_path, "whole", out=tmp_path / "said")
    assert told_all(receiver) == [0, 1, 2, 3, 4], (tmp_path / "said").read_text()
    process.join()
    rng, kills = random.Random(3), 0
    while True:
        process, receiver = victims.start_telling(run_telling, toy, tmp_path, "killed", out=tmp_path / "said")
        assert victims.told(receiver) is not None, (tmp_path / "said").read_text()
        started = time.perf_counter()
        if not victims.told(receiver):
            break
        time.sleep(rng.uniform(0.0, 1.0) * (time.perf_counter() - started))
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
    process.join()
    assert process.exitcode == 0, (tmp_path / "said").read_text()
    assert kills >= 2
    whole, killed = tmp_path / "whole" / "final.pt", tmp_path / "killed" / "final.pt"
    assert "damaged" not in events(killed)
    assert len(rows(whole)) == 4
    assert rows(killed) == rows(whole)
    assert all(torch.equal(value, weights(killed)[name]) for name, value in weights(whole).items())
    assert (whole.parent / "league.json").read_bytes() == (killed.parent / "league.json").read_bytes()
    assert list((tmp_path / "killed").rglob(".*.tmp")) == []
