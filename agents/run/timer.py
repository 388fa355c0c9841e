"""Timing of the parts of one update, and env steps per second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Timer:
    """Timer that starts when created; `part` times a named part."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._parts: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time the code in the context as `name`."""
        start = time.perf_counter()
        yield
        self._parts[name] = time.perf_counter() - start

    def seconds(self) -> float:
        """Return the seconds since creation."""
        return time.perf_counter() - self._start

    def parts(self) -> dict[str, float]:
        """Return the seconds of each part, as metrics."""
        return {f"time/{name}_seconds": value for name, value in self._parts.items()}

    def metrics(self, *, steps: int, simulator_seconds: float) -> dict[str, float]:
        """Return the speed so far, for `steps` env steps over the whole time, and the parts in seconds."""
        seconds = self.seconds()
        speed = {"time/steps_per_second": steps / seconds, "time/simulator_share": simulator_seconds / seconds}
        return self.parts() | speed
