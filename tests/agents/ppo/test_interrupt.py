"""The first Ctrl-C asks, the second stops, and afterwards everything is as it was."""

import signal
import threading

import pytest

from agents.ppo.interrupt import StopRequest


def test_the_first_asks_and_the_second_stops():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), StopRequest() as stop:  # noqa: PT012
        assert not stop.asked
        signal.raise_signal(signal.SIGINT)
        assert stop.asked
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_leave_signals_alone():
    before, inside = signal.getsignal(signal.SIGINT), []

    def work():
        with StopRequest() as stop:
            inside.append((signal.getsignal(signal.SIGINT), stop.asked))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [(before, False)]
