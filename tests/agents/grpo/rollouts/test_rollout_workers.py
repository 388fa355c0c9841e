"""Worker processes: they compute as the trainer does, and whatever they die or fail of is named."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from sparring.agents.grpo.rollouts import rollout_workers
from sparring.agents.grpo.rollouts.rollout_workers import Workers
from sparring.agents.grpo.rollouts.worker import RolloutError, RolloutJob, Worker
from sparring.configs.core.errors import InputError
from tests.agents.grpo.rollouts.small_games import plan_of, small_config

ROOT = Path(__file__).resolve().parents[4]


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

    def wait(self):
        time.sleep(2.0)
        return "waited"

    def play_for_long(self):
        time.sleep(300.0)

    def fault(self):
        raise ValueError("two\nlines")

    def refuse(self):
        raise InputError("model.name=x: is no model")

    def fall_silent(self):
        """End with exit code 7, but take longer for it than the closing of a pipe waits."""
        os.closerange(3, 1000)
        time.sleep(2.0)
        os._exit(7)


def play(players, step, what):
    players.submit(RolloutJob(SimpleNamespace(step=step, what=what), b""))
    return players.next()


@contextmanager
def workers(*options):
    players = Workers(small_config("grpo.workers=1", *options), Actor, pytest.fail)
    try:
        yield players
    finally:
        players.close()


def test_a_worker_computes_as_the_trainer_does_and_says_what_it_fails_of():
    with workers("threads=3", "deterministic=true") as players:
        assert play(players, 0, "report") == (3, True)
        with pytest.raises(RolloutError, match=r"^rollout of step 1: ValueError: two lines") as caught:
            play(players, 1, "fault")
        assert "in fault" in caught.value.__notes__[0]


def test_what_a_worker_refuses_is_refused_in_its_words():
    with workers() as players, pytest.raises(InputError, match=r"^model\.name=x: is no model$"):
        play(players, 2, "refuse")


def test_a_worker_plays_all_plans_before_a_result_is_requested():
    """One worker and four plans: the others are played when the first is taken, not when they are asked for."""
    with workers() as players:
        for step in range(4):
            players.submit(RolloutJob(SimpleNamespace(step=step, what="report"), b""))
        assert players.next()[0] == 1
        with players._changed:
            assert players._changed.wait_for(lambda: sorted(players._done) == [1, 2, 3], timeout=60.0)
        assert [players.next()[0] for _ in range(3)] == [1, 1, 1]


def test_a_worker_that_dies_is_heard_of_in_the_trainers_thread():
    heard = []
    config = small_config("grpo.workers=1")
    players = Workers(config, Actor, lambda text: heard.append((text, threading.current_thread())))
    try:
        players.submit(RolloutJob(SimpleNamespace(step=0, what="report"), b""))
        players.next()
        players.submit(RolloutJob(SimpleNamespace(step=1, what="wait"), b""))
        while players._workers[0].step is None:
            time.sleep(0.01)
        os.kill(players._workers[0].process.pid, signal.SIGKILL)
        assert players.next() == "waited"
    finally:
        players.close()
    assert players.restarts == 1
    line = "a worker process died in the rollout of step 1 (with exit code -9); another plays it again"
    assert heard == [(line, threading.main_thread())]


def test_the_exit_code_of_a_worker_that_dies_slowly_is_its_own(monkeypatch):
    monkeypatch.setattr(rollout_workers, "MOST_DEATHS", 1)
    with (
        workers() as players,
        pytest.raises(InputError, match="1 worker processes died of it, the last with exit code 7;"),
    ):
        play(players, 0, "fall_silent")


def test_a_worker_leaves_signals_to_the_trainer(tmp_path):
    """Sent to the whole group by a scheduler or a terminal, at any moment: the worker plays on."""
    worker = Worker(multiprocessing.get_context("spawn"), small_config(), Patient)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(worker.process.pid, number)
    worker.give(RolloutJob(plan_of(small_config()), b"weights"))
    assert worker.pipe.recv() == b"weights"
    os.kill(worker.process.pid, signal.SIGTERM)
    worker.give(RolloutJob(plan_of(small_config()), b"again"))
    assert worker.pipe.recv() == b"again"
    worker.end()
    assert not worker.process.is_alive()


def test_who_leaves_without_ending_its_workers_does_not_wait_for_them():
    """Though they leave SIGTERM, which a process sends its daemons when it ends, to the trainer."""
    leaving = (
        "import sys; from types import SimpleNamespace; "
        "from sparring.agents.grpo.rollouts.rollout_workers import Workers; "
        "from sparring.agents.grpo.rollouts.worker import RolloutJob; "
        "from tests.agents.grpo.rollouts.small_games import small_config; "
        "from tests.agents.grpo.rollouts.test_rollout_workers import Actor; "
        "players = Workers(small_config('grpo.workers=2'), Actor, print); "
        "players.submit(RolloutJob(SimpleNamespace(step=0, what='wait'), b'')); sys.exit(3)"
    )
    assert subprocess.run([sys.executable, "-c", leaving], cwd=ROOT, timeout=120, check=False).returncode == 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a process of its parent's end")
def test_a_busy_worker_ends_with_a_killed_trainer():
    """It would notice the end of the pipe only after its rollout."""
    training = (
        "import time; from types import SimpleNamespace; "
        "from sparring.agents.grpo.rollouts.rollout_workers import Workers; "
        "from sparring.agents.grpo.rollouts.worker import RolloutJob; "
        "from tests.agents.grpo.rollouts.small_games import small_config; "
        "from tests.agents.grpo.rollouts.test_rollout_workers import Actor; "
        "players = Workers(small_config('grpo.workers=1'), Actor, print); "
        "players.submit(RolloutJob(SimpleNamespace(step=0, what='report'), b'')); players.next(); "
        "players.submit(RolloutJob(SimpleNamespace(step=1, what='play_for_long'), b'')); time.sleep(1.0); "
        "print(players._workers[0].process.pid, flush=True); time.sleep(600)"
    )
    trainer = subprocess.Popen([sys.executable, "-c", training], cwd=ROOT, stdout=subprocess.PIPE)
    worker = int(trainer.stdout.readline())
    os.kill(worker, 0)  # raises if it is gone
    trainer.kill()
    trainer.wait()
    deadline = time.monotonic() + 20.0
    while Path(f"/proc/{worker}/cmdline").exists() and Path(f"/proc/{worker}/cmdline").read_bytes():
        assert time.monotonic() < deadline, "the worker plays on"
        time.sleep(0.05)


def test_the_first_worker_ignores_signals_like_the_others():
    """In a process of its own: with its first child comes one that tracks resources, and lets signals in."""
    looking = (
        "import multiprocessing; from pathlib import Path; from sparring.agents.grpo.rollouts.worker import Worker; "
        "from sparring.configs.schema import DiplomacyGRPORunConfig; "
        "from tests.agents.grpo.rollouts.test_rollout_workers import Patient; "
        "config, spawn = DiplomacyGRPORunConfig(), multiprocessing.get_context('spawn'); "
        "workers = [Worker(spawn, config, Patient) for _ in range(2)]; "
        "texts = [Path(f'/proc/{worker.process.pid}/status').read_text() for worker in workers]; "
        "print([line.split()[1] for text in texts for line in text.splitlines() if line.startswith('SigBlk')]); "
        "[worker.end() for worker in workers]"
    )
    answer = subprocess.run([sys.executable, "-c", looking], cwd=ROOT, timeout=120, check=True, capture_output=True)
    first, second = json.loads(answer.stdout.decode().replace("'", '"'))
    assert first == second
    assert int(first, 16) & 1 << signal.SIGINT - 1
    assert int(first, 16) & 1 << signal.SIGTERM - 1


def test_a_batch_that_is_there_is_given_though_a_later_one_failed():
    with workers() as players:
        for step, what in enumerate(("report", "fault")):
            players.submit(RolloutJob(SimpleNamespace(step=step, what=what), b""))
        with players._changed:
            assert players._changed.wait_for(lambda: players._error is not None, timeout=60.0)
        assert players.next()[0] == 1
        with pytest.raises(RolloutError, match="rollout of step 1"):
            players.next()


class Patient:
    """Answers with the weights it is given."""

    def __init__(self, config):
        pass

    def play(self, plan, weights):
        return weights

    def close(self):
        pass
