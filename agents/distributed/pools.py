"""Pools of processes for tasks: of this machine (spawned), or of a Ray cluster.

A task is an argument of one function of a module. `pool.submit(function, task)` returns a future, so tasks need not all
be known at the start. A process that dies is replaced, and the task that it had is done again, the others go on. Tasks
and results are pickled here and nowhere else.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from importlib import import_module
from importlib.metadata import version
from multiprocessing import resource_tracker
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

from sparring.configs.core.device import RAY, Executor, end_with_parent
from sparring.configs.core.errors import InputError, one_line

MOST_DEATHS = 3
"""Deaths of workers in the same task after which it is given up."""

REACHED_IN_S = 5.0
EXIT_TIMEOUT_S = 10.0
"""Seconds that an unresponsive process has to exit by itself; its own exit code shows the cause."""
HELD = {signal.SIGINT, signal.SIGTERM}

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


class LostTaskError(InputError):
    """A task whose worker died every time."""


def open_pool(
    executor: Executor, *, holds_signals: bool = False, advice: str = "use fewer workers if memory ran out"
) -> LocalPool | RayPool:
    """Return a pool, which its user closes. It never does a task in this process.

    Local workers end on SIGTERM and leave Ctrl-C to this process; with `holds_signals` they leave both to it. `advice`
    ends the line of a `LostTaskError`.
    """
    if executor.kind == RAY:
        return RayPool(executor)
    return LocalPool(executor.workers, executor.task_threads, holds_signals, advice)


OnDeath = Callable[[str], None] | None
Job = tuple[bytes, Future[Any], OnDeath]
"""A packed task of a local pool, its result, and what is called with the cause each time it is done again."""


class LocalPool:
    """Processes of this machine, started when they are needed; tasks start in the order in which they are submitted.

    Each process is its own `concurrent.futures` pool, so a dying process ends only one task.
    """

    def __init__(self, workers: int, threads: int, holds_signals: bool, advice: str) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        resource_tracker.ensure_running()  # it would start with the first process and unblock the signals of its thread
        self.workers = [PoolWorker(self._jobs, advice, threads, holds_signals) for _ in range(workers)]
        # If it is never closed: before concurrent.futures waits for its processes, which it does before atexit.
        threading._register_atexit(self._kill)  # type: ignore[attr-defined]
        for worker in self.workers:
            worker.start()

    def submit(self, function: Callable[[Task], Outcome], task: Task, on_death: OnDeath = None) -> Future[Outcome]:
        """Return the future result; `on_death` is called, in another thread, with the way in which a worker ended.

        The future raises what the function raises, with a note of the worker's traceback, and `LostTaskError`.
        """
        future = Future[Outcome]()
        self._jobs.put((_packed(function, task), future, on_death))
        return future

    def close(self) -> None:
        """End the processes, busy ones too; futures without a result never get one."""
        self._kill()
        for _ in self.workers:
            self._jobs.put(None)
        for worker in self.workers:
            worker.join()

    def _kill(self) -> None:
        for worker in self.workers:
            worker.kill()


class PoolWorker(Thread):
    """Thread that has tasks done by a process of its own, and replaces it if it dies.

    The process ends with this thread (`end_with_parent`) and inherits its blocked signals.
    """

    def __init__(self, jobs: SimpleQueue[Job | None], advice: str, threads: int, holds_signals: bool) -> None:
        super().__init__(daemon=True)
        self._jobs, self._advice, self._options = jobs, advice, (threads, holds_signals)
        self._lock, self._closed, self._busy = Lock(), False, False
        self._pool: ProcessPoolExecutor | None = None
        self.process: Any = None

    def run(self) -> None:
        """Have tasks done until the pool is closed."""
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        while (job := self._jobs.get()) and not self._closed:
            packed, future, on_death = job
            self._mark(busy=True)
            try:
                future.set_result(self._outcome(packed, on_death))
            except BaseException as error:  # raised where the result is read
                future.set_exception(error)
            self._mark(busy=False)
        if self._pool:
            self._pool.shutdown()

    def kill(self) -> None:
        """End the process if it does a task, and begin no other; an idle one ends by itself with the thread."""
        with self._lock:
            self._closed = True
            if self.process and self._busy:
                self.process.kill()

    def _mark(self, *, busy: bool) -> None:
        with self._lock:
            self._busy = busy

    def _outcome(self, packed: bytes, on_death: OnDeath) -> Any:
        for death in range(1, MOST_DEATHS + 1):
            if self._closed:  # since the task was taken
                raise CancelledError
            try:
                done, answer = (self._pool or self._begin()).submit(_answer, packed).result()
            except BrokenProcessPool:
                if self._closed:
                    raise CancelledError from None
                cause = self._end()
                if on_death and death < MOST_DEATHS:
                    on_death(cause)
                continue
            if done:
                return pickle.loads(answer)
            raise answer
        raise LostTaskError(f"{MOST_DEATHS} worker processes died of it, the last {cause}; {self._advice}")

    def _begin(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(1, context, initializer=_prepare, initargs=(*self._options, os.getpid()))
        pid = self._pool.submit(os.getpid).result()
        with self._lock:
            self.process = next((child for child in multiprocessing.active_children() if child.pid == pid), None)
            if self._closed and self.process:
                self.process.kill()
        return self._pool

    def _end(self) -> str:
        """Leave a dead process; return how it ended."""
        process, self.process = self.process, None
        if self._pool:
            self._pool.shutdown()
        self._pool = None
        if process is None:
            return "while it began"
        process.join(timeout=EXIT_TIMEOUT_S)
        return f"with exit code {process.exitcode}"


def _prepare(threads: int, holds_signals: bool, parent: int) -> None:
    """Prepare a worker, which ends with process `parent`."""
    end_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not holds_signals:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
    if threads:
        _use_threads(threads)


def _answer(packed: bytes) -> tuple[bool, Any]:
    """Do a task in a worker; return True and the packed result, or False and the error."""
    try:
        return True, _done(packed)
    except BaseException as error:
        return False, _picklable(error)


def _picklable(error: BaseException) -> BaseException:
    """Return the error, or its text if another process could not read it."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


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
            f"executor: a task cannot be sent to another process ({_line(error)}); remove workers and executor"
        ) from error


def _done(packed: bytes) -> bytes:
    """Do a task in a worker."""
    try:
        function, task = pickle.loads(packed)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"executor: a worker cannot import what a task needs ({_line(error)}); put it on PYTHONPATH of every worker"
        ) from error
    try:
        return pickle.dumps(function(task))
    except Exception as error:
        if not isinstance(error, InputError):
            error.add_note(f"in the worker process:\n{traceback.format_exc()}")
        raise


class RayPool:
    """Tasks on a cluster, one processor each; Ray repeats the tasks of a lost node."""

    def __init__(self, executor: Executor) -> None:
        self._ray = connected(executor.address)
        remote = self._ray.remote(num_cpus=1, max_retries=MOST_DEATHS)(_on_node)
        self._begin = partial(remote.remote, version("sparring"), executor.task_threads)
        self._pending: set[Any] = set()

    def submit(self, function: Callable[[Task], Outcome], task: Task, on_death: OnDeath = None) -> Future[Outcome]:
        """Return the future result, as `LocalPool` does; Ray itself hears of deaths, and `on_death` does not."""
        reference, future = self._begin(_packed(function, task)), Future[Outcome]()
        self._pending.add(reference)
        reference.future().add_done_callback(partial(self._settle, reference, future))
        return future

    def close(self) -> None:
        """Cancel what is unfinished."""
        for reference in list(self._pending):
            self._ray.cancel(reference, force=True)

    def _settle(self, reference: Any, future: Future[Any], done: Future[bytes]) -> None:
        """Set the result that has come."""
        self._pending.discard(reference)
        errors = self._ray.exceptions
        try:
            future.set_result(pickle.loads(done.result()))
        except errors.RayTaskError as error:
            future.set_exception(error.cause)
        except (errors.WorkerCrashedError, errors.ObjectLostError) as error:
            lost = f"executor ray: a task was lost {MOST_DEATHS + 1} times ({_line(error)}); check the nodes' memory"
            future.set_exception(LostTaskError(lost))
        except Exception as error:
            future.set_exception(error)


def _on_node(expected: str, threads: int, packed: bytes) -> bytes:
    if (local := version("sparring")) != expected:
        raise InputError(f"executor ray: a node has Sparring {local}, the driver {expected}; install one on all")
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
        address = os.environ.get("RAY_ADDRESS", address) if address == "auto" else address
        try:
            _check_answers(address)
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except (RuntimeError, OSError) as error:
            raise InputError(
                f"executor address {address}: no Ray cluster answers ({_line(error)}); start one with `ray start "
                "--head`, set its address, or use the local executor"
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
