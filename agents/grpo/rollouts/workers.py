"""Rollouts played by other processes while this one trains, a fixed number of steps ahead.

The batch of step t is played with the weights after step t - depth, regardless of worker speed, so runs are
reproducible; depth 0 plays in this process on demand. Unfinished plans and their weights are kept: a worker that dies
is replaced and its plan played again, and a training state holds them, so a resumed run continues identically.

Of several processes that train together, process t mod W plays the whole batch of step t, with workers of its own, and
sends it to the others (`SharedRollouts`): so the games do not depend on W.

The trainer reports bad input that a worker refuses; a fault in it ends the run with the traceback of that process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

from sparring.agents.distributed.processes import Processes
from sparring.configs.core.device import end_with_parent, make_deterministic, set_threads
from sparring.configs.core.errors import InputError, one_line
from sparring.configs.schema import GRPORunConfig

if TYPE_CHECKING:
    from sparring.agents.grpo.rollouts.rollout import AdapterRolloutWorker, RolloutBatch, RolloutJob

EXIT_TIMEOUT_S = 10.0
"""Seconds that an unresponsive process has to exit by itself, so that its exit code shows the cause."""
MOST_DEATHS = 3
JOIN_TIMEOUT_S = 2.0
"""Seconds that `close` waits for the collecting thread to finish."""


MakePlayer = Callable[[GRPORunConfig], "AdapterRolloutWorker"]


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
        self.pipe, worker_end = context.Pipe()
        self.process = context.Process(target=_work, args=(worker_end, config, make, os.getpid()), daemon=True)
        with _signals_held():
            self.process.start()
        worker_end.close()
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
        self.process.join(timeout=EXIT_TIMEOUT_S)
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
    player: AdapterRolloutWorker | None = None
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


class InProcess:
    """Depth 0: each batch is played in `next`."""

    def __init__(self, config: GRPORunConfig, make: MakePlayer) -> None:
        self._player = make(config)
        self.tasks: list[RolloutJob] = []
        self.restarts = 0

    def submit(self, task: RolloutJob) -> None:
        """Take a task; batches come out in the same order."""
        self.tasks.append(task)

    def next(self) -> RolloutBatch:
        """Play the oldest task and return its batch."""
        task = self.tasks.pop(0)
        return self._player.play(task.plan, task.weights)

    def close(self) -> None:
        """Release the player."""
        self._player.close()


class Workers:
    """Pool of `config.grpo.workers` processes, each with its own player; `alert` gets a line for each that dies.

    A thread collects finished batches and hands out the next plans, so workers never wait for the trainer while a
    plan is pending. Alerts and exceptions surface in `next`, in the trainer's thread.
    """

    def __init__(self, config: GRPORunConfig, make: MakePlayer, alert: Callable[[str], None]) -> None:
        self._config, self._make, self._alert = config, make, alert
        self.tasks: list[RolloutJob] = []
        self.restarts = 0
        self._done: dict[int, RolloutBatch] = {}
        self._deaths: dict[int, int] = {}
        self._news: list[str] = []
        self._error: Exception | None = None
        self._context = multiprocessing.get_context("spawn")
        self._workers = [self._begin() for _ in range(config.grpo.workers)]
        self._changed = Condition()
        self._bell, self._ring = self._context.Pipe(duplex=False)
        self._collector = Thread(target=self._keep_collecting, name="rollouts", daemon=True)
        self._collector.start()

    def submit(self, task: RolloutJob) -> None:
        """Take a task; batches come out in the same order."""
        with self._changed:
            self.tasks.append(task)
        self._ring.send(None)

    def next(self) -> RolloutBatch:
        """Wait for the batch of the oldest task and return it.

        Raises `InputError` if a worker refused its input or workers keep dying, `RolloutError` for a fault in a worker.
        """
        step = self.tasks[0].plan.step
        with self._changed:
            self._changed.wait_for(lambda: step in self._done or self._error is not None)
            while self._news:
                self._alert(self._news.pop(0))
            if step not in self._done and self._error is not None:
                raise self._error
            self.tasks.pop(0)
            return self._done.pop(step)

    def close(self) -> None:
        """Stop the collecting thread, then all workers, including busy ones."""
        self._ring.close()
        self._collector.join(timeout=JOIN_TIMEOUT_S)
        for worker in self._workers:
            worker.end()

    def _begin(self) -> Worker:
        return Worker(self._context, self._config, self._make)

    def _keep_collecting(self) -> None:
        """Collect batches until the bell is closed or an error occurs, which `next` raises."""
        while self._error is None and not self._ring.closed:
            busy = {worker.pipe: worker for worker in self._workers if worker.step is not None}
            ready = wait([self._bell, *busy])
            if self._bell in ready and not self._rung():
                return
            try:
                for pipe in ready:
                    if pipe is not self._bell:
                        self._collect(busy[pipe])
                self._hand_out()
            except Exception as error:  # any error ends the trainer
                self._error = error
            with self._changed:
                self._changed.notify_all()

    def _rung(self) -> bool:
        """Return True for a new task, False if the bell was closed."""
        try:
            self._bell.recv()
        except (EOFError, OSError):
            return False
        return True

    def _hand_out(self) -> None:
        """Hand pending jobs to idle workers."""
        started = {worker.step for worker in self._workers}
        with self._changed:
            waiting = [
                task for task in self.tasks if task.plan.step not in started and task.plan.step not in self._done
            ]
        idle = [worker for worker in self._workers if worker.step is None]
        for worker, task in zip(idle, waiting, strict=False):
            worker.give(task)

    def _collect(self, worker: Worker) -> None:
        step = worker.step
        assert step is not None
        try:
            answer = worker.pipe.recv()
        except (EOFError, OSError):
            if not self._ring.closed:
                self._replace(worker, step)
            return
        worker.step = None
        if isinstance(answer, Failure):
            raise answer.of(step)
        with self._changed:
            self._done[step] = answer

    def _replace(self, worker: Worker, step: int) -> None:
        """Replace a worker that died; raise `InputError` once its plan has killed `MOST_DEATHS` of them."""
        self._deaths[step] = self._deaths.get(step, 0) + 1
        cause = worker.cause_of_death()
        worker.end()
        if self._deaths[step] >= MOST_DEATHS:
            raise InputError(
                f"rollout of step {step}: {MOST_DEATHS} worker processes died of it, the last {cause}; "
                "lower grpo.groups or model.batch_size if memory ran out"
            )
        self.restarts += 1
        self._workers[self._workers.index(worker)] = self._begin()
        with self._changed:
            self._news.append(f"a worker process died in the rollout of step {step} ({cause}); another plays it again")


class SharedRollouts:
    """Rollouts of several `processes` that train together; all submit the same tasks and get the same batches.

    `open_players` starts this process's own, with a function for their alerts, which come with the next batch.
    """

    def __init__(
        self, processes: Processes, open_players: Callable[[Callable[[str], None]], InProcess | Workers]
    ) -> None:
        self._processes, self._alerts = processes, list[str]()
        self._players = open_players(self._alerts.append)
        self.tasks: list[RolloutJob] = []
        self.restarts = 0

    def submit(self, task: RolloutJob) -> None:
        """Take a task; batches come out in the same order."""
        self.tasks.append(task)
        if self._plays(task):
            self._players.submit(task)

    def next(self) -> RolloutBatch:
        """Return the batch of the oldest task, raising in all processes what its player raises for its work."""
        task = self.tasks[0]
        played = self._play() if self._plays(task) else None
        played = self._processes.broadcast(played, task.plan.step % self._processes.size)
        assert played is not None
        batch, restarts = played
        if isinstance(batch, Exception):
            raise batch
        self.restarts += restarts
        self.tasks.pop(0)
        return batch

    def close(self) -> None:
        """Release the players of this process."""
        self._players.close()

    def _plays(self, task: RolloutJob) -> bool:
        return task.plan.step % self._processes.size == self._processes.rank

    def _play(self) -> tuple[RolloutBatch | Exception, int]:
        """Return the next batch of this process, or what its player raised, and the workers replaced since the last."""
        before = self._players.restarts
        try:
            batch = self._players.next()
        except (InputError, RolloutError) as error:
            return error, 0
        batch.alerts[:0], self._alerts[:] = self._alerts, []
        return batch, self._players.restarts - before
