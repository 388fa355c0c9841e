"""Independent tasks in several processes, of this machine (concurrent.futures, spawned) or of a Ray cluster.

A task is an argument of one function of a module, which depends on nothing else; so results do not depend on the
number of processes or on the order in which they finish. A process that dies is replaced, and what it had not finished
is done again. Who calls `run_tasks` keeps each result as it comes, and gives only the missing tasks next time: so a
killed driver goes on where it was. With one local worker nothing is started, and the tasks are done here in order.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any, TypeVar

from sparring.configs.core.device import end_with_parent, usable_cores
from sparring.configs.core.errors import InputError, one_line

LOCAL, RAY = "local", "ray"
KINDS = (LOCAL, RAY)
MOST_DEATHS = 3
"""Deaths of workers in a row, without a finished task between them, after which the tasks are given up."""

REACHED_IN_S = 5.0

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class Executor:
    """Where tasks are done: `workers` processes of this machine, or the Ray cluster at `address`."""

    kind: str = LOCAL
    address: str = "auto"
    """Address of Ray's head, such as 10.0.0.1:6379; auto is the cluster that this machine belongs to."""
    workers: int = 1

    @property
    def alone(self) -> bool:
        """True if the tasks are done in this process."""
        return self.kind == LOCAL and self.workers == 1

    def threads(self, given: int) -> int:
        """Return the threads of a task that is `given` so many: 0, every core, is divided among local workers."""
        return given if given or self.alone or self.kind == RAY else max(usable_cores() // self.workers, 1)


HERE = Executor()


def run_tasks(
    function: Callable[[Task], Outcome], tasks: Sequence[Task], executor: Executor
) -> Iterator[tuple[Task, Outcome]]:
    """Yield each of `tasks` with its result as it is finished; without tasks nothing is started.

    Function, tasks and results must be picklable, unless the tasks are done here. Raises what the function raises, and
    `InputError` if workers keep dying or the cluster cannot be used. Closing the iterator ends the tasks in progress.
    """
    if not tasks:
        return iter(())
    if executor.alone:
        return ((task, function(task)) for task in tasks)
    return _in_ray(function, tasks, executor) if executor.kind == RAY else _in_pools(function, tasks, executor.workers)


def _in_pools(
    function: Callable[[Task], Outcome], tasks: Sequence[Task], workers: int
) -> Iterator[tuple[Task, Outcome]]:
    """Do the tasks in a pool, and what is left after a process died in another."""
    left, deaths = dict(enumerate(tasks)), 0
    while left:
        before = len(left)
        try:
            for number, result in _in_pool(function, left, min(workers, len(left))):
                yield left.pop(number), result
        except BrokenProcessPool as error:
            deaths = 1 if len(left) < before else deaths + 1
            if deaths >= MOST_DEATHS:
                raise InputError(
                    f"{MOST_DEATHS} worker processes died and none finished a task; give fewer workers if memory "
                    "ran out"
                ) from error


def _in_pool(
    function: Callable[[Task], Outcome], tasks: dict[int, Task], workers: int
) -> Iterator[tuple[int, Outcome]]:
    earlier = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(os.getpid(),))
    try:
        futures = {pool.submit(function, task): number for number, task in tasks.items()}
        pending: set[Future[Outcome]] = set(futures)
        broken: BrokenProcessPool | None = None
        while pending:
            finished, pending = wait(pending, return_when=FIRST_COMPLETED)
            for future in finished:
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    broken = error
                else:  # also of those that were finished when the pool broke
                    yield futures[future], future.result()
        if broken:
            raise broken
    except BaseException:
        for process in set(multiprocessing.active_children()) - earlier:
            process.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(parent: int) -> None:
    """Leave Ctrl-C to the driver, which ends this process, also by its own end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)


def _in_ray(
    function: Callable[[Task], Outcome], tasks: Sequence[Task], executor: Executor
) -> Iterator[tuple[Task, Outcome]]:
    """Do the tasks on a cluster, one processor each; Ray does those of a lost node again."""
    ray = connected(executor.address)
    remote = ray.remote(num_cpus=1, max_retries=MOST_DEATHS)(_on_node)
    own = version("sparring")
    pending = {remote.remote(own, function, task): task for task in tasks}
    try:
        while pending:
            (reference,), _ = ray.wait(list(pending), num_returns=1)
            try:
                result = ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from error
            except (ray.exceptions.WorkerCrashedError, ray.exceptions.ObjectLostError) as error:
                raise InputError(
                    f"executor ray: a task was lost {MOST_DEATHS + 1} times ({_line(error)}); look at the nodes' memory"
                ) from error
            yield pending.pop(reference), result
    finally:
        for reference in pending:
            ray.cancel(reference, force=True)


def _on_node(expected: str, function: Callable[[Task], Outcome], task: Task) -> Outcome:
    if (own := version("sparring")) != expected:
        raise InputError(f"executor ray: a node has Sparring {own}, the driver {expected}; install one version on all")
    return function(task)


def connected(address: str) -> Any:
    """Return the module ray, connected to the cluster at `address`.

    Raises `InputError` if it is not installed, or no cluster of the same versions answers there.
    """
    try:
        ray: Any = import_module("ray")
    except ModuleNotFoundError as error:
        raise InputError('executor ray needs ray: pip install -e ".[ray]", on every node') from error
    if not ray.is_initialized():
        try:
            _check_answers(address)
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (RuntimeError, OSError) as error:
            raise InputError(
                f"executor address {address}: no Ray cluster answers ({_line(error)}); start one with `ray start "
                "--head`, give its address, or use the executor local"
            ) from error
    return ray


def _check_answers(address: str) -> None:
    """Connect to HOST:PORT or ray://HOST:PORT once: Ray itself tries for ten minutes. Raises `OSError`."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(f"executor address {address}: must be auto, HOST:PORT or ray://HOST:PORT")
    socket.create_connection((host, int(port)), timeout=REACHED_IN_S).close()


def _line(error: BaseException) -> str:
    return one_line(str(error).partition("\n")[0])[:200].rstrip(". ")
