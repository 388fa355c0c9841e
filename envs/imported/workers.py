"""Worker processes that each step a share of the matches, and write to arrays in shared memory.

They are spawned, not forked, because a game may hold threads or a window, and this process a GPU. A step sends one
message to each worker and waits for all. Matches depend only on their index, so the results equal those of a single
process.
"""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import numpy as np

from sparring.configs.core.errors import ConfigError, InputError
from sparring.envs.imported.rows import SeatRows
from sparring.envs.imported.stepping import BatchArrays, BatchPlan, MatchStepper, StoredMatches

STOP_S = 5.0
"""Seconds that a worker has to close its games."""


class StepperWorkers:
    """The matches of a plan, stepped by `workers` processes, with the methods of `MatchStepper`.

    Raises `InputError` for invalid game output and for a killed worker; it cannot be used afterwards.
    """

    def __init__(self, plan: BatchPlan, rows: SeatRows, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._name, self._failure, self.workers = rows.name, "", workers
        bounds = np.linspace(0, plan.num_envs, workers + 1).astype(int).tolist()
        self._shares = [slice(first, last) for first, last in pairwise(bounds)]
        shape = (plan.num_envs, len(rows.seats), rows.action_size)
        sizes = BatchArrays.of(rows, plan.num_envs, lambda shape, kind: np.empty(shape, dtype=kind))
        memory = context.RawArray("b", sum(_padded(array.nbytes) for array in sizes) + int(np.prod(shape)) * 4)
        self.arrays, self._actions = _views(memory, rows, plan.num_envs)
        self._pipes: list[Connection] = []
        self._processes = []
        for share in self._shares:
            pipe, other = context.Pipe()
            process = context.Process(target=_serve, args=(other, plan, memory, share.start, share.stop), daemon=True)
            process.start()
            other.close()
            self._pipes.append(pipe)
            self._processes.append(process)
        self._collect()

    def step(self, actions: np.ndarray) -> None:
        """Make a move in every match with actions float32 [N, S, A]."""
        self._actions[:] = actions
        self._ask("step", [() for _ in self._shares])

    def restart(self, mask: np.ndarray) -> None:
        """Begin new matches in `mask` [N]."""
        self._ask("restart", [(mask[share],) for share in self._shares])

    def store(self) -> StoredMatches:
        """Return what `load` continues from."""
        parts: list[StoredMatches] = self._ask("store", [() for _ in self._shares])
        episodes, moves, actions = (np.concatenate([part[k] for part in parts]) for k in range(3))
        return StoredMatches(episodes, moves, actions, [digest for part in parts for digest in part.digests])

    def load(self, seed: int, first: int, stored: StoredMatches) -> list[bool]:
        """Play stored matches again; return which played otherwise."""
        ends = np.cumsum([0, *stored.moves])
        parts = [
            StoredMatches(
                stored.episodes[share],
                stored.moves[share],
                stored.actions[ends[share.start] : ends[share.stop]],
                stored.digests[share],
            )
            for share in self._shares
        ]
        answers = self._ask(
            "load", [(seed, first + share.start, part) for share, part in zip(self._shares, parts, strict=True)]
        )
        return [lost for answer in answers for lost in answer]

    def close(self) -> None:
        """Stop the workers."""
        for pipe in self._pipes:
            pipe.close()  # closing its pipe ends a worker
        for process in self._processes:
            process.join(STOP_S)
            if process.is_alive():
                process.kill()
                process.join()

    def _ask(self, name: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every worker; return the results."""
        if self._failure:
            raise InputError(f"{self._failure} (it cannot be continued)")
        for k, (pipe, values) in enumerate(zip(self._pipes, arguments, strict=True)):
            try:
                pipe.send((name, values))
            except (BrokenPipeError, ConnectionResetError):
                self._refuse_end(k)
        return self._collect()

    def _collect(self) -> list[Any]:
        """Return an answer of every worker; raise the first failure after all have answered."""
        answers, failures = [], []
        for k, pipe in enumerate(self._pipes):
            try:
                answer, error, trace = pipe.recv()
            except (EOFError, ConnectionResetError):
                self._refuse_end(k)
            answers.append(answer)
            failures += [(error, trace)] if error else []
        if failures:
            error, trace = failures[0]
            self._failure = str(error) if isinstance(error, InputError) else f"{self._name}: a worker failed"
            self.close()
            raise error if isinstance(error, InputError) else RuntimeError(f"in a worker of {self._name}:\n{trace}")
        return answers

    def _refuse_end(self, k: int) -> NoReturn:
        """Raise for a worker that has ended."""
        process, share = self._processes[k], self._shares[k]
        process.join(STOP_S)
        code = process.exitcode
        why = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        self._failure = (
            f"{self._name}: worker {k} of {len(self._processes)}, with matches {share.start} to {share.stop - 1}, was "
            f"ended {why}; look for a crash of the game, or for memory: fewer env.workers or env.num_envs need less"
        )
        self.close()
        raise InputError(self._failure)


def _padded(size: int) -> int:
    return -(-size // 64) * 64


def _views(memory: Any, rows: SeatRows, num_envs: int) -> tuple[BatchArrays, np.ndarray]:
    """Return the arrays of the batch and the actions [N, S, A] in shared memory."""
    start = 0

    def make(shape: tuple[int, ...], kind: Any) -> np.ndarray:
        nonlocal start
        count = int(np.prod(shape))
        view = np.frombuffer(memory, dtype=kind, count=count, offset=start).reshape(shape)
        start += _padded(count * np.dtype(kind).itemsize)
        return view

    arrays = BatchArrays.of(rows, num_envs, make)
    return arrays, make((num_envs, len(rows.seats), rows.action_size), np.float32)


def _serve(pipe: Connection, plan: BatchPlan, memory: Any, first: int, last: int) -> None:
    """Step matches `first` to `last` of a plan in this process, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    total, count = plan.num_envs, last - first
    calls: dict[str, Callable[..., Any]] = {}
    steppers: list[MatchStepper] = []

    def start() -> None:
        sample = plan.make_match()
        arrays, actions = _views(memory, plan.rows(sample), total)
        sample.close()
        share = replace(plan, num_envs=count, first=plan.first + first)
        stepper = MatchStepper(share, arrays.share(first, count))
        steppers.append(stepper)
        part = actions[first:last]
        calls.update(step=lambda: stepper.step(part), restart=stepper.restart, store=stepper.store, load=stepper.load)

    _answer(pipe, start)
    while True:
        try:
            name, values = pipe.recv()
        except EOFError:
            break
        _answer(pipe, partial(calls[name], *values))
    for stepper in steppers:
        stepper.close()


def _answer(pipe: Connection, call: Callable[[], Any]) -> None:
    """Send the result of a call, or its error and traceback; an error of bad input keeps its type and line."""
    try:
        message: tuple[Any, ...] = (call(), None, "")
    except (ConfigError, InputError) as error:
        message = (None, type(error)(str(error)), "")
    except Exception as error:
        message = (None, RuntimeError(str(error)), traceback.format_exc())
    try:
        pipe.send(message)
    except (BrokenPipeError, ConnectionResetError):
        raise SystemExit from None
