"""Ctrl-C as a request: the update in progress is finished and its policy saved. A second Ctrl-C stops at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType

STDERR = 2


class StopRequest:
    """Within this context the first SIGINT sets `asked`; the second raises `KeyboardInterrupt`.

    Outside the main thread signals cannot be handled, and nothing changes.
    """

    def __init__(self) -> None:
        self.asked = False
        self._main = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> StopRequest:
        if self._main:
            self._previous = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._main:
            signal.signal(signal.SIGINT, self._previous)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        # Not print: the signal may have come in the middle of one.
        os.write(STDERR, b"\nstopping after this update; press Ctrl-C again to stop at once\n")
