"""Rollouts played by other processes while this one trains, a fixed number of steps ahead.

The batch of step t is played with the weights after step t - depth, regardless of worker speed, so runs are
reproducible; depth 0 plays in this process on demand. Each is a task of a pool (`agents/distributed/pools.py`) on this
machine or a Ray cluster. Unfinished plans and their weights are kept: if a worker dies its plan is played again, and
a training state holds them, so a resumed run continues identically.

Of several processes that train together, process t mod W plays the whole batch of step t, with workers of its own, and
sends it to the others (`SharedRollouts`). So the games do not depend on W.

The trainer reports bad input that a worker refuses; a fault in it ends the run with the traceback of that process.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from sparring.agents.distributed.pools import LostTaskError, open_pool
from sparring.agents.distributed.processes import Processes
from sparring.configs.core.device import RAY, Executor, make_deterministic, set_threads
from sparring.configs.core.errors import InputError, one_line
from sparring.configs.language.runs import GRPORunConfig

if TYPE_CHECKING:
    from sparring.agents.language.grpo.rollouts.rollout import AdapterRolloutWorker, RolloutBatch, RolloutJob

MakePlayer = Callable[[GRPORunConfig], "AdapterRolloutWorker"]


class RolloutError(RuntimeError):
    """Fault in a worker process; the message names it, and a note has the traceback of that process."""


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
    """Players in other processes, each with a model of its own; `alert` gets a line for each that dies.

    `config.grpo.workers` of them are on this machine; a Ray cluster has as many as it has processors, and hears of
    deaths itself. They play while a plan is pending. Alerts and exceptions surface in `next`, in the trainer's thread.
    """

    def __init__(self, config: GRPORunConfig, make: MakePlayer, alert: Callable[[str], None]) -> None:
        grpo = config.grpo
        executor = Executor(grpo.executor, workers=grpo.workers, threads=config.threads)
        if executor.kind == RAY:
            config = replace(config, threads=executor.task_threads)
        advice = "lower grpo.groups or model.batch_size if memory ran out"
        self.pool = open_pool(executor, holds_signals=True, advice=advice)
        self._play, self._alert = partial(_play, uuid4().hex, config, make), alert
        self.tasks: list[RolloutJob] = []
        self.restarts = 0
        self._batches: dict[int, Future[RolloutBatch]] = {}
        self._deaths: list[str] = []

    def submit(self, task: RolloutJob) -> None:
        """Take a task; batches come out in the same order."""
        step = task.plan.step
        self.tasks.append(task)
        died = f"a worker process died in the rollout of step {step} ({{}}); another repeats it".format
        self._batches[step] = self.pool.submit(self._play, task, lambda cause: self._deaths.append(died(cause)))

    def next(self) -> RolloutBatch:
        """Wait for the batch of the oldest task and return it.

        Raises `InputError` if a worker refused its input or workers keep dying, `RolloutError` for a fault in a worker.
        """
        step = self.tasks[0].plan.step
        try:
            batch = self._batches[step].result()
        except LostTaskError as error:
            raise InputError(f"rollout of step {step}: {error}") from error
        except InputError:
            raise
        except Exception as error:  # any error ends the trainer
            raise _fault(step, error) from error
        finally:
            while self._deaths:
                self.restarts += 1
                self._alert(self._deaths.pop(0))
        self.tasks.pop(0)
        del self._batches[step]
        return batch

    def close(self) -> None:
        """Stop all workers, including busy ones."""
        self.pool.close()


_players: dict[str, AdapterRolloutWorker] = {}
"""In a worker: the player of the `Workers` that it last played for, by their name."""


def _play(workers: str, config: GRPORunConfig, make: MakePlayer, job: RolloutJob) -> RolloutBatch:
    """Play a job in a worker, which makes its player for the first one."""
    if workers not in _players:
        while _players:
            _players.popitem()[1].close()
        set_threads(config.threads)
        if config.deterministic:
            make_deterministic()
        _players[workers] = make(config)
    return _players[workers].play(job.plan, job.weights)


def _fault(step: int, error: Exception) -> RolloutError:
    """Return the error of a worker as one of the run, with its traceback."""
    fault = RolloutError(f"rollout of step {step}: {one_line(f'{type(error).__name__}: {error}')}")
    for note in getattr(error, "__notes__", ()):
        fault.add_note(note)
    return fault


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
