"""What an endpoint was asked, what it cost, and what went wrong, as numbers; counted by many threads at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic

from sparring.agents.llm.endpoint.failure import KINDS

PROBLEMS = ("illegal", "truncated", "empty")
"""Answers that are no legal decision: other orders than the choices, cut off by the limit of tokens, none at all."""
COUNTS = (
    *("decisions", "fallbacks", "inexact", "requests", "retries", "seconds", "waited_seconds"),
    *("prompt_tokens", "completion_tokens", "cached_tokens"),
    *(f"errors/{kind}" for kind in (*KINDS, *PROBLEMS)),
)


class Meter:
    """Totals since the endpoint was opened; `docs/llm_endpoints.md` says what each of `COUNTS` is."""

    def __init__(self) -> None:
        self._totals = dict.fromkeys(COUNTS, 0.0)
        self._lock = Lock()

    def add(self, count: str, amount: float = 1.0) -> None:
        """Raise one of `COUNTS`."""
        with self._lock:
            self._totals[count] += amount

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count a request and how long it took, however it ends."""
        started = monotonic()
        try:
            yield
        finally:
            self.add("requests")
            self.add("seconds", monotonic() - started)

    def metrics(self) -> dict[str, float]:
        """Every total under `endpoint/`."""
        with self._lock:
            return {f"endpoint/{count}": total for count, total in self._totals.items()}
