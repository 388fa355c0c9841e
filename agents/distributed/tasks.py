"""Independent tasks in several processes, of this machine (concurrent.futures, spawned) or of a Ray cluster.

A task is an argument of one function of a module, which depends on nothing else; so results do not depend on the
number of processes or on the order in which they finish. A process that dies is replaced, and what it had not finished
is done again. With one local worker nothing is started, and the tasks are done here in order.

`run_tasks` yields results as they come, `follow_tasks` shows a bar over them, and `finish_tasks` returns all in the
order of the tasks. Results that are kept, in a file (`KeptResults`) or in another form by the caller, are not computed
again after the driver was killed.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError
from tqdm import tqdm

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
    threads: int = 0
    """CPU threads of a task; 0: every core, divided among local workers, and one on a cluster."""

    @property
    def alone(self) -> bool:
        """True if the tasks are done in this process."""
        return self.kind == LOCAL and self.workers == 1

    @property
    def task_threads(self) -> int:
        """CPU threads of a task; 0, every core, only if the tasks are done in this process."""
        if self.threads or self.alone:
            return self.threads
        return 1 if self.kind == RAY else max(usable_cores() // self.workers, 1)


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
    return _in_ray(function, tasks, executor) if executor.kind == RAY else _in_pools(function, tasks, executor)


def follow_tasks(
    function: Callable[[Task, tqdm[NoReturn]], Outcome],
    tasks: Sequence[Task],
    executor: Executor,
    *,
    label: Callable[[Task], str],
    sizes: Sequence[int] = (),
    done: int = 0,
    quiet: bool = False,
    **bar: Any,
) -> Iterator[tuple[int, Outcome]]:
    """Yield the number and the result of each task as it is finished, under a bar with the time that is left.

    The bar counts tasks, or their `sizes`, after what was `done` before; `bar` are options of tqdm. It is the second
    argument of the function, which can move it while a task is done here; in another process it is one without effect.
    """
    sizes = sizes or [1] * len(tasks)
    with tqdm(total=done + sum(sizes), initial=done, disable=quiet, **bar) as shown:
        if not executor.alone:
            for (number, task), outcome in run_tasks(partial(_unseen, function), [*enumerate(tasks)], executor):
                shown.set_description(label(task), refresh=False)
                shown.update(sizes[number])
                yield number, outcome
            return
        for number, task in enumerate(tasks):
            shown.set_description(label(task))
            done += sizes[number]
            outcome = function(task, shown)
            shown.update(done - shown.n)
            yield number, outcome


def _unseen(function: Callable[[Task, tqdm[NoReturn]], Outcome], task: tuple[int, Task]) -> Outcome:
    """Do a numbered task where there is no bar."""
    return function(task[1], tqdm(disable=True))


class KeptResults(Generic[Outcome]):
    """Results of finished tasks, one a line of a file beside the results of a command; a damaged line is left out."""

    def __init__(self, path: Path, kind: type[Outcome]) -> None:
        self.path, self._form = path, TypeAdapter(kind)

    def read(self) -> dict[str, Outcome]:
        """Return the results by the keys of their tasks."""
        results: dict[str, Outcome] = {}
        for line in self.path.read_bytes().splitlines() if self.path.is_file() else ():
            try:
                kept = json.loads(line)
                results[kept["key"]] = self._form.validate_python(kept["result"])
            except (ValueError, TypeError, KeyError, ValidationError):
                continue  # cut off when the command was killed
        return results

    def add(self, key: str, outcome: Outcome) -> None:
        """Keep a result. Raises `InputError` if the file cannot be written."""
        line = json.dumps({"key": key, "result": self._form.dump_python(outcome, mode="json")})
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"\n{line}\n")  # after a line that was cut off
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror}); give another --out") from error

    def discard(self) -> None:
        """Remove the file, once the results are complete."""
        self.path.unlink(missing_ok=True)


def finish_tasks(
    function: Callable[[Task, tqdm[NoReturn]], Outcome],
    tasks: Sequence[Task],
    executor: Executor,
    *,
    sizes: Sequence[int] = (),
    kept: KeptResults[Outcome] | None = None,
    keys: Sequence[str] = (),
    **follow: Any,
) -> list[Outcome]:
    """Return the results in the order of the tasks; see `follow_tasks`.

    With `kept`, each result is kept under the key of its task, unless that is empty, until all are there.
    """
    sizes = sizes or [1] * len(tasks)
    stored = kept.read() if kept else {}
    results = {number: stored[key] for number, key in enumerate(keys) if key in stored}
    left = [number for number in range(len(tasks)) if number not in results]
    done = sum(sizes[number] for number in results)
    own = [tasks[number] for number in left], executor
    for index, outcome in follow_tasks(function, *own, sizes=[sizes[number] for number in left], done=done, **follow):
        results[left[index]] = outcome
        if kept and (key := keys[left[index]]):
            kept.add(key, outcome)
    if kept:
        kept.discard()
    return [results[number] for number in range(len(tasks))]


def _in_pools(
    function: Callable[[Task], Outcome], tasks: Sequence[Task], executor: Executor
) -> Iterator[tuple[Task, Outcome]]:
    """Do the tasks in a pool, and what is left after a process died in another."""
    left, deaths = {number: _packed(function, task) for number, task in enumerate(tasks)}, 0
    while left:
        before = len(left)
        try:
            for number, result in _in_pool(left, min(executor.workers, len(left)), executor.task_threads):
                del left[number]
                yield tasks[number], pickle.loads(result)
        except BrokenProcessPool as error:
            deaths = 1 if len(left) < before else deaths + 1
            if deaths >= MOST_DEATHS:
                raise InputError(
                    f"{MOST_DEATHS} worker processes died and none finished a task; give fewer workers if memory "
                    "ran out"
                ) from error


def _in_pool(packed: dict[int, bytes], workers: int, threads: int) -> Iterator[tuple[int, bytes]]:
    earlier = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(os.getpid(), threads))
    try:
        futures = {pool.submit(_done, task): number for number, task in packed.items()}
        pending: set[Future[bytes]] = set(futures)
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


def _begin(parent: int, threads: int) -> None:
    """Leave Ctrl-C to the driver, which ends this process, also by its own end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)
    _use_threads(threads)


def _use_threads(count: int) -> None:
    """Set the number of threads of torch, which a worker loads later if at all."""
    os.environ["OMP_NUM_THREADS"] = str(count)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(count)


def _packed(function: Callable[[Task], Outcome], task: Task) -> bytes:
    """Return a function and its argument as bytes, without the shared memory that torch gives its queues."""
    try:
        return pickle.dumps((function, task))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InputError(
            f"executor: a task cannot be sent to another process ({_line(error)}); leave out workers and executor"
        ) from error


def _done(packed: bytes) -> bytes:
    """Do a task in a worker."""
    try:
        function, task = pickle.loads(packed)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"executor: a worker cannot import what a task needs ({_line(error)}); put it on PYTHONPATH of every worker"
        ) from error
    return pickle.dumps(function(task))


def _in_ray(
    function: Callable[[Task], Outcome], tasks: Sequence[Task], executor: Executor
) -> Iterator[tuple[Task, Outcome]]:
    """Do the tasks on a cluster, one processor each; Ray does those of a lost node again."""
    ray = connected(executor.address)
    remote = ray.remote(num_cpus=1, max_retries=MOST_DEATHS)(_on_node)
    own = version("sparring")
    pending = {remote.remote(own, executor.task_threads, _packed(function, task)): task for task in tasks}
    try:
        while pending:
            (reference,), _ = ray.wait(list(pending), num_returns=1)
            try:
                result = pickle.loads(ray.get(reference))
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


def _on_node(expected: str, threads: int, packed: bytes) -> bytes:
    if (own := version("sparring")) != expected:
        raise InputError(f"executor ray: a node has Sparring {own}, the driver {expected}; install one version on all")
    _use_threads(threads)
    return _done(packed)


def connected(address: str) -> Any:
    """Return the module ray, connected to the cluster at `address`.

    Raises `InputError` if it is not installed, or no cluster of the same versions answers there.
    """
    try:
        ray: Any = import_module("ray")
    except ModuleNotFoundError as error:
        raise InputError("executor ray needs ray: `sparring install ray`, on every node") from error
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
