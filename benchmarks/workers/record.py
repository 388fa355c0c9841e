"""Tasks of the executor, timed with some numbers of workers: games of the Diplomacy search against six DumbBots."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from tqdm import tqdm

from benchmarks.report import processor
from benchmarks.workers.simulate import RecordedTask, Recording
from sparring.agents.distributed.tasks import run_tasks
from sparring.agents.opponents.diplomacy import open_player
from sparring.configs.core.device import Executor, usable_cores
from sparring.eval.diplomacy.games import BotCell, play_cell
from sparring.eval.diplomacy.options import DiplomacyOptions

PLAYER, OPPONENT = "search:positions=1000", "dumbbot"
GAMES = 7
"""Of a task; each power is played once."""
MEASURED = (1, 2, 4)
EMPTY = 2000
"""Tasks without work that tell what one costs the driver."""


def record(tasks: int, last_year: int) -> Recording:
    """Play so many tasks, each with a seed of its own, with each number of workers."""
    options = DiplomacyOptions(ckpt=PLAYER, opponents=(OPPONENT,), games=GAMES, last_year=last_year, quiet=True)
    names = PLAYER, OPPONENT
    cells = [BotCell(replace(options, seed=seed), names, names, "cpu", 1, shown=False) for seed in range(tasks)]
    timed_cell(0.0, replace(cells[0], options=replace(options, last_year=1901)))  # compiles kernels if none are cached
    played = [task for workers in MEASURED for task in timed(cells, workers)]
    used = time.process_time()
    empty = sum(1 for _ in run_tasks(abs, range(EMPTY), Executor(workers=2, threads=1)))
    driver = (time.process_time() - used) / empty
    ((_, start),) = run_tasks(started, cells[:1], Executor(workers=2, threads=1))
    where = f"{processor()}, {usable_cores()} cores shared with other work, load {os.getloadavg()[0]:.1f}, "
    where += f"{datetime.date.today()}; {tasks} tasks of {GAMES} games to {last_year}, {PLAYER} against {OPPONENT}"
    return Recording(tuple(played), start, driver, where)


def timed(cells: Sequence[BotCell], workers: int) -> list[RecordedTask]:
    """Play the cells with so many workers."""
    began, tasks = time.time(), []
    executor = Executor(workers=workers, threads=1)
    for _, (process, begin, end, used) in run_tasks(partial(timed_cell, began), cells, executor):
        tasks.append(RecordedTask(workers, process, begin, end, used, GAMES))
    return tasks


def timed_cell(began: float, cell: BotCell) -> tuple[int, float, float, float]:
    """Play a cell; return its process, begin and end after the driver's `began`, and the processor time."""
    begin, used = time.time(), time.process_time()
    play_cell(replace(cell, players=(open_player(PLAYER, "cpu"), OPPONENT)), tqdm(disable=True))
    return os.getpid(), begin - began, time.time() - began, time.process_time() - used


def started(cell: BotCell) -> float:
    """Return the processor time of this process until it has loaded what a task needs, and played one year."""
    timed_cell(0.0, replace(cell, options=replace(cell.options, last_year=1901)))
    return time.process_time()
