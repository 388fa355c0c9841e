"""Network access is blocked except loopback; captured streams stay open."""

import logging.config
import os
import socket
import sys
import threading
import urllib.request

import absl.logging
import pytest


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("8.8.8.8", 53)])
@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_connection_off_loopback_is_refused(address, method):
    with socket.socket() as one, pytest.raises(AssertionError, match="a test connects to"):
        getattr(one, method)(address)


def test_foreign_name_lookup_is_refused():
    with pytest.raises(AssertionError, match=r"a test looks up 'example\.com'"):
        urllib.request.urlopen("http://example.com", timeout=1)


def test_loopback_works():
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: server.accept()[0].sendall(b"x"))
        thread.start()
        with socket.create_connection(("localhost", server.getsockname()[1]), timeout=5) as one:
            assert one.recv(1) == b"x"
        thread.join()


def test_wandb_stays_offline():
    assert os.environ["WANDB_BASE_URL"].startswith("http://127.0.0.1:")
    assert "WANDB_API_KEY" not in os.environ


def test_library_configuring_logging_closes_no_captured_stream(capsys):
    """Configuring logging closes other libraries' handlers; absl's would close its stream."""
    handler = absl.logging.get_absl_handler().python_handler
    assert handler.stream is sys.__stderr__
    logging.config.dictConfig({"version": 1, "disable_existing_loggers": False})
    assert not handler.stream.closed
