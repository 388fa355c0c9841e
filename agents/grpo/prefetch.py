"""Rollouts played by other processes while this one trains, a fixed number of steps ahead.

The batch of step t is played with the weights after step t - depth, whichever worker is how fast, so that a run is the
same every time; depth 0 plays in this process when asked. Plans and weights of what is under way are kept: a worker
that dies is replaced and its plan played again, and a training state holds them, so that a resumed run goes on alike.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from agents.grpo.plan import RolloutPlan
from agents.grpo.rollout import RolloutBatch
from configs.names import InputError
from configs.schema import RunConfig

MOST_DEATHS = 3


class Player(Protocol):
    """Plays plans with given weights."""

    def play(self, plan: RolloutPlan, weights: bytes) -> RolloutBatch:
        """Play a plan; `weights` are the learner's, packed."""
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


MakePlayer = Callable[[RunConfig], Player]


@dataclass(frozen=True)
class Task:
    """A plan and the weights to play it with."""

    plan: RolloutPlan
    weights: bytes


class InProcess:
    """Depth 0: plays when the batch is asked for."""

    def __init__(self, config: RunConfig, make: MakePlayer) -> None:
        self._player = make(config)
        self.tasks: list[Task] = []
        self.restarts = 0

    def submit(self, task: Task) -> None:
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
    """`config.grpo.workers` processes, each with a player of its own; `alert` hears of those that die."""

    def __init__(self, config: RunConfig, make: MakePlayer, alert: Callable[[str], None]) -> None:
        self._config, self._make, self._alert = config, make, alert
        self.tasks: list[Task] = []
        self.restarts = 0
        self._done: dict[int, RolloutBatch] = {}
        self._deaths: dict[int, int] = {}
        self._context = multiprocessing.get_context("spawn")
        self._workers = [self._begin() for _ in range(config.grpo.workers)]

    def submit(self, task: Task) -> None:
        """Take a task; batches come out in the same order."""
        self.tasks.append(task)
        self._hand_out()

    def next(self) -> RolloutBatch:
        """The batch of the oldest task, once it has been played.

        Raises `InputError` for what the worker refused, or if workers keep dying of it.
        """
        step = self.tasks[0].plan.step
        while step not in self._done:
            self._hand_out()
            busy = [worker for worker in self._workers if worker.step is not None]
            ready = wait([worker.pipe for worker in busy])
            for worker in [worker for worker in busy if worker.pipe in ready]:
                self._collect(worker)
        self.tasks.pop(0)
        return self._done.pop(step)

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.end()

    def _begin(self) -> _Worker:
        return _Worker(self._context, self._config, self._make)

    def _hand_out(self) -> None:
        """Give the idle workers what nobody plays yet."""
        begun = {worker.step for worker in self._workers}
        open_tasks = [task for task in self.tasks if task.plan.step not in begun and task.plan.step not in self._done]
        idle = [worker for worker in self._workers if worker.step is None]
        for worker, task in zip(idle, open_tasks, strict=False):
            worker.give(task)

    def _collect(self, worker: _Worker) -> None:
        step = worker.step
        assert step is not None
        try:
            answer = worker.pipe.recv()
        except (EOFError, OSError):
            self._replace(worker, step)
            return
        worker.step = None
        if isinstance(answer, str):
            raise InputError(answer)
        self._done[step] = answer

    def _replace(self, worker: _Worker, step: int) -> None:
        """Another process for one that died, unless its plan seems to be the reason."""
        self._deaths[step] = self._deaths.get(step, 0) + 1
        worker.end()
        if self._deaths[step] >= MOST_DEATHS:
            raise InputError(
                f"rollout of step {step}: {MOST_DEATHS} worker processes died of it, the last with exit code "
                f"{worker.process.exitcode}; lower grpo.groups or model.batch_size if memory ran out"
            )
        self.restarts += 1
        self._workers[self._workers.index(worker)] = self._begin()
        self._alert(f"a worker process died in the rollout of step {step}; another plays it again")


class _Worker:
    """A process and the pipe to it; `step` is what it plays, None while it waits."""

    def __init__(self, context: Any, config: RunConfig, make: MakePlayer) -> None:
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, config, make), daemon=True)
        self.process.start()
        theirs.close()
        self.step: int | None = None

    def give(self, task: Task) -> None:
        """Let it play; if it is dead, `recv` will tell."""
        self.step = task.plan.step
        try:
            self.pipe.send(task)
        except OSError:
            return

    def end(self) -> None:
        """Close the pipe, which ends it, and see to it that it is gone."""
        self.pipe.close()
        self.process.join(timeout=1.0)
        if self.process.is_alive():
            self.process.terminate()
            self.process.join()


def _work(pipe: Connection, config: RunConfig, make: MakePlayer) -> None:
    """What a worker process does until its pipe closes; it leaves signals to the trainer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    player: Player | None = None
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            break
        try:
            player = player or make(config)
            pipe.send(player.play(task.plan, task.weights))
        except InputError as error:
            pipe.send(str(error))
    if player:
        player.close()
