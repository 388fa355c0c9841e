"""Retries with exponential backoff; each wait is drawn from half to all of it, so that clients spread out.

The draws depend only on the request's seed. A wait requested by the server is respected; if it exceeds the time left
for the decision, the request fails immediately.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from threading import Event
from time import monotonic
from typing import TypeVar

from sparring.agents.llm.endpoint.failure import EndpointError
from sparring.agents.llm.endpoint.meter import Meter

T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """Limits of retries; times in seconds, waits from the first to the longest."""

    retries: int
    timeout: float
    total: float
    first_wait: float = 0.5
    longest_wait: float = 30.0

    def wait(self, attempt: int, seed: int, asked: float = 0.0) -> float:
        """Return the seconds before try number `attempt` + 1, at least the `asked` ones."""
        span = min(self.longest_wait, self.first_wait * 2.0**attempt)
        return max(asked, span * (0.5 + 0.5 * Random(f"{seed} {attempt}").random()))


@dataclass(frozen=True)
class Persistence:
    """Retry loop that counts errors; once `stopped` is set, there are no more retries."""

    policy: RetryPolicy
    meter: Meter
    stopped: Event

    def ask(self, call: Callable[[float], T], *, seed: int, until: float) -> T:
        """Return `call(seconds it may take)`; raises its last `EndpointError` when tries or time run out.

        `until` is the deadline of the decision, on the clock of `time.monotonic`.
        """
        for attempt in range(self.policy.retries + 1):
            left = until - monotonic()
            if left <= 0:
                raise EndpointError("timeout", f"the decision is not made after {self.policy.total:g} s", again=False)
            try:
                with self.meter.timed():
                    return call(min(left, self.policy.timeout))
            except EndpointError as error:
                self.meter.add(f"errors/{error.kind}")
                wait = self.policy.wait(attempt, seed, error.after)
                if not error.again or attempt == self.policy.retries or monotonic() + wait >= until:
                    raise
            if self.stopped.wait(wait):
                break
            self.meter.add("retries")
            self.meter.add("waited_seconds", wait)
        raise EndpointError("connection", "the endpoint is closed", again=False)
