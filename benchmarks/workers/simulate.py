"""Simulation of an executor with any number of workers, each on a core of its own, from recorded times.

A worker is ready after its start, takes the next task as soon as it has none, and the driver, which is one process,
sends tasks and takes results one after the other. So with W workers N tasks of mean t take at least
N t / W, and never less than N times the driver's seconds for a task, or the start and the longest task.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sparring.configs.core.errors import InputError


@dataclass(frozen=True)
class RecordedTask:
    """One task: its process, when it began and ended after the driver's start, and its processor time, in seconds."""

    workers: int
    process: int
    begin: float
    end: float
    processor: float
    games: int


@dataclass(frozen=True)
class Recording:
    """Tasks with some numbers of workers, and what the driver and the start of a worker cost, in seconds."""

    tasks: tuple[RecordedTask, ...]
    start: float
    """Processor time of a worker until its first task."""
    driver: float
    """Processor time of the driver for each task."""
    where: str
    """Machine, tasks and date."""

    def of(self, workers: int) -> list[RecordedTask]:
        """Return the tasks done with so many workers."""
        return [task for task in self.tasks if task.workers == workers]

    def rate(self, workers: int, *, started: bool = False) -> float:
        """Return the games per second of the clock until the last result, from the driver's start or the first task's.

        With `started` the start of the workers is left out.
        """
        tasks = self.of(workers)
        begin = min(task.begin for task in tasks) if started else 0.0
        return sum(task.games for task in tasks) / (max(task.end for task in tasks) - begin)

    def write(self, path: Path) -> None:
        """Write a line for the recording and one for each task."""
        head = {"start": self.start, "driver": self.driver, "where": self.where}
        lines = [head, *map(asdict, self.tasks)]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def read_recording(path: Path) -> Recording:
    """Read a file of `Recording.write`. Raises `InputError` for another."""
    try:
        head, *tasks = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        return Recording(tuple(RecordedTask(**task) for task in tasks), **head)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: is no recording of tasks; make one with --record FILE") from error


def simulated_s(times: Sequence[float], workers: int, *, start: float, driver: float) -> float:
    """Return the seconds until the last of the tasks, which take `times` in their order."""
    ready = [start] * min(workers, len(times))  # a heap: all equal
    free = last = 0.0
    for time in times:
        begin = max(heapq.heappop(ready), free) + driver
        free = begin
        heapq.heappush(ready, begin + time)
        last = max(last, begin + time)
    return last


def drawn(recording: Recording, count: int, seed: int = 0) -> list[float]:
    """Return the processor times of so many tasks, drawn from the recorded ones with one worker, with replacement."""
    times = [task.processor for task in recording.of(1)]
    return random.Random(seed).choices(times, k=count)
