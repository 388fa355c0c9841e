"""Rollouts played by other processes while this one trains, a fixed number of steps ahead.

The batch of step t is played with the weights after step t - depth, whichever worker is how fast, so that a run is the
same every time; depth 0 plays in this process when asked. Plans and weights of what is under way are kept: a worker
that dies is replaced and its plan played again, and a training state holds them, so that a resumed run goes on alike.
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
"""Seconds that are waited for a batch to be taken in which is no longer wanted."""


class InProcess:
    """Depth 0: plays when the batch is asked for."""

    def __init__(self, config: GRPORunConfig, make: MakePlayer) -> None:
        self._player = make(config)
        self.tasks: list[RolloutJob] = []
        self.restarts = 0

    def submit(self, task: RolloutJob) -> None:
        """Take a task; batches come out in the same order."""
        self.tasks.append(task)

    def next(self) -> RolloutBatch:
        """The batch of the oldest task."""
        task = self.tasks.pop(0)
        return self._player.play(task.plan, task.weights)

    def close(self) -> None:
        """Release the player."""
        self._player.close()


class Workers:
    """`config.grpo.workers` processes, each with a player of its own; `alert` hears of those that die.

    A thread takes in what they have played and gives them their next plans, so that they never wait for the trainer
    while a plan is there. What is said and raised is said and raised in `next`, in the trainer's own thread.
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
        """The batch of the oldest task, once it has been played.

        Raises `InputError` for what a worker refused, or if workers keep dying of it; `RolloutError` for its faults.
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
        """End the collecting, then the workers, also those that hold it up."""
        self._ring.close()
        self._collector.join(timeout=PATIENCE)
        for worker in self._workers:
            worker.end()

    def _begin(self) -> Worker:
        return Worker(self._context, self._config, self._make)

    def _keep_collecting(self) -> None:
        """Until the bell is closed, or something went wrong that is the trainer's to raise."""
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
            except Exception as error:  # whatever it is, the trainer ends with it
                self._error = error
            with self._changed:
                self._changed.notify_all()

    def _rung(self) -> bool:
        """Whether there is a new task; else the bell was closed."""
        try:
            self._bell.recv()
        except (EOFError, OSError):
            return False
        return True

    def _hand_out(self) -> None:
        """Give the idle workers the jobs that no worker plays yet."""
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
        """Another process for one that died, unless its plan seems to be the reason."""
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
