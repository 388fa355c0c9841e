"""Output of commands: status lines during long starts, and a quiet exit if a pipe is closed.

Loading torch takes seconds, a first compilation minutes. These lines go to stderr, like progress bars, and only if
progress bars are on.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import NoReturn, TextIO, TypeVar

from sparring.configs.core.errors import as_called, printable_lines

Words = TypeVar("Words")

LOADING = "loading torch and the simulator ..."
COMPILING = "still loading: on its first use Warp compiles the simulator, which can take minutes ..."
PATIENCE = 5.0  # seconds, longer than loading compiled kernels
UNFINISHED: set[Path] = set()
"""Files that hold finished results of a command which has not ended."""
CLOSED_PIPE = 141  # 128 + SIGPIPE, what a shell reports for a command whose reader has closed the pipe


def say(text: str, *, enabled: bool = True) -> None:
    """Print `text` to stderr, if `enabled`."""
    if enabled:
        print(printable_lines(as_called(text)), file=sys.stderr, flush=True)


@contextmanager
def said_if_long(text: str, *, enabled: bool) -> Iterator[None]:
    """Print `text` if the block takes longer than `PATIENCE`."""
    timer = Timer(PATIENCE, say, [text])
    timer.daemon = True
    if enabled:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def quiet_on_closed_pipe(command: Callable[[Words], int], words: Words) -> int:
    """Return the exit code of `command(words)`; `CLOSED_PIPE` if the reader of its output has gone, as in `| head -1`.

    Python would print a traceback. The exit code of --help is 0, however much of it is read.
    """
    try:
        code = command(words)
        sys.stdout.flush()  # a short output is still in the buffer
        return code
    except BrokenPipeError:
        if not _has_no_reader(sys.stdout):
            raise  # of another connection
        return 0 if {"--help", "-h"} & set(sys.argv) else CLOSED_PIPE
    finally:
        for stream in (sys.stdout, sys.stderr):
            if _has_no_reader(stream):  # discard its buffer, so the interpreter does not complain
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def end_now(code: int) -> NoReturn:
    """End a stopped process at once: Python's own cleanup of torch and Warp takes seconds."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _has_no_reader(stream: TextIO) -> bool:
    """Return whether a stream is a pipe whose other end is closed."""
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    except (OSError, ValueError, AttributeError):  # closed, replaced by a test, or a system without poll
        return False
