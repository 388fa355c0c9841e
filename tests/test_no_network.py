"""The fixture of tests/conftest.py refuses what leaves the machine, and nothing else."""

import os
import socket
import threading
import urllib.request

import pytest


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("8.8.8.8", 53)])
@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_a_connection_off_loopback_is_refused(address, method):
    with socket.socket() as one, pytest.raises(AssertionError, match="a test connects to"):
        getattr(one, method)(address)


def test_a_look_up_of_a_foreign_name_is_refused():
    with pytest.raises(AssertionError, match=r"a test looks up 'example\.com'"):
        urllib.request.urlopen("http://example.com", timeout=1)


def test_loopback_works():
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: server.accept()[0].sendall(b"x"))
        thread.start()
        with socket.create_connection(("localhost", server.getsockname()[1]), timeout=5) as one:
            assert one.recv(1) == b"x"
        thread.join()


def test_w_and_b_leads_nowhere():
    assert os.environ["WANDB_BASE_URL"].startswith("http://127.0.0.1:")
    assert "WANDB_API_KEY" not in os.environ
