"""What a person is told while there is nothing to see yet: torch loads for seconds, a first compilation for minutes.

Such lines go to stderr, as bars do, and only where bars are wanted.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

LOADING = "loading torch and the simulator ..."
COMPILING = "still loading: the first time on a machine Warp compiles the simulator, which can take minutes ..."
PATIENCE = 5.0
"""Seconds that loading compiled kernels does not take."""


def say(text: str, *, shown: bool = True) -> None:
    """Say `text`, if it is to be `shown`."""
    if shown:
        print(text, file=sys.stderr, flush=True)


@contextmanager
def said_if_long(text: str, *, shown: bool) -> Iterator[None]:
    """Say `text` if what is done within takes longer than `PATIENCE`."""
    timer = Timer(PATIENCE, say, [text])
    timer.daemon = True
    if shown:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
