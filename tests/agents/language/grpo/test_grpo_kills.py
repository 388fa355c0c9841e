"""A GRPO run killed again and again ends as one that was never hurt: weights, metrics, league."""

import random
import signal
import time

import torch

from sparring.agents.language.grpo.trainer import GRPOTrainer
from tests.agents.faults import victims
from tests.agents.language.grpo.small_runs import events, in_process, rows, run, weights

OPTIONS = ("grpo.steps=5", "grpo.buffer_depth=1", "grpo.learning_rate=1e-2", "grpo.use_ema_reference=true")


def run_telling(toy, folder, name, sender):
    """A run that tells when it begins and when each row is written; games are planned ahead, and played in here."""
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
    """Everything the victim tells until it ends."""
    return list(iter(lambda: victims.told(receiver), None))


def test_a_run_killed_repeatedly_ends_with_the_same_bits(toy, tmp_path):
    process, receiver = victims.start_telling(run_telling, toy, tmp_path, "whole", out=tmp_path / "said")
    assert told_all(receiver) == [0, 1, 2, 3, 4, 5], (tmp_path / "said").read_text()
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
    assert len(rows(whole)) == 5
    assert rows(killed) == rows(whole)
    assert all(torch.equal(value, weights(killed)[name]) for name, value in weights(whole).items())
    assert (whole.parent / "league.json").read_bytes() == (killed.parent / "league.json").read_bytes()
    assert list((tmp_path / "killed").rglob(".*.tmp")) == []
