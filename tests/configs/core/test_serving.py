"""Local servers on loopback: foreign hosts, silent or greedy clients, disconnects, shutdown."""

import asyncio
import contextlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from threading import Event, Thread

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from sparring.configs.core import serving
from sparring.configs.core.serving import ClientBounds, GuardedApp, bounded_server, in_thread

pytest.importorskip("uvicorn")


class Echo:
    """Answer "well" to requests, echo WebSocket texts; "search" runs until it is cancelled."""

    def __init__(self):
        self.searching, self.ended, self.cancelled = Event(), Event(), Event()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (message := await receive())["type"] == "websocket.receive":
                if message["text"] == "search":
                    await self.search()
                await send({"type": "websocket.send", "text": message["text"]})
        else:
            while (await receive()).get("more_body"):
                pass
            if scope["path"] == "/search":
                await self.search()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"well"})

    async def search(self):
        def work():
            self.searching.set()
            self.cancelled.wait(60)
            self.ended.set()

        await in_thread(work, self.cancelled.set)


@contextlib.contextmanager
def served(bounds=serving.USUAL, names=()):
    """Serve an `Echo` in a thread; yield it and the port."""
    echo = Echo()
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        server = bounded_server(GuardedApp(echo, names, bounds), largest_message=bounds.body)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield echo, port
        finally:
            echo.cancelled.set()
            server.should_exit = True
            thread.join(60)
    assert not thread.is_alive()


def status(port, path="/", data=None, **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=data, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def exchange(client, texts):
    for text in texts:
        client.send(text)
    return client.recv(30)


def until(condition, what):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError(what)


def test_foreign_hosts_and_origins_are_rejected():
    with served(names=["box.example"]) as (_, port):
        ours = {"": 200, f"127.0.0.1:{port}": 200, f"localhost:{port}": 200, "10.0.0.7:8000": 200, "[::1]:9": 200}
        theirs = (
            "evil.example",
            f"evil.example:{port}",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "[::1",
            "a@b",
        )
        for host, code in {**ours, "box.example:1": 200, **dict.fromkeys(theirs, 403)}.items():
            assert status(port, **({"Host": host} if host else {})) == code, host
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{port + 1}", f"https://127.0.0.1:{port}"):
            assert status(port, Origin=origin) == 403, origin
            with pytest.raises(InvalidStatus), connect(f"ws://127.0.0.1:{port}/", origin=origin):
                pass
        own = f"http://127.0.0.1:{port}"
        assert status(port, Origin=own) == 200
        with connect(f"ws://127.0.0.1:{port}/", origin=own) as page, connect(f"ws://127.0.0.1:{port}/") as program:
            for one in (page, program):
                one.send("well")
                assert one.recv(30) == "well"


@pytest.mark.parametrize(
    "head", ["Host: 127.0.0.1\r\nHost: evil.example\r\n", "Host: evil.example\r\nHost: 127.0.0.1\r\n", ""]
)
def test_request_needs_exactly_one_host(head):
    with served() as (_, port), socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(f"GET / HTTP/1.{1 if head else 0}\r\n{head}\r\n".encode())
        assert client.recv(100).split()[1] in (b"400", b"403")


@pytest.mark.parametrize("over", ["http", "websocket"])
def test_work_for_disconnected_client_is_cancelled(over):
    with served() as (echo, port):
        if over == "http":
            client = socket.create_connection(("127.0.0.1", port), timeout=30)
            client.sendall(b"GET /search HTTP/1.1\r\nHost: localhost\r\n\r\n")
        else:
            client = connect(f"ws://127.0.0.1:{port}/")
            client.send("search")
        assert echo.searching.wait(30)
        assert not echo.ended.is_set()
        (client if over == "http" else client.socket).close()
        assert echo.ended.wait(30)


def test_silent_websockets_time_out():
    with served(ClientBounds(first_seconds=0.3, idle_seconds=0.6)) as (_, port):
        for said in ([], ["well"]):
            with connect(f"ws://127.0.0.1:{port}/") as client:
                for text in said:
                    client.send(text)
                    assert client.recv(30) == text
                with pytest.raises(ConnectionClosed):
                    client.recv(30)


def test_concurrent_requests_per_client_are_limited():
    with served(ClientBounds(requests=3)) as (_, port):
        for _ in range(2):
            with contextlib.ExitStack() as opened:
                for _ in range(3):
                    opened.enter_context(connect(f"ws://127.0.0.1:{port}/"))
                assert status(port) == 503
                with pytest.raises(InvalidStatus), connect(f"ws://127.0.0.1:{port}/"):
                    pass
            until(lambda: status(port) == 200, "the sessions of closed sockets are still counted")


def test_silent_connections_do_not_block_new_ones(monkeypatch):
    """The oldest connections are closed long before their time-out."""
    monkeypatch.setattr(serving, "REQUEST_SECONDS", 600.0)
    with served() as (_, port), contextlib.ExitStack() as opened:
        clients = [opened.enter_context(socket.create_connection(("127.0.0.1", port), 30)) for _ in range(100)]
        assert status(port) == 200
        closed = 0
        for client in clients[: 100 - serving.MOST_SILENT]:
            closed += client.recv(1) == b""
        assert closed == 100 - serving.MOST_SILENT
        assert status(port) == 200


def test_bodies_and_messages_are_bounded(monkeypatch):
    monkeypatch.setattr(serving, "REQUEST_SECONDS", 0.5)
    with served(ClientBounds(body=1000)) as (_, port):
        assert status(port, data=b"x" * 1000) == 200
        with contextlib.suppress(ConnectionError, urllib.error.URLError):  # closed while it is still being sent
            assert status(port, data=b"x" * 2000) == 413
        with connect(f"ws://127.0.0.1:{port}/") as client, pytest.raises(ConnectionClosed):
            exchange(client, ["x" * 2000])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as slow:
            slow.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf")
            assert slow.recv(100).split()[1] == b"408"


def test_unread_messages_are_bounded():
    with served() as (echo, port), connect(f"ws://127.0.0.1:{port}/") as client:
        client.send("search")
        assert echo.searching.wait(30)
        with pytest.raises(ConnectionClosed):
            exchange(client, ["more"] * 1000)
        assert echo.ended.wait(30)


BUSY = """
import asyncio, sys, time
from sparring.configs.core.serving import GuardedApp, bounded_server
from tests.configs.core.test_serving import Echo
class Deaf(Echo):
    async def search(self):
        if sys.argv[1] == "thread":
            await asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)
        while True:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                pass
bounded_server(GuardedApp(Deaf()), largest_message=1000, port=0, log_level="info").run()
"""


@pytest.mark.parametrize(("kind", "sent"), [("thread", signal.SIGTERM), ("task", signal.SIGINT)])
def test_signal_stops_server_under_load(kind, sent):
    process = subprocess.Popen([sys.executable, "-c", BUSY, kind], stderr=subprocess.PIPE, text=True)
    try:
        line = next(line for line in process.stderr if "running on" in line)
        port = int(line.split("127.0.0.1:")[1].split()[0])
        with contextlib.ExitStack() as opened:
            for _ in range(3):
                opened.enter_context(connect(f"ws://127.0.0.1:{port}/")).send("search")
                opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            process.send_signal(sent)
            assert process.wait(60) in (-sent, 128 + sent, 1)  # the work would go on for ten minutes
    finally:
        process.kill()
        process.communicate()


def test_in_thread_returns_results_and_errors():
    async def main():
        assert await in_thread(lambda: 4) == 4
        with pytest.raises(ZeroDivisionError):
            await in_thread(lambda: 1 / 0)

    asyncio.run(main())
