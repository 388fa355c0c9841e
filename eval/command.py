"""What the commands of this room share: exit codes, the machine, the bar, and writing files.

Nothing here loads torch before it has to, so that a slip on the command line is answered at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import write_atomically
from sparring.configs.core.status import LOADING, say

BAD_INPUT = 2
INTERRUPTED = 130
Cell = TypeVar("Cell")


def run_command(name: str, command: Callable[[Sequence[str]], int], arguments: Sequence[str] | None) -> int:
    """The exit code of `command(arguments)`; bad input is one line on stderr and 2, Ctrl-C is 130.

    `arguments` are those of the process unless given.
    """
    try:
        return command(sys.argv[1:] if arguments is None else arguments)
    except InputError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED


def announce_loading(*, quiet: bool) -> None:
    """Prepare the process for torch and say that loading it takes a while."""
    # Threads that spin while they wait make playing ten times slower on a machine that does anything else.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    say(LOADING, shown=not quiet)


def use_machine(device: str, threads: int, *, quiet: bool) -> tuple[str, int]:
    """Load torch, once everything that can be refused without it was; returns the device and the number of threads."""
    announce_loading(quiet=quiet)
    from sparring.agents.distributed.threads import set_threads
    from sparring.configs.core.device import choose_device

    return str(choose_device(device)), set_threads(threads)


def show_cells(cells: Sequence[Cell], name: Callable[[Cell], str], *, shown: bool) -> Iterator[Cell]:
    """Yield the cells of a table one by one, with a bar that names the one in progress."""
    with tqdm(cells, unit="cell", disable=not shown) as bar:
        for cell in bar:
            bar.set_description(name(cell))
            yield cell


def make_folders(folders: Iterable[Path | None], *, files: Iterable[Path | None] = ()) -> None:
    """Make `folders` and those of `files` before anything is played, so that a wrong path does not cost the games.

    None stands for what was not asked for. Raises `InputError` where that is impossible, and where a folder stands in a
    file's place.
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
    """Print `text`, write the `files` of one folder, and say so; where `quiet`, only write them."""
    if not quiet:
        print(text)
    for path, data in files.items():
        write(path, partial(write_atomically, data=data))
    if files and not quiet:
        first, *others = files
        print("Wrote", ", ".join([str(first), *(path.name for path in others)]))


def publish_results(folder: Path | None, name: str, text: str, data: str, *, quiet: bool = False) -> None:
    """Print the table `text`, and write it and its JSON `data` into `folder` if there is one."""
    publish(text, {folder / f"{name}.json": data, folder / f"{name}.md": text} if folder else {}, quiet=quiet)


def write_asked(path: Path | None, writer: Callable[[Path], None], *, quiet: bool) -> None:
    """Write what was asked for besides the results, such as a replay, and say so; nothing where `path` is None."""
    if path is not None:
        write(path, writer)
        if not quiet:
            print(f"Wrote {path}")


def write(path: Path, writer: Callable[[Path], None]) -> None:
    """Call `writer(path)`; an `OSError` becomes an `InputError` that says what to do."""
    try:
        writer(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); give another place, as with --out") from error
