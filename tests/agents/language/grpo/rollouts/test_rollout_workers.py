"""Worker processes compute like the trainer, and their failures are reported."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import wait
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from sparring.agents.distributed import pools
from sparring.agents.language.grpo.rollouts.workers import RolloutError, Workers
from sparring.configs.core.errors import InputError
from tests.agents.language.grpo.rollouts.idle_players import Actor, Job, Patient, idle_config
from tests.agents.language.grpo.small_runs import warm_workers

ROOT = Path(__file__).resolve().parents[5]


def play(players, step, what):
    players.submit(Job(SimpleNamespace(step=step, what=what), b""))
    return players.next()


@pytest.fixture
def loaded(monkeypatch):
    """Fork workers from a preloaded process, since imports take seconds."""
    monkeypatch.setattr(pools, "multiprocessing", warm_workers())


@contextmanager
def workers(**options):
    players = Workers(idle_config(**options), Actor, pytest.fail)
    try:
        yield players
    finally:
        players.close()


def test_plans_run_ahead_and_fault_is_raised_in_order(loaded):
    """One worker and five plans: the others are already played when the first result is taken."""
    with workers(threads=3, deterministic=True) as players:
        for step, what in enumerate(("report", "report", "report", "fault")):
            players.submit(Job(SimpleNamespace(step=step, what=what), b""))
        assert players.next() == (3, True)  # it computes as the trainer does
        assert not wait([players._batches[3]], timeout=60.0).not_done
        assert all(batch.done() for batch in players._batches.values())
        assert [players.next() for _ in range(2)] == [(3, True)] * 2
        with pytest.raises(RolloutError, match=r"^rollout of step 3: ValueError: two lines") as caught:
            players.next()
        assert "in fault" in caught.value.__notes__[0]


def test_worker_error_is_raised_with_its_message(loaded):
    with workers() as players, pytest.raises(InputError, match=r"^model\.name=x: is no model$"):
        play(players, 2, "refuse")


def test_worker_death_is_reported_in_trainer_thread(loaded):
    heard = []
    config = idle_config()
    players = Workers(config, Actor, lambda text: heard.append((text, threading.current_thread())))
    try:
        players.submit(Job(SimpleNamespace(step=0, what="report"), b""))
        players.next()
        players.submit(Job(SimpleNamespace(step=1, what="wait"), b""))
        os.kill(players.pool.workers[0].process.pid, signal.SIGKILL)
        assert players.next() == "waited"
    finally:
        players.close()
    assert players.restarts == 1
    line = "a worker process died in the rollout of step 1 (with exit code -9); another repeats it"
    assert heard == [(line, threading.main_thread())]


def test_worker_ignores_signals(tmp_path):
    """A scheduler or terminal signals the whole group at any moment: the worker continues."""
    with closing(Workers(idle_config(), Patient, pytest.fail)) as players:
        worker = players.pool.workers[0]
        players.submit(Job(SimpleNamespace(step=0), b"weights"))
        while not worker.process:
            time.sleep(0.001)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(worker.process.pid, number)
        assert players.next() == b"weights"
        os.kill(worker.process.pid, signal.SIGTERM)
        players.submit(Job(SimpleNamespace(step=1), b"again"))
        assert players.next() == b"again"
    assert not worker.process.is_alive()


@pytest.fixture(scope="module")
def left():
    """A process that gives its two workers a job each, records their blocked signals, and exits."""
    leaving = (
        "import sys, time; from pathlib import Path; from types import SimpleNamespace; "
        "from sparring.agents.language.grpo.rollouts.workers import Workers; "
        "from tests.agents.language.grpo.rollouts.idle_players import Actor, Job, idle_config; "
        "players = Workers(idle_config(workers=2), Actor, print); "
        "[players.submit(Job(SimpleNamespace(step=step, what='play_for_long'), b'')) for step in range(2)]; "
        "[time.sleep(0.01) for worker in players.pool.workers for _ in iter(lambda: bool(worker.process), True)]; "
        "texts = [Path(f'/proc/{worker.process.pid}/status').read_text() for worker in players.pool.workers]; "
        "print([line.split()[1] for text in texts for line in text.splitlines() if line.startswith('SigBlk')]); "
        "sys.exit(3)"
    )
    return subprocess.run([sys.executable, "-c", leaving], cwd=ROOT, timeout=120, check=False, capture_output=True)


def test_exit_does_not_wait_for_workers(left):
    """They ignore SIGTERM, which a process sends to its daemons on exit."""
    assert left.returncode == 3, left.stderr


def test_first_worker_ignores_signals(left):
    """Run in a separate process: the first child starts a resource tracker, which unblocks signals."""
    first, second = json.loads(left.stdout.decode().replace("'", '"'))
    assert first == second
    assert int(first, 16) & 1 << signal.SIGINT - 1
    assert int(first, 16) & 1 << signal.SIGTERM - 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a process of its parent's end")
def test_busy_worker_exits_with_killed_trainer():
    """It would notice the closed pipe only after its rollout."""
    training = (
        "import time; from types import SimpleNamespace; "
        "from sparring.agents.language.grpo.rollouts.workers import Workers; "
        "from tests.agents.language.grpo.rollouts.idle_players import Actor, Job, idle_config; "
        "players = Workers(idle_config(), Actor, print); "
        "players.submit(Job(SimpleNamespace(step=0, what='report'), b'')); players.next(); "
        "players.submit(Job(SimpleNamespace(step=1, what='play_for_long'), b'')); time.sleep(1.0); "
        "print(players.pool.workers[0].process.pid, flush=True); time.sleep(600)"
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
