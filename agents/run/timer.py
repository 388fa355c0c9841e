"""Where the time of one update goes, and how many env steps a second that makes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Timer:
    """Runs from its making; `part` times a named part of what happens."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._parts: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time what happens within the context as `name`."""
        start = time.perf_counter()
        yield
        self._parts[name] = time.perf_counter() - start

    def seconds(self) -> float:
        """Seconds since the making."""
        return time.perf_counter() - self._start

    def parts(self) -> dict[str, float]:
        """Seconds of each part, as metrics."""
        return {f"time/{name}_seconds": value for name, value in self._parts.items()}

    def metrics(self, *, steps: int, simulator_seconds: float) -> dict[str, float]:
        """Speed so far, for `steps` env steps, everything in between counted; parts in seconds."""
        seconds = self.seconds()
        speed = {"time/steps_per_second": steps / seconds, "time/simulator_share": simulator_seconds / seconds}
        return self.parts() | speed
