"""What the commands of this room share: the machine they run on, and files that cannot be written said in one line.

Nothing here loads torch before it has to, so that a slip on the command line is answered at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from configs.names import InputError

BAD_INPUT = 2
INTERRUPTED = 130


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


def use_machine(device: str, threads: int) -> tuple[str, int]:
    """Load torch, once bad options have been answered; returns the device and the number of threads."""
    # Threads that spin while they wait make playing ten times slower on a machine that does anything else.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from agents.machine import set_threads
    from configs.machine import choose_device

    return str(choose_device(device)), set_threads(threads)


def make_folders(folders: Iterable[Path], *, files: Iterable[Path] = ()) -> None:
    """Make `folders` and those of `files` before anything is played, so that a wrong path does not cost the games.

    Raises `InputError` where that is impossible, and where a folder stands in a file's place.
    """
    files = list(files)
    for folder in [*(path.parent for path in files), *folders]:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be made ({error.strerror}); give another place") from error
    for path in files:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; give the name of a file")


def write(path: Path, writer: Callable[[Path], None]) -> None:
    """Call `writer(path)`; an `OSError` becomes an `InputError` that says what to do."""
    try:
        writer(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); give another place, as with --out") from error
