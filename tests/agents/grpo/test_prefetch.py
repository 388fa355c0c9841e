"""Worker processes: they compute as the trainer does, and whatever they die or fail of is named."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import wait
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from agents.grpo import prefetch
from agents.grpo.prefetch import Workers
from agents.grpo.worker import RolloutError, Task, Worker
from configs.names import InputError
from tests.agents.grpo.small_games import plan_of, small_config

ROOT = Path(__file__).resolve().parents[3]


class Actor:
    """Plays nothing, and does what the plan says instead."""

    def __init__(self, config):
        pass

    def play(self, plan, weights):
        return getattr(self, plan.what)()

    def close(self):
        pass

    def report(self):
        return torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()

    def fault(self):
        raise ValueError("two\nlines")

    def refuse(self):
        raise InputError("model.name=x: is no model")

    def fall_silent(self):
        """End with exit code 7, but take longer for it than anybody waits who closes a pipe."""
        os.closerange(3, 1000)
        time.sleep(2.0)
        os._exit(7)


def workers(*options):
    return Workers(small_config("grpo.workers=1", *options), Actor, pytest.fail)


def play(players, step, what):
    players.submit(Task(SimpleNamespace(step=step, what=what), b""))
    return players.next()


def test_a_worker_computes_as_the_trainer_does_and_says_what_it_fails_of():
    players = workers("threads=3", "deterministic=true")
    try:
        assert play(players, 0, "report") == (3, True)
        with pytest.raises(RolloutError, match=r"^rollout of step 1: ValueError: two lines") as caught:
            play(players, 1, "fault")
        assert "in fault" in caught.value.__notes__[0]
        players.tasks.clear()
        with pytest.raises(InputError, match=r"^model\.name=x: is no model$"):
            play(players, 2, "refuse")
    finally:
        players.close()


def test_a_worker_plays_the_next_batch_while_nobody_waits_for_it():
    """One worker and two plans: it gets the second when it has played the first, not when that is asked for."""
    players = workers()
    try:
        for step in range(2):
            players.submit(Task(SimpleNamespace(step=step, what="report"), b""))
        players.next()
        (worker,) = players._workers
        assert wait([worker.pipe], timeout=60.0) == [worker.pipe]
        assert (worker.pipe.recv()[0], worker.step) == (1, 1)
    finally:
        players.close()


def test_the_exit_code_of_a_worker_that_dies_slowly_is_its_own(monkeypatch):
    monkeypatch.setattr(prefetch, "MOST_DEATHS", 1)
    players = workers()
    try:
        with pytest.raises(InputError, match="1 worker processes died of it, the last with exit code 7;"):
            play(players, 0, "fall_silent")
    finally:
        players.close()


def test_a_worker_leaves_signals_to_the_trainer(tmp_path):
    """Sent to the whole group by a scheduler or a terminal, at any moment: the worker plays on."""
    worker = Worker(multiprocessing.get_context("spawn"), small_config(), Patient)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(worker.process.pid, number)
    worker.give(Task(plan_of(small_config(), folder=tmp_path), b"weights"))
    assert worker.pipe.recv() == b"weights"
    os.kill(worker.process.pid, signal.SIGTERM)
    worker.give(Task(plan_of(small_config(), folder=tmp_path), b"again"))
    assert worker.pipe.recv() == b"again"
    worker.end()
    assert not worker.process.is_alive()


def test_who_leaves_without_ending_its_workers_does_not_wait_for_them():
    """Though they leave SIGTERM, which a process sends its daemons when it ends, to the trainer."""
    leaving = (
        "import multiprocessing; from agents.grpo.worker import Worker; from configs.schema import RunConfig; "
        "from tests.agents.grpo.test_prefetch import Patient; "
        "worker = Worker(multiprocessing.get_context('spawn'), RunConfig(), Patient)"
    )
    assert subprocess.run([sys.executable, "-c", leaving], cwd=ROOT, timeout=120, check=False).returncode == 0


class Patient:
    """Answers with the weights it is given."""

    def __init__(self, config):
        pass

    def play(self, plan, weights):
        return weights

    def close(self):
        pass
