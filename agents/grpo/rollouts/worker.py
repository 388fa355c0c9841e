"""A process that plays rollouts for the trainer, and the pipe to it.

It uses the trainer's thread count and, if configured, deterministic algorithms. The trainer reports bad input that the
worker refuses; a fault in the worker ends the run with its name and the traceback of that process.
"""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from typing import Any, Protocol

from sparring.agents.distributed.threads import end_with_parent, make_deterministic, set_threads
from sparring.agents.grpo.rollouts.rollout import RolloutBatch
from sparring.configs.core.errors import InputError, one_line
from sparring.configs.schema import GRPORunConfig
from sparring.envs.text import RolloutPlan

LAST_WORDS = 10.0
"""Seconds that an unresponsive process has to exit by itself, so that its exit code shows the cause."""


class RolloutPlayer(Protocol):
    """Player of plans with given weights."""

    def play(self, plan: RolloutPlan, weights: bytes) -> RolloutBatch:
        """Play a plan; `weights` are the learner's packed weights."""
        ...

    def close(self) -> None:
        """Release its resources."""
        ...


MakePlayer = Callable[[GRPORunConfig], RolloutPlayer]


@dataclass(frozen=True)
class RolloutJob:
    """A plan and the weights to play it with."""

    plan: RolloutPlan
    weights: bytes


class RolloutError(RuntimeError):
    """Fault in a worker process; the message names it, and a note has the traceback of that process."""


@dataclass(frozen=True)
class Failure:
    """Reason why a worker has no batch: one line, and the traceback, empty for refused input."""

    line: str
    traceback: str = ""

    def of(self, step: int) -> InputError | RolloutError:
        """Return the exception to raise in the trainer."""
        if not self.traceback:
            return InputError(self.line)
        error = RolloutError(f"rollout of step {step}: {self.line}")
        error.add_note(f"in the worker process:\n{self.traceback}")
        return error


class Worker:
    """Worker process and the pipe to it; `step` is the step it plays, None while it is idle."""

    def __init__(self, context: Any, config: GRPORunConfig, make: MakePlayer) -> None:
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, config, make, os.getpid()), daemon=True)
        with _signals_held():
            self.process.start()
        theirs.close()
        self._at_exit = Finalize(None, self.process.kill, exitpriority=1)  # if `end` is never called
        self.step: int | None = None

    def give(self, task: RolloutJob) -> None:
        """Send a job to the worker; if it is dead, `recv` raises."""
        self.step = task.plan.step
        try:
            self.pipe.send(task)
        except OSError:
            return

    def cause_of_death(self) -> str:
        """Return how an unresponsive process ended; call it before `end`, whose signal would hide the cause."""
        self.process.join(timeout=LAST_WORDS)
        code = self.process.exitcode
        return "without an answer, still running" if code is None else f"with exit code {code}"

    def end(self) -> None:
        """Close the pipe, which stops the worker, and kill it if it does not exit within a second."""
        self.pipe.close()
        self.process.join(timeout=1.0)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self._at_exit.cancel()


def _work(pipe: Connection, config: GRPORunConfig, make: MakePlayer, parent: int) -> None:
    """Play jobs until the pipe closes or process `parent` ends; signals are blocked from the start.

    The trainer handles them.
    """
    end_with_parent(parent)
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
            except Exception as error:  # any error ends the trainer
                answer = _failure(error)
            pipe.send(answer)
    except (EOFError, OSError):
        pass  # the trainer has closed the pipe or exited
    if player:
        player.close()


@contextmanager
def _signals_held() -> Iterator[None]:
    """Block SIGINT and SIGTERM; a process started inside inherits the mask.

    The resource tracker of multiprocessing is started first: otherwise it would start with the first worker and
    unblock the signals.
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
