"""A process that plays rollouts for the trainer, and the pipe to it.

It computes as the trainer does: with as many threads, in a fixed order if that is asked for. Bad input that is refused
there is the trainer's to say; a fault there ends the run with its name and the traceback of that process.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from typing import Any, Protocol

from sparring.agents.distributed.threads import make_deterministic, set_threads
from sparring.agents.grpo.rollouts.rollout import RolloutBatch
from sparring.configs.core.errors import InputError, one_line
from sparring.configs.schema import GRPORunConfig
from sparring.envs.text import RolloutPlan

LAST_WORDS = 10.0
"""Seconds that a process which no longer answers has to end by itself, so that its exit code tells why."""


class RolloutPlayer(Protocol):
    """Plays plans with given weights."""

    def play(self, plan: RolloutPlan, weights: bytes) -> RolloutBatch:
        """Play a plan; `weights` are the learner's, packed."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


MakePlayer = Callable[[GRPORunConfig], RolloutPlayer]


@dataclass(frozen=True)
class RolloutJob:
    """A plan and the weights to play it with."""

    plan: RolloutPlan
    weights: bytes


class RolloutError(RuntimeError):
    """A fault in a worker process; the message names it, and a note has the traceback there."""


@dataclass(frozen=True)
class Failure:
    """Why a worker has no batch: one line, and the traceback unless it was bad input that was refused."""

    line: str
    traceback: str = ""

    def of(self, step: int) -> InputError | RolloutError:
        """What to raise for it in the trainer."""
        if not self.traceback:
            return InputError(self.line)
        error = RolloutError(f"rollout of step {step}: {self.line}")
        error.add_note(f"in the worker process:\n{self.traceback}")
        return error


class Worker:
    """A process and the pipe to it; `step` is what it plays, None while it waits."""

    def __init__(self, context: Any, config: GRPORunConfig, make: MakePlayer) -> None:
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, config, make), daemon=True)
        with _signals_held():
            self.process.start()
        theirs.close()
        self._at_exit = Finalize(None, self.process.kill, exitpriority=1)  # for who leaves without `end`
        self.step: int | None = None

    def give(self, task: RolloutJob) -> None:
        """Let it play; if it is dead, `recv` will tell."""
        self.step = task.plan.step
        try:
            self.pipe.send(task)
        except OSError:
            return

    def cause_of_death(self) -> str:
        """How a process ended that no longer answers; asked before `end`, whose own signal would hide it."""
        self.process.join(timeout=LAST_WORDS)
        code = self.process.exitcode
        return "without an answer, still running" if code is None else f"with exit code {code}"

    def end(self) -> None:
        """Close the pipe, which ends it, and see to it that it is gone."""
        self.pipe.close()
        self.process.join(timeout=1.0)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self._at_exit.cancel()


def _work(pipe: Connection, config: GRPORunConfig, make: MakePlayer) -> None:
    """What a worker process does until its pipe closes; it leaves signals to the trainer, from its first moment on."""
    set_threads(config.threads)
    if config.deterministic:
        make_deterministic()
    player: RolloutPlayer | None = None
    try:
        while True:
            task = pipe.recv()
            answer: RolloutBatch | Failure
            try:
                player = player or make(config)
                answer = player.play(task.plan, task.weights)
            except Exception as error:  # whatever it is, the trainer ends with it
                answer = _failure(error)
            pipe.send(answer)
    except (EOFError, OSError):
        pass  # the trainer has closed the pipe, or is gone
    if player:
        player.close()


@contextmanager
def _signals_held() -> Iterator[None]:
    """Block interruption; a process that is started within is never interrupted.

    The resource tracker of multiprocessing is started first: it would otherwise be started with the first other
    process, and then let signals in.
    """
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _failure(error: Exception) -> Failure:
    if isinstance(error, InputError):
        return Failure(str(error))
    return Failure(one_line(f"{type(error).__name__}: {error}"), "".join(traceback.format_exception(error)))
