"""The first signal requests a stop, the second stops, time-outs apply, and handlers are restored."""

import signal
import threading
import time

import pytest

from sparring.agents.run.signals import Stopped, StopRequest

NUMBERS = {signal.SIGINT: 130, signal.SIGTERM: 75}


@pytest.mark.parametrize("second", NUMBERS)
@pytest.mark.parametrize("first", NUMBERS)
def test_first_signal_requests_stop_and_second_stops(first, second):
    before = [signal.getsignal(number) for number in NUMBERS]
    with pytest.raises(Stopped) as stopped, StopRequest(60.0) as stop:  # noqa: PT012
        assert (stop.asked, stop.exit_code) == (False, 0)
        signal.raise_signal(first)
        assert (stop.asked, stop.exit_code) == (True, NUMBERS[first])
        signal.raise_signal(second)
    assert stopped.value.code == NUMBERS[second]
    assert [signal.getsignal(number) for number in NUMBERS] == before


def test_stop_request_exits_0_until_signal_sets_75():
    with StopRequest(60.0) as stop:
        stop.request()
        assert (stop.asked, stop.exit_code) == (True, 0)
        assert stop.asked_of_any(lambda mine: max(mine, 0))
        signal.raise_signal(signal.SIGTERM)
        assert stop.exit_code == 75
        stop.request()
        assert stop.exit_code == 75


def test_slow_update_is_abandoned_after_timeout(capfd):
    with pytest.raises(Stopped) as stopped, StopRequest(0.05):  # noqa: PT012
        signal.raise_signal(signal.SIGTERM)
        time.sleep(10)
    assert stopped.value.code == 75
    assert "did not end within 0.05 s" in capfd.readouterr().err


def test_ctrl_c_waits_for_update_without_timeout(capfd):
    with StopRequest(0.05, "4 updates are kept", unit="step", remaining=lambda: ", in about 9 s") as stop:
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.3)
    assert stop.exit_code == 130
    said = "stopping after this step, in about 9 s, which is kept; Ctrl-C again stops at once, and 4 updates are kept"
    assert capfd.readouterr().err.strip() == said


def test_ctrl_c_before_first_update_stops_immediately(capfd):
    with pytest.raises(Stopped) as stopped, StopRequest(60.0, "0 updates are kept", "go on so") as stop:  # noqa: PT012
        stop.at_once = True
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it went on")
    assert stopped.value.code == 130
    assert capfd.readouterr().err.strip() == "stopped at once; 0 updates are kept; go on so"


def test_finished_update_is_not_interrupted_later():
    with StopRequest(0.05):
        signal.raise_signal(signal.SIGINT)
    time.sleep(0.1)  # would be ended by the alarm


def test_other_threads_do_not_handle_signals():
    before, inside = signal.getsignal(signal.SIGINT), []

    def work():
        with StopRequest(1.0) as stop:
            inside.append((signal.getsignal(signal.SIGINT), stop.asked))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert inside == [(before, False)]
