"""Independent tasks in several processes, of this machine or of a Ray cluster (`agents/distributed/pools.py`).

A task is an argument for one module-level function that depends on nothing else. Results therefore do not depend on the
number of processes or on the order in which tasks finish. A process that dies is replaced, and its unfinished tasks are
run again. With one local worker, the tasks run in this process, in order.

`run_tasks` yields results as they finish, `follow_tasks` shows a progress bar, and `finish_tasks` returns all results
in the order of the tasks. Stored results, in a file (`KeptResults`) or by the caller, are not computed again after the
driver was killed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Generic, NoReturn

from pydantic import TypeAdapter, ValidationError
from tqdm import tqdm

from sparring.agents.distributed.pools import Outcome, Task, open_pool
from sparring.configs.core.device import Executor
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import append_to, read_regular
from sparring.configs.core.status import UNFINISHED


def run_tasks(
    function: Callable[[Task], Outcome], tasks: Sequence[Task], executor: Executor
) -> Iterator[tuple[Task, Outcome]]:
    """Yield each of `tasks` with its result as it is finished; without tasks nothing is started.

    Function, tasks and results must be picklable, unless the tasks are done here. Raises what the function raises, and
    `InputError` if workers keep dying or the cluster cannot be used. Closing the iterator ends the tasks in progress.
    """
    if executor.alone or not tasks:
        yield from ((task, function(task)) for task in tasks)
        return
    with closing(open_pool(executor)) as pool:
        futures = {pool.submit(function, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures.pop(future), future.result()


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
    with tqdm(total=done + sum(sizes), initial=done, disable=quiet, **bar) as progress:
        if not executor.alone:
            for (number, task), outcome in run_tasks(partial(_unseen, function), [*enumerate(tasks)], executor):
                progress.set_description(label(task), refresh=False)
                progress.update(sizes[number])
                yield number, outcome
            return
        for number, task in enumerate(tasks):
            progress.set_description(label(task))
            done += sizes[number]
            outcome = function(task, progress)
            progress.update(done - progress.n)
            yield number, outcome


def _unseen(function: Callable[[Task, tqdm[NoReturn]], Outcome], task: tuple[int, Task]) -> Outcome:
    """Do a numbered task without a bar."""
    return function(task[1], tqdm(disable=True))


class KeptResults(Generic[Outcome]):
    """Results of finished tasks or games, one a line of a file beside the results of a command.

    A key changes with all that a result depends on, so a result of other options, players or code is never taken. A
    damaged line is left out.
    """

    def __init__(self, path: Path, kind: Any) -> None:
        self.path, self._form = path, TypeAdapter[Outcome](kind)

    def read(self) -> dict[str, Outcome]:
        """Return the results by the keys of their tasks."""
        results: dict[str, Outcome] = {}
        for line in read_regular(self.path).splitlines() if os.path.lexists(self.path) else ():
            try:
                entry = json.loads(line)
                results[entry["key"]] = self._form.validate_python(entry["result"])
            except (ValueError, TypeError, KeyError, ValidationError):
                continue  # cut off when the command was killed
        if results:
            UNFINISHED.add(self.path)
        return results

    def add(self, key: str, outcome: Outcome) -> None:
        """Keep a result. Raises `InputError` if the file cannot be written."""
        line = json.dumps({"key": key, "result": self._form.dump_python(outcome, mode="json")})
        try:
            with append_to(self.path) as file:
                file.write(f"\n{line}\n")  # after a line that was cut off
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written ({error.strerror}); choose another --out") from error
        UNFINISHED.add(self.path)

    def discard(self) -> None:
        """Remove the file, once the results are complete."""
        UNFINISHED.discard(self.path)
        self.path.unlink(missing_ok=True)


class KeptGames(Generic[Outcome]):
    """Results of the finished games of a cell by number, in memory and, with a `file`, there too."""

    def __init__(self, file: Path | None, key: str, kind: Any) -> None:
        self._results, self._key = KeptResults[Outcome](file, kind) if file else None, key
        stored, start = self._results.read() if self._results else {}, f"{key} "
        self._ended = {int(name.removeprefix(start)): end for name, end in stored.items() if name.startswith(start)}

    def get(self, number: int) -> Outcome | None:
        """Return the result of a game, None if it has not ended."""
        return self._ended.get(number)

    def add(self, number: int, ended: Outcome) -> None:
        """Keep the result of a game."""
        self._ended[number] = ended
        if self._results:
            self._results.add(f"{self._key} {number}", ended)

    def forget(self, number: int) -> None:
        """Forget a game, which is then played again."""
        self._ended.pop(number, None)


def finish_tasks(
    function: Callable[[Task, tqdm[NoReturn]], Outcome],
    tasks: Sequence[Task],
    executor: Executor,
    *,
    sizes: Sequence[int] = (),
    cached: KeptResults[Outcome] | None = None,
    keys: Sequence[str] = (),
    discard: bool = True,
    finished: dict[int, Outcome] | None = None,
    **follow: Any,
) -> list[Outcome]:
    """Return the results in the order of the tasks; see `follow_tasks`.

    With `cached`, each result is kept under the key of its task, unless that is empty, until all are there; without
    `discard` until the caller discards them. `finished` receives the results by number as they come, for a caller that
    goes on after a failure.
    """
    sizes = sizes or [1] * len(tasks)
    stored = cached.read() if cached else {}
    results = {} if finished is None else finished
    results |= {number: stored[key] for number, key in enumerate(keys) if key and key in stored}
    remaining = [number for number in range(len(tasks)) if number not in results]
    done = sum(sizes[number] for number in results)
    follow |= {"sizes": [sizes[number] for number in remaining], "done": done}
    for index, outcome in follow_tasks(function, [tasks[number] for number in remaining], executor, **follow):
        results[remaining[index]] = outcome
        if cached and (key := keys[remaining[index]]):
            cached.add(key, outcome)
    if cached and discard:
        cached.discard()
    return [results[number] for number in range(len(tasks))]
