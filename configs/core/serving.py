"""Local HTTP servers: which requests pass, how long and how often a client may wait, and how the server ends.

A foreign web page can make a browser send requests to this machine, also under a name that resolves to 127.0.0.1 (DNS
rebinding). So `Host` must be a name of the server, or an address, which cannot be rebound, and `Origin`, if sent, must
be that host. `GuardedApp` adds limits per client to an ASGI application: body size, idle time, and concurrent requests.
A request's task is cancelled when its client disconnects, and `in_thread` signals this to the work. `bounded_server`
closes connections without a request, and shuts down in bounded time.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from threading import Thread, Timer
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import uvicorn

T = TypeVar("T")
Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Sender = Callable[[Message], Awaitable[None]]

REQUEST_SECONDS = 10.0
"""Longest wait for the head of a request, and for its body."""
MOST_SILENT = 32
"""Connections of one peer that have sent no request; the oldest is closed for a new one."""
MOST_WAITING = 16
"""Messages of a WebSocket that the application has not read yet."""
END_SECONDS = 5.0
"""Longest time from a signal to the end of the process."""
ENDS = ("http.response.body", "websocket.close")
"""Last messages of an application."""
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def passes(headers: Mapping[str, str], hosts: Collection[str], *, needs_origin: bool = False) -> bool:
    """Return whether Host is one of `hosts`, and Origin is that host; it may be absent unless `needs_origin`."""
    host, origin = headers.get("host", ""), headers.get("origin")
    if host not in hosts:
        return False
    return not needs_origin if origin is None else origin == f"http://{host}"


def is_address(name: str) -> bool:
    """Return whether a host is an IP address, which DNS rebinding cannot redirect to this machine."""
    try:
        return bool(ip_address(name))
    except ValueError:
        return False


@dataclass(frozen=True)
class ClientBounds:
    """Limits of one client of a server."""

    requests: int = 64
    """Concurrent requests and WebSockets of one peer."""
    body: int = 1 << 20
    """Bytes of a body or of a message."""
    first_seconds: float = 30.0
    """Until the first message of a WebSocket."""
    idle_seconds: float = 1800.0
    """Between two messages of a WebSocket, and until a client has read an answer."""


USUAL = ClientBounds()


class GuardedApp:
    """An ASGI application behind the checks of Host and Origin, and within `ClientBounds`.

    `names` are the host names that are served, with any port; addresses always are.
    """

    def __init__(self, app: Any, names: Collection[str] = (), bounds: ClientBounds = USUAL) -> None:
        self.app, self.names, self.bounds = app, {*LOOPBACK_NAMES, *names}, bounds
        self._open: Counter[str] = Counter()

    async def __call__(self, scope: Message, receive: Receive, send: Sender) -> None:
        """Serve one request or WebSocket, or the application's start and end."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        peer = str((scope.get("client") or [""])[0])
        if not self._is_served(scope):
            await _refuse(scope, receive, send, 403, "This server answers only to its own address.")
        elif self._open[peer] >= self.bounds.requests:
            await _refuse(scope, receive, send, 503, f"At most {self.bounds.requests} concurrent requests per client.")
        else:
            self._open[peer] += 1
            try:
                await _GuardedRequest(self.bounds, scope, receive, send).serve(self.app)
            finally:
                self._open[peer] -= 1
                self._open += Counter()  # drops peers without requests

    def _is_served(self, scope: Message) -> bool:
        headers = [(key.decode("latin-1").lower(), value.decode("latin-1")) for key, value in scope["headers"]]
        if sum(key == "host" for key, _ in headers) != 1 or sum(key == "origin" for key, _ in headers) > 1:
            return False
        host = dict(headers)["host"]
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return (name in self.names or is_address(name)) and passes(dict(headers), (host,))


async def _refuse(scope: Message, receive: Receive, send: Sender, status: int, text: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})  # before it is accepted: HTTP 403
        return
    headers = [(b"content-type", b"text/plain"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})


class _GuardedRequest:
    """One request; messages are read ahead to notice a client that leaves while the application works."""

    def __init__(self, bounds: ClientBounds, scope: Message, receive: Receive, send: Sender) -> None:
        self.bounds, self.scope, self._receive, self._send = bounds, scope, receive, send
        self.is_socket = scope["type"] == "websocket"
        self.end: Message = {"type": "websocket.disconnect" if self.is_socket else "http.disconnect", "code": 1001}
        self.waiting: asyncio.Queue[Message] = asyncio.Queue()
        self.limit = bounds.first_seconds if self.is_socket else REQUEST_SECONDS
        self.reading = self.answered = self.finished = False

    async def serve(self, app: Any) -> None:
        work = asyncio.ensure_future(app(self.scope, self.receive, self.send))
        ahead = asyncio.ensure_future(self._read_ahead(work))
        try:
            await work
        except asyncio.CancelledError:
            if not ahead.done():  # the server ends; a client that left is not an error
                work.cancel()
                raise
        finally:
            ahead.cancel()
            with suppress(asyncio.CancelledError):
                await ahead

    async def _read_ahead(self, work: asyncio.Future[None]) -> None:
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == self.end["type"]:
                self.waiting.put_nowait(message)
                if not (self.reading or self.finished):  # the client has left
                    work.cancel()
                return
            size += len(message.get("body") or b"")
            if size > self.bounds.body or (self.waiting.qsize() >= MOST_WAITING and self.is_socket):
                await self._give_up(413)
                work.cancel()
                return
            self.waiting.put_nowait(message)

    async def receive(self) -> Message:
        """Return the client's next message, or a disconnect after too long a silence."""
        self.reading = True
        try:
            message = await asyncio.wait_for(self.waiting.get(), self.limit)
        except TimeoutError:
            await self._give_up(408)
            return self.end
        finally:
            self.reading = False
        if message["type"] == "websocket.receive":
            self.limit = self.bounds.idle_seconds
        elif message["type"] == "http.request" and not message.get("more_body"):
            self.limit = self.bounds.idle_seconds  # only the disconnect is left to read
        return message

    async def send(self, message: Message) -> None:
        """Send a message of the application, unless the connection was abandoned."""
        if self.finished:
            return
        self.answered = True
        self.finished = message["type"] in ENDS and not message.get("more_body")
        await asyncio.wait_for(self._send(message), self.bounds.idle_seconds)

    async def _give_up(self, status: int) -> None:
        self.finished = True
        with suppress(RuntimeError, OSError):  # it is closed already
            if self.is_socket:
                await self._send({"type": "websocket.close", "code": 1008})
            elif not self.answered:
                head = {"type": "http.response.start", "status": status, "headers": [(b"connection", b"close")]}
                await self._send(head)
                await self._send({"type": "http.response.body", "body": b""})


async def in_thread(work: Callable[[], T], cancel: Callable[[], None] = lambda: None) -> T:
    """Return the result of `work`, run in a thread that does not delay the end of the process, unlike an executor's.

    A cancelled task calls `cancel`, by which the work should end.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def finish(result: T | None, error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(cast(T, result))
        else:
            done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as caught:
            error = caught
        with suppress(RuntimeError):  # the server has ended
            loop.call_soon_threadsafe(finish, result, error)

    Thread(target=run, daemon=True).start()
    try:
        return await done
    except asyncio.CancelledError:
        cancel()
        raise


def bounded_server(app: Any, *, largest_message: int, **options: Any) -> uvicorn.Server:
    """Return a server of an ASGI application; `options` are uvicorn's.

    It closes connections that do not send a whole request in time and reads messages of at most `largest_message`
    bytes. The process ends at most `END_SECONDS` after a signal.
    """
    import uvicorn
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class PromptServer(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            last = Timer(END_SECONDS, os._exit, [128 + signal.Signals(sig)])
            last.daemon = True
            last.start()
            super().handle_exit(sig, frame)

    quiet: dict[str, Any] = {"log_level": "warning", "access_log": False, "server_header": False}
    config = uvicorn.Config(
        app,
        http=with_deadline(AutoHTTPProtocol),
        ws="websockets-sansio",
        ws_max_size=largest_message,
        timeout_graceful_shutdown=1,
        **(quiet | options),
    )
    return PromptServer(config)


def with_deadline(protocol: Any) -> type[Any]:
    """Return uvicorn's HTTP `protocol`, closing a connection `REQUEST_SECONDS` after it should have sent a request.

    uvicorn itself waits indefinitely for the rest of a request. A WebSocket's handshake is a request.
    """

    class PromptHTTPProtocol(protocol):  # type: ignore[misc]
        silent: ClassVar[dict[str, list[PromptHTTPProtocol]]] = {}
        """Connections of each peer that have sent no request, the oldest first."""

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._peer = str((self.client or [""])[0])
            waiting = self.silent.setdefault(self._peer, [])
            waiting.append(self)
            if len(waiting) > MOST_SILENT:
                waiting.pop(0)._give_up()
            self._deadline: asyncio.TimerHandle | None = self.loop.call_later(REQUEST_SECONDS, self._give_up)

        def connection_lost(self, error: Exception | None) -> None:
            self._has_spoken()
            super().connection_lost(error)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.transport.get_protocol() is not self:
                self._has_spoken()
            if self.cycle is not before and self._deadline:
                self._has_spoken()
                self._deadline.cancel()
                self._deadline = None
            elif self._deadline is None and self._is_waiting():
                self._deadline = self.loop.call_later(REQUEST_SECONDS, self._give_up)

        def _has_spoken(self) -> None:
            waiting = self.silent.get(self._peer, [])
            if self in waiting:
                waiting.remove(self)
            if not waiting:
                self.silent.pop(self._peer, None)

        def _is_waiting(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _give_up(self) -> None:
            self._deadline = None
            if self.transport.get_protocol() is self and self._is_waiting():  # it is not a WebSocket by now
                self.transport.close()

    return PromptHTTPProtocol
