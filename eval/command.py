"""Shared parts of the evaluation commands: exit codes, device setup, the progress bar, and writing files.

torch is imported late, so that errors on the command line are reported immediately.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.core.status import LOADING, quiet_on_closed_pipe, say

BAD_INPUT = 2
INTERRUPTED = 130
Cell = TypeVar("Cell")


def run_command(name: str, command: Callable[[Sequence[str]], int], arguments: Sequence[str] | None) -> int:
    """Return the exit code of `command(arguments)`: 2 with one line on stderr for bad input, 130 for Ctrl-C.

    `arguments` default to those of the process.
    """
    try:
        return quiet_on_closed_pipe(lambda: command(sys.argv[1:] if arguments is None else arguments))
    except InputError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED


def announce_loading(*, quiet: bool) -> None:
    """Prepare the process for torch and print a message that loading it takes a while."""
    # Threads that spin while waiting make playing ten times slower on a machine with other load.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    say(LOADING, shown=not quiet)


def use_machine(device: str, threads: int, *, quiet: bool) -> tuple[str, int]:
    """Load torch and return the device and the number of threads. Call it after all checks that do not need torch."""
    announce_loading(quiet=quiet)
    from sparring.agents.distributed.threads import set_threads
    from sparring.configs.core.device import choose_device

    return str(choose_device(device)), set_threads(threads)


def show_cells(cells: Sequence[Cell], name: Callable[[Cell], str], *, shown: bool) -> Iterator[Cell]:
    """Yield the cells of a table one by one, with a progress bar that names the current cell."""
    with tqdm(cells, unit="cell", disable=not shown) as bar:
        for cell in bar:
            bar.set_description(name(cell))
            yield cell


def make_folders(folders: Iterable[Path | None], *, files: Iterable[Path | None] = ()) -> None:
    """Create `folders` and the parents of `files` before playing, so that a wrong path does not waste the games.

    None entries are skipped. Raises `InputError` if a folder cannot be created or a file's path is a folder.
    """
    wanted = [path for path in files if path is not None]
    for folder in [*(path.parent for path in wanted), *(path for path in folders if path is not None)]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be made ({error.strerror}); give another place") from error
    for path in wanted:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; give the name of a file")


def publish(text: str, files: Mapping[Path, str | bytes], *, quiet: bool = False) -> None:
    """Print `text`, write the `files` of one folder, and print their names; if `quiet`, only write them."""
    if not quiet:
        print(text)
    for path, data in files.items():
        write(path, partial(write_atomically, data=data))
    if files and not quiet:
        first, *others = files
        print("Wrote", ", ".join([str(first), *(path.name for path in others)]))


def publish_results(folder: Path | None, name: str, text: str, data: str, *, quiet: bool = False) -> None:
    """Print the table `text`, and write it and its JSON `data` into `folder` unless that is None.

    A larger evaluation that these replace is named on stderr.
    """
    if folder:
        _warn_of_larger(folder / f"{name}.json", data)
    publish(text, {folder / f"{name}.json": data, folder / f"{name}.md": text} if folder else {}, quiet=quiet)


def _warn_of_larger(path: Path, data: str) -> None:
    """Print a line if the results in `path` are of more games or episodes than the new `data`."""
    try:
        old = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return  # there is none, or it is no result
    new = json.loads(data)
    for unit in ("games", "episodes"):
        before, now = (found.get(unit) if isinstance(found, dict) else None for found in (old, new))
        if isinstance(before, int) and isinstance(now, int) and before > now:
            kept = "--out DIR would have kept them"
            print(f"{path}: {before} {unit} are replaced by {now}; {kept}", file=sys.stderr)


def write_asked(path: Path | None, writer: Callable[[Path], None], *, quiet: bool) -> None:
    """Write an optional output, such as a replay, and print its path; do nothing if `path` is None."""
    if path is not None:
        write(path, writer)
        if not quiet:
            print(f"Wrote {path}")


def write(path: Path, writer: Callable[[Path], None]) -> None:
    """Call `writer(path)`; convert an `OSError` to an `InputError` with a hint."""
    try:
        writer(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); give another place, as with --out") from error
