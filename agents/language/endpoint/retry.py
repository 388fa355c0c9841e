"""Retries with exponential backoff, and thread-safe counts of requests, tokens, seconds and errors.

Each wait is drawn from half to all of its length, which spreads out clients. The draws depend only on the request's
seed. A wait requested by the server is respected; if it exceeds the time left for the decision, the request fails
immediately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from threading import Event, Lock
from time import monotonic
from typing import TypeVar

from sparring.agents.language.endpoint.answer import CALL, CUT, KINDS, WITHHELD, EndpointError

PROBLEM_OF = {CUT: "truncated", WITHHELD: "withheld", CALL: "tool_call"}
PROBLEMS = ("illegal", *PROBLEM_OF.values(), "empty")
"""Answers that are not legal decisions: orders outside the menu, an end that is not a whole answer's, or empty."""
COUNTS = (
    *("decisions", "fallbacks", "inexact", "requests", "retries", "seconds", "waited_seconds"),
    *("orders_read", "lines_unread", "prompt_tokens", "completion_tokens", "cached_tokens"),
    *("reasoning_tokens", "uncounted_answers", "kept_answers", "orders_due", "orders_illegal"),
    *(f"errors/{kind}" for kind in (*KINDS, *PROBLEMS)),
)
T = TypeVar("T")


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
    hint = "; raise endpoint.max_tokens for truncated answers" if counts["errors/truncated"] else ""
    return (
        f"{counts['fallbacks']} of {counts['decisions']} decisions were not the server's but the fallback: hold, or"
        f" WAIVE{why}{hint}"
    )


KINDS_OF_ANSWERS = {
    "illegal": "illegal", "truncated": "cut", "empty": "missing", "withheld": "withheld", "tool_call": "tool call",
}  # fmt: skip
"""Names of `PROBLEMS` in tables."""


def answers_by_kind(metrics: Mapping[str, float]) -> dict[str, int]:
    """Return the number of decisions by kind of answer: legal, each of `PROBLEMS`, and without any answer."""
    problems = {name: int(metrics[f"endpoint/errors/{kind}"]) for kind, name in KINDS_OF_ANSWERS.items()}
    decisions, fallbacks = (int(metrics[f"endpoint/{name}"]) for name in ("decisions", "fallbacks"))
    return {"legal": decisions - fallbacks, **problems, "no answer": fallbacks - sum(problems.values())}


def orders_by_kind(metrics: Mapping[str, float]) -> str:
    """Return how many orders of answers that are read as text are legal, and the rate of illegal ones."""
    due, legal, illegal, unread = (
        int(metrics[f"endpoint/{name}"]) for name in ("orders_due", "orders_read", "orders_illegal", "lines_unread")
    )
    if not due:
        return ""
    rate = 100.0 * illegal / max(legal + illegal, 1)
    return (
        f"Orders: {due:,} due in answers read as text, {legal:,} legal, {illegal:,} illegal ({rate:.2f} % of those "
        f"written), {due - legal:,} replaced. {unread:,} lines were not read, or not taken."
    )


@dataclass(frozen=True)
class RetryPolicy:
    """Limits of retries; times in seconds, waits from the first to the longest."""

    retries: int
    timeout: float
    total: float
    first_wait: float = 0.5
    longest_wait: float = 30.0

    def wait(self, attempt: int, seed: int, requested: float = 0.0) -> float:
        """Return the seconds before try number `attempt` + 1, at least the `requested` ones."""
        span = min(self.longest_wait, self.first_wait * 2.0**attempt)
        return max(requested, span * (0.5 + 0.5 * Random(f"{seed} {attempt}").random()))


@dataclass(frozen=True)
class Persistence:
    """Retry loop that counts errors; it ends once `stopped` is set."""

    policy: RetryPolicy
    meter: Meter
    stopped: Event

    def ask(self, call: Callable[[float], T], *, seed: int, until: float) -> T:
        """Return `call(seconds it may take)`; raises its last `EndpointError` when tries or time run out.

        `until` is the deadline of the decision, on the clock of `time.monotonic`.
        """
        for attempt in range(self.policy.retries + 1):
            remaining = until - monotonic()
            if remaining <= 0:
                text = f"no decision within {self.policy.total:g} s"
                raise EndpointError("timeout", text, retryable=False)
            try:
                with self.meter.timed():
                    return call(min(remaining, self.policy.timeout))
            except EndpointError as error:
                self.meter.add(f"errors/{error.kind}")
                wait = self.policy.wait(attempt, seed, error.after)
                if not error.retryable or attempt == self.policy.retries or monotonic() + wait >= until:
                    raise
            if self.stopped.wait(wait):
                break
            self.meter.add("retries")
            self.meter.add("waited_seconds", wait)
        raise EndpointError("connection", "the endpoint is closed", retryable=False)
