"""A single HTTP request: every failure has a name, and time and memory are bounded."""

import socket
import threading
import time
import tracemalloc

import pytest

from sparring.agents.language.endpoint.answer import EndpointError, of_status, seconds_of
from sparring.agents.language.endpoint.http import Client
from sparring.agents.language.endpoint.key import Key
from tests.agents.language.asking import client, server

BODY = {"model": "toy", "prompt": "<orders>\n", "max_tokens": 3, "temperature": 1.0, "seed": 1}


def failure(fault, *, seconds=5.0, **options):
    with server(faults=[fault]) as host, client(host, **options) as asking, pytest.raises(EndpointError) as caught:
        asking.ask("/completions", BODY, seconds, dict)
    return caught.value


@pytest.mark.parametrize(
    ("fault", "kind", "again", "said"),
    [
        ("busy", "rate_limited", True, "429"),
        ("broken", "server", True, "out of order"),
        ("refusing", "refused", False, "prompt too long"),
        ("not_found", "refused", False, "check endpoint.url"),
        ("moved", "refused", False, "redirects are not followed"),
        ("dropping", "connection", True, "127.0.0.1"),
        ("half", "connection", True, "disconnected before the end"),
        ("long_length", "connection", True, "disconnected before the end"),
        ("long_status", "connection", True, "777"),
        ("truncated", "malformed", True, "invalid JSON"),
        ("not_utf8", "malformed", True, "UnicodeDecodeError"),
        ("deep", "malformed", True, "RecursionError"),
        ("a_list", "malformed", True, "not an object"),
        ("of_4000_digits", "malformed", True, "a number of 4000 digits; at most 20 are read"),
        ("of_9000_digits", "malformed", True, "a number of 9000 digits; at most 20 are read"),
    ],
)
def test_each_fault_has_name_and_retry_flag(fault, kind, again, said):
    error = failure(fault)
    assert (error.kind, error.retryable) == (kind, again)
    assert said in str(error)
    assert len(str(error)) < 500


def test_answer_is_its_json():
    with server() as host, client(host) as asking:
        assert len(asking.ask("/completions", BODY, 5.0, dict)["choices"]) == 1
        assert asking.ask("/models", None, 5.0, dict)["data"][0]["id"] == "toy"


@pytest.mark.parametrize("fault", ["silent", "dripping", "dripping_without_end"])
def test_silent_or_slow_server_times_out(fault):
    """A byte every 20 ms is never silent, but still exceeds the total time-out."""
    assert failure(fault, seconds=0.3).kind == "timeout"


def test_endless_answer_is_rejected_before_reading():
    tracemalloc.start()
    error = failure("endless", largest=100_000)
    assert (error.kind, error.retryable) == ("too_large", False)
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_no_server_at_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(EndpointError, match=r"refused; start the server, .* endpoint\.url") as caught:
            Client(url, Key("")).ask("/models", None, 1.0, dict)
    assert caught.value.kind == "connection"


def test_unknown_host_is_named(monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(EndpointError) as caught:
        Client("http://no-such-host.invalid/v1", Key("")).ask("/models", None, 2.0, dict)
    assert caught.value.kind == "connection"


def test_non_http_reply_is_endpoint_error():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        answering = threading.Thread(target=lambda: listening.accept()[0].sendall(b"220 mail.example ESMTP\r\n"))
        answering.start()
        with pytest.raises(EndpointError) as caught:
            Client(f"http://127.0.0.1:{listening.getsockname()[1]}", Key("")).ask("/models", None, 2.0, dict)
        answering.join()
    assert caught.value.kind in ("connection", "malformed")


def test_close_cancels_pending_request():
    errors = []
    with server(faults=["silent"]) as host, client(host) as asking:

        def ask():
            try:
                asking.ask("/completions", BODY, 20.0, dict)
            except EndpointError as error:
                errors.append(error.kind)

        thread = threading.Thread(target=ask)
        thread.start()
        while not host.bodies:
            time.sleep(0.005)
        asking.close()
        thread.join(5.0)
    assert errors == ["timeout"]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3.0), ("0.5", 0.5), (None, 0.0), ("soon", 0.0), ("-4", 0.0), ("٣", 0.0), ("1.2.3", 0.0)],
)
def test_retry_after_in_seconds(header, seconds):
    assert seconds_of(header) == seconds


def test_retry_after_as_date(monkeypatch):
    monkeypatch.setattr(
        "sparring.agents.language.endpoint.answer.time", lambda: 1_800_000_000.0
    )  # 15 January 2027, 08:00:00
    assert seconds_of("Fri, 15 Jan 2027 08:01:00 GMT") == 60.0
    assert seconds_of("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


@pytest.mark.parametrize("status", [301, 307, 401, 403, 404, 405])
def test_some_statuses_concern_every_request(status):
    assert of_status(status, "", None).unusable


@pytest.mark.parametrize("status", [400, 413, 422, 429, 500, 503])
def test_other_statuses_concern_one_request(status):
    assert not of_status(status, "", None).unusable
