"""Status lines during long starts: torch loads for seconds, a first compilation takes minutes.

They go to stderr, like progress bars, and only where bars are on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

LOADING = "loading torch and the simulator ..."
COMPILING = "still loading: the first time on a machine Warp compiles the simulator, which can take minutes ..."
PATIENCE = 5.0
"""Seconds, longer than loading compiled kernels."""


def say(text: str, *, shown: bool = True) -> None:
    """Print `text` to stderr, if `shown`."""
    if shown:
        print(text, file=sys.stderr, flush=True)


@contextmanager
def said_if_long(text: str, *, shown: bool) -> Iterator[None]:
    """Print `text` if the block takes longer than `PATIENCE`."""
    timer = Timer(PATIENCE, say, [text])
    timer.daemon = True
    if shown:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
