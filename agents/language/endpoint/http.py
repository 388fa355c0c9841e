"""One request to an endpoint and its answer, bounded in time and memory.

Socket timeouts only limit the time between bytes, so a slow server could exceed any total; a timer therefore shuts the
connection when the time is up. `http.client` follows no redirects and uses no proxy, so the key reaches only the host
of `endpoint.url`. Every request opens a new connection, so connections are never stale.

An error leaves here only as new text without the key, and with no cause, whose text would be the server's own.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Event, Timer
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import urlsplit

from sparring.agents.language.endpoint.answer import DONE, QUOTED, EndpointError, joined, of_status
from sparring.agents.language.endpoint.key import Key
from sparring.agents.language.endpoint.refused import STATUSES, refused_parameters
from sparring.configs.core.errors import one_line

LARGEST = 8 << 20
"""Bytes of an answer; a longer one is rejected before it is read completely."""
LONGEST_ERROR = 20_000
"""Bytes of an error in which refused parameters are looked for."""
DIGITS = 20
"""Of a whole number in an answer; ids and counts have fewer, and Python reads none of more than 4,300."""
Read = TypeVar("Read")


class Client:
    """HTTP client of the server at `url`, with a key."""

    def __init__(self, url: str, key: Key, *, largest: int = LARGEST) -> None:
        parts = urlsplit(url)
        self._url, self._path = url.rstrip("/"), parts.path.rstrip("/")
        self._address = (parts.hostname or "", parts.port)
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._key, self._largest = key, largest
        self._under_way: dict[socket.socket, Event] = {}

    def ask(
        self, path: str, body: Mapping[str, Any] | None, seconds: float, read: Callable[[Mapping[str, Any]], Read]
    ) -> Read:
        """POST `body` as JSON, or GET without one, and return what `read` makes of the JSON object of the answer.

        Raises `EndpointError` without the key, also for an error of `read`.
        """
        try:
            return read(self._answer(path, body, seconds))
        except EndpointError as error:
            failure = error
        raise failure.told(self.hide(str(failure)))  # outside of `except`, for an error without a context

    def hide(self, text: str) -> str:
        """Return the text without the key."""
        return self._key.hide(text)

    def _answer(self, path: str, body: Mapping[str, Any] | None, seconds: float) -> dict[str, Any]:
        response, content = self._exchange(path, body, seconds)
        where = f"{self._url}{path}"
        if response.status != 200:
            # Hidden before it is cut, for a part of the key would be left at the end.
            message = self.hide(" ".join(f"{response.reason} {content.decode('utf-8', 'replace')}".split()))
            text = f"{where} answers {response.status} {one_line(message[: 8 * QUOTED])[:QUOTED]}"
            error = of_status(response.status, text, response.getheader("Retry-After"))
            if response.status in STATUSES and body:
                error.refused = refused_parameters(content[:LONGEST_ERROR].decode("utf-8", "replace"), body)
            raise error
        try:
            answer = _parsed(content.decode("utf-8-sig"))
        except _NumberError as error:
            raise EndpointError("malformed", f"{where} sends {error}") from None
        except (ValueError, RecursionError) as error:
            raise EndpointError("malformed", f"{where} returned invalid JSON ({type(error).__name__})") from None
        if not isinstance(answer, dict):
            raise EndpointError("malformed", f"{where} returned JSON that is not an object")
        return answer

    def close(self) -> None:
        """End all running requests, as if their time were up."""
        for sock, cut in list(self._under_way.items()):
            _shut(sock, cut)

    def _exchange(self, path: str, body: Mapping[str, Any] | None, seconds: float) -> tuple[HTTPResponse, bytes]:
        where, started, cut = f"{self._url}{path}", monotonic(), Event()
        with closing(self._kind(*self._address, timeout=seconds)) as connection:
            try:
                connection.connect()
                with self._cut_after(seconds - (monotonic() - started), connection.sock, cut):
                    return self._send(connection, path, body, where)
            except (OSError, HTTPException, ValueError, EndpointError) as error:
                if cut.is_set() or isinstance(error, TimeoutError):
                    raise EndpointError("timeout", f"{where} did not answer within {seconds:.3g} s") from None
                if isinstance(error, EndpointError):
                    raise
                reason = one_line(self.hide(str(error)))[:QUOTED] or type(error).__name__
                text = f"{where}: {reason}; start the server, or set endpoint.url to its address"
                raise EndpointError("connection", text) from None

    @contextmanager
    def _cut_after(self, seconds: float, sock: socket.socket, cut: Event) -> Iterator[None]:
        """Shut the connection and set `cut` once the time is up; an answer truncated by it raises `TimeoutError`."""
        self._under_way[sock] = cut
        timer = Timer(max(seconds, 0.0), _shut, (sock, cut))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            self._under_way.pop(sock, None)
        if cut.is_set():
            raise TimeoutError

    def _send(
        self, connection: HTTPConnection, path: str, body: Mapping[str, Any] | None, where: str
    ) -> tuple[HTTPResponse, bytes]:
        headers = {"Content-Type": "application/json", "Connection": "close", **self._key.headers()}
        content = None if body is None else json.dumps(body).encode()
        connection.request("GET" if body is None else "POST", f"{self._path}{path}", content, headers)
        with closing(connection.getresponse()) as response:
            received = response.read(self._largest + 1)
            if len(received) > self._largest:
                raise EndpointError("too_large", f"{where} returned more than {self._largest} bytes", retryable=False)
            if response.length:
                raise EndpointError("connection", f"{where} disconnected before the end")
            return response, received


class _NumberError(ValueError):
    """A number in an answer with too many digits."""


def _parsed(text: str) -> Any:
    """Return the JSON of an answer; events, which some servers send unasked, are joined."""
    if not text.startswith(("data:", "event:", "id:", ":")):
        return json.loads(text, parse_int=_whole)
    events = (line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:"))
    return joined([DONE if event == DONE else json.loads(event, parse_int=_whole) for event in events if event])


def _whole(digits: str) -> int:
    if len(digits.lstrip("-")) > DIGITS:
        raise _NumberError(f"a number of {len(digits)} digits; at most {DIGITS} are read")
    return int(digits)


def _shut(sock: socket.socket, cut: Event) -> None:
    cut.set()
    with suppress(OSError):
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not TLS's shutdown, which waits for the peer
