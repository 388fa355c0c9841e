"""Thread-safe counts of an endpoint's requests, tokens, seconds and errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from time import monotonic

from sparring.agents.llm.endpoint.failure import KINDS

PROBLEMS = ("illegal", "truncated", "empty")
"""Answers that are not legal decisions: orders outside the menu, truncated by the token limit, or empty."""
COUNTS = (
    *("decisions", "fallbacks", "inexact", "requests", "retries", "seconds", "waited_seconds"),
    *("orders_read", "lines_unread", "prompt_tokens", "completion_tokens", "cached_tokens"),
    *(f"errors/{kind}" for kind in (*KINDS, *PROBLEMS)),
)


class Meter:
    """Totals since the endpoint was opened; `docs/llm_endpoints.md` describes each of `COUNTS`."""

    def __init__(self) -> None:
        self._totals = dict.fromkeys(COUNTS, 0.0)
        self._lock = Lock()

    def add(self, count: str, amount: float = 1.0) -> None:
        """Increase one of `COUNTS`."""
        with self._lock:
            self._totals[count] += amount

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count a request and its seconds, also if it fails."""
        started = monotonic()
        try:
            yield
        finally:
            self.add("requests")
            self.add("seconds", monotonic() - started)

    def metrics(self) -> dict[str, float]:
        """Return every total under `endpoint/`."""
        with self._lock:
            return {f"endpoint/{count}": total for count, total in self._totals.items()}


def fallbacks_of(metrics: Mapping[str, float]) -> str:
    """Return how many decisions are fallbacks, the errors behind them, retried ones included, and what to do."""
    counts = {name: int(metrics[f"endpoint/{name}"]) for name in COUNTS}
    errors = sorted((-counts[f"errors/{kind}"], kind) for kind in (*KINDS, *PROBLEMS) if counts[f"errors/{kind}"])
    why = f" ({', '.join(f'{-count} {kind}' for count, kind in errors)})" if errors else ""
    hint = "; give a truncated answer more room with endpoint.max_tokens" if counts["errors/truncated"] else ""
    return (
        f"{counts['fallbacks']} of {counts['decisions']} decisions were not the server's but the fallback: hold, or"
        f" WAIVE{why}{hint}"
    )
