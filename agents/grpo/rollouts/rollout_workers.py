"""Rollouts played by other processes while this one trains, a fixed number of steps ahead.

The batch of step t is played with the weights after step t - depth, regardless of worker speed, so runs are
reproducible; depth 0 plays in this process on demand. Unfinished plans and their weights are kept: a worker that dies
is replaced and its plan played again, and a training state holds them, so a resumed run continues identically.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import wait
from threading import Condition, Thread

from sparring.agents.grpo.rollouts.rollout import RolloutBatch
from sparring.agents.grpo.rollouts.worker import Failure, MakePlayer, RolloutJob, Worker
from sparring.configs.core.errors import InputError
from sparring.configs.schema import GRPORunConfig

MOST_DEATHS = 3
PATIENCE = 2.0
"""Seconds that `close` waits for the collecting thread to finish."""


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
        self._collector.join(timeout=PATIENCE)
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
