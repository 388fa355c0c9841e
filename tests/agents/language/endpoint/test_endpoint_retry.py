"""Retry delays: exponential backoff with seeded jitter, Retry-After, and time limits."""

import time
from threading import Event, Thread

import pytest

from sparring.agents.language.endpoint.answer import EndpointError
from sparring.agents.language.endpoint.retry import Meter, Persistence, RetryPolicy

PATIENCE = RetryPolicy(retries=5, timeout=1.0, total=10.0, first_wait=0.5, longest_wait=4.0)


class Stopped(Event):
    """An event that records every wait."""

    def __init__(self):
        super().__init__()
        self.waits = []

    def wait(self, timeout=None):
        self.waits.append(timeout)
        return super().wait(timeout)


class Trying:
    """A call that fails with `errors` in order, and then succeeds."""

    def __init__(self, errors, *, retries=5, total=5.0, first_wait=0.001):
        self.meter, self.stopped, self.given = Meter(), Stopped(), []
        self._errors, self._total = list(errors), total
        self._persistence = Persistence(RetryPolicy(retries, 1.0, total, first_wait), self.meter, self.stopped)

    def ask(self):
        return self._persistence.ask(self._call, seed=1, until=time.monotonic() + self._total)

    def counted(self, count):
        return self.meter.metrics()[f"endpoint/{count}"]

    def _call(self, seconds):
        self.given.append(seconds)
        if self._errors:
            raise self._errors.pop(0)
        return "answer"


def test_waits_are_between_half_and_full_backoff():
    spans = [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    for attempt, span in enumerate(spans):
        waits = [PATIENCE.wait(attempt, seed) for seed in range(200)]
        assert span / 2 <= min(waits) < 0.6 * span
        assert 0.9 * span < max(waits) <= span


def test_server_can_lengthen_but_not_shorten_wait():
    assert PATIENCE.wait(0, 1, requested=9.0) == 9.0
    assert PATIENCE.wait(3, 1, requested=0.1) >= 2.0


def test_temporary_errors_are_retried_and_counted():
    trying = Trying([EndpointError("server", "a"), EndpointError("timeout", "b")])
    assert trying.ask() == "answer"
    assert trying.counted("requests") == 3
    assert trying.counted("retries") == 2
    assert trying.counted("errors/server") == trying.counted("errors/timeout") == 1
    assert trying.counted("waited_seconds") == pytest.approx(sum(trying.stopped.waits))
    assert len(trying.stopped.waits) == 2


def test_attempts_are_exhausted():
    trying = Trying([EndpointError("server", str(number)) for number in range(9)], retries=2)
    with pytest.raises(EndpointError, match="2"):
        trying.ask()
    assert trying.counted("requests") == 3


def test_wait_stays_within_remaining_time():
    trying = Trying([EndpointError("rate_limited", "a", after=3600.0)])
    with pytest.raises(EndpointError):
        trying.ask()
    assert trying.stopped.waits == []
    assert trying.counted("requests") == 1


def test_attempt_stays_within_remaining_time():
    trying = Trying([EndpointError("server", "a")], total=0.4, first_wait=0.2)
    trying.ask()
    first, second = trying.given
    assert 0.35 < first <= 0.4
    assert second <= first - 0.1  # the wait was at least that


def test_close_ends_waiting():
    trying = Trying([EndpointError("server", "a")], total=60.0, first_wait=30.0)
    caught = []

    def ask():
        try:
            trying.ask()
        except EndpointError as error:
            caught.append(str(error))

    thread = Thread(target=ask)
    thread.start()
    trying.stopped.set()
    thread.join(5.0)
    assert caught == ["the endpoint is closed"]
