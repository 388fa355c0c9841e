"""The local server of every game: its pages, one WebSocket, open to the browser that came with the token only.

A game is a `HostedGame`; it sees messages, never requests. The server listens on 127.0.0.1. The printed address holds a
token that works once and is exchanged for a cookie, which pages and WebSocket require. Requests with a foreign Host and
WebSockets with a foreign Origin are refused. The pages load nothing and connect to this WebSocket only.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sparring.configs.core.errors import InputError, as_called, require_packages
from sparring.configs.core.serving import bounded_server, passes
from sparring.eval.options import SEED, CommandOptions, argument

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.websockets import WebSocket

Send = Callable[[dict[str, Any]], Awaitable[None]]
"""Sends a message to the page."""


class PlayConnection(Protocol):
    """What a game does for one open page."""

    async def receive(self, message: Any) -> None:
        """Apply a message, JSON of any form. Raises `InputError` for a wrong one, whose text becomes a note."""

    async def run(self) -> None:
        """Send what happens without a message, until cancelled."""

    def close(self) -> None:
        """Release what the connection holds."""


def failure_note(text: str) -> dict[str, Any]:
    """Return the message that something was not done; other notes have no `failed`, and are not shown in red."""
    return {"kind": "note", "text": text, "failed": True}


async def answer(connection: PlayConnection, text: str, send: Send) -> None:
    """Hand a text of the page over; a wrong one is answered with `failure_note`."""
    try:
        await connection.receive(_parse(text))
    except InputError as error:
        await send(failure_note(str(error)))


async def play_connection(
    connection: PlayConnection, texts: Callable[[], Awaitable[str]], send: Send, gone: type[Exception]
) -> None:
    """Serve one connection until `texts` or `send` raises `gone`."""
    loop = asyncio.create_task(connection.run())
    try:
        with suppress(gone):
            while not loop.done():
                await answer(connection, await texts(), send)
    finally:
        loop.cancel()
        with suppress(asyncio.CancelledError, gone):
            await loop
        connection.close()


def free_path(folder: Path, stem: str, *endings: str) -> Path:
    """Return the first of STEM-1, STEM-2 ... that is free in `folder` with all endings, with the first of them."""
    numbers = (number for number in count(1) if not any((folder / f"{stem}-{number}{end}").exists() for end in endings))
    return folder / f"{stem}-{next(numbers)}{endings[0]}"


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("not understood") from None


SCRIPT = "eval/play.py"
PORT = 8760
PORTS = "[0, 65535]"
_PAGE = "the page"
AFTER_EXAMPLES = """

The page is for the browser of this machine: the address works once. On another machine, forward the port with
ssh -L 8760:127.0.0.1:8760 and open the address there.

exit codes: 0 done, 2 bad input or a package missing, 130 stopped with Ctrl-C"""


@dataclass(frozen=True, kw_only=True)
class ServerOptions(CommandOptions):
    """Options of a game on the local server."""

    NEEDS: ClassVar[Mapping[str, str]] = dict.fromkeys(("starlette", "uvicorn", "websockets"), "play")
    """Packages beside those of the extra `train`, each with the extra that installs it."""
    env: str = argument("", metavar="G", group=_PAGE)
    """The game: dogfight, air_combat, diplomacy, chess, pettingzoo, openspiel (default: the opponent's)."""
    seed: int = argument(0, SEED, metavar="N", group=_PAGE)
    """Seed of the first match (default: 0)."""
    port: int = argument(PORT, PORTS, metavar="N", group=_PAGE)
    """Port of 127.0.0.1; 0 takes any free one."""
    no_browser: bool = argument(False, group=_PAGE)
    """Print the address without opening it."""
    quiet: bool = argument(False, group=_PAGE)
    """Print only the address, and errors."""


@dataclass(frozen=True)
class BrowserGame:
    """How a game is played in the browser: its options, and what serves it."""

    options: type[ServerOptions]
    play: Callable[[Any], None]
    page: Callable[[str], tuple[str, str]] | None = None
    """Function of a policy's name that returns its short name and a page of one file with it, without torch."""


HOST = "127.0.0.1"
LARGEST_MESSAGE = 4096
"""Bytes of a message of the page."""
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_CONTENT = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; connect-src {socket}"
)
"""Content-Security-Policy of every page: no loads, and no connections but its own WebSocket."""


class HostedGame(Protocol):
    """What the server needs of a game. It must stay responsive: long work belongs into a thread."""

    def page(self, path: str, socket: str) -> str | None:
        """Return the HTML of the page at `path`, "/" for the one to play on, else None.

        The page opens its WebSocket at `/match`, as `new WebSocket("ws://" + location.host + "/match")`; `socket`,
        "ws://127.0.0.1:8760", is what a Content-Security-Policy of its own must allow.
        """

    def connect(self, send: Send) -> PlayConnection:
        """Return a new connection, for a page that was opened; `send` sends it a message."""


def open_browser(address: str) -> bool:
    """Open the address and return whether a browser was started.

    Without a display it is not: a browser for terminals would take the terminal, and runs no scripts.
    """
    has_display = sys.platform != "linux" or {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"} & {*os.environ}
    return bool(has_display) and webbrowser.open(address)


def listen(port: int) -> socket.socket:
    """Return a socket that listens on 127.0.0.1; port 0 takes any free one. Raises `InputError` if it is taken."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise InputError(f"--port {port}: {error.strerror}; give another, or 0 for any free one") from error
    return listening


class Gate:
    """Decides which requests pass: by Host, Origin, and the token or the cookie that it was exchanged for."""

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(24)
        self.cookie = f"sparring-play-{port}"
        self.hosts = (f"{HOST}:{port}", f"localhost:{port}")
        self._key = secrets.token_urlsafe(24)
        self._unused = True

    @property
    def address(self) -> str:
        """The address to open, which works once."""
        return f"http://{self.hosts[0]}/?token={self.token}"

    def is_ours(self, headers: Mapping[str, str], *, socket: bool = False) -> bool:
        """Return whether Host is this server, and Origin too; a WebSocket must state its Origin."""
        return passes(headers, self.hosts, needs_origin=socket)

    def exchange(self, token: str) -> str | None:
        """Return the cookie's value for the token, the first time; else None."""
        if self._unused and secrets.compare_digest(token.encode(), self.token.encode()):
            self._unused = False
            return self._key
        return None

    def knows(self, cookies: Mapping[str, str]) -> bool:
        """Return whether the cookie is the one given for the token."""
        return secrets.compare_digest(cookies.get(self.cookie, "").encode(), self._key.encode())


def make_app(hosted: HostedGame, gate: Gate) -> Starlette:
    """Return the application: the pages of the game, and `/match`, the WebSocket of a match."""
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse
    from starlette.routing import Route, WebSocketRoute
    from starlette.websockets import WebSocketDisconnect

    async def show(request: Request) -> Response:
        if not gate.is_ours(request.headers):
            return PlainTextResponse("This server answers only to its own address.\n", 403, _HEADERS)
        if key := gate.exchange(request.query_params.get("token", "")):
            response: Response = RedirectResponse("/", 303, _HEADERS)
            response.set_cookie(gate.cookie, key, httponly=True, samesite="strict")
            return response
        if not gate.knows(request.cookies):
            text = "The address works once, in one browser; start eval/play.py again for a new one.\n"
            return PlainTextResponse(as_called(text), 403, _HEADERS)
        socket = f"ws://{request.headers['host']}"
        if (page := hosted.page(request.url.path, socket)) is None:
            return PlainTextResponse("This page does not exist.\n", 404, _HEADERS)
        return HTMLResponse(page, headers=_HEADERS | {"Content-Security-Policy": _CONTENT.format(socket=socket)})

    async def connect(connection: WebSocket) -> None:
        if not (gate.is_ours(connection.headers, socket=True) and gate.knows(connection.cookies)):
            await connection.close(1008)
            return
        await connection.accept()

        async def send(message: dict[str, Any]) -> None:
            try:
                await connection.send_text(json.dumps(message))
            except RuntimeError as error:  # uvicorn's, where the page went away in the middle of a match
                raise WebSocketDisconnect(1006) from error

        async def texts() -> str:
            message = await connection.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message["code"])
            return message.get("text") or ""  # bytes are not a message

        await play_connection(hosted.connect(send), texts, send, WebSocketDisconnect)

    return Starlette(routes=[Route("/{path:path}", show), WebSocketRoute("/match", connect)])


def serve_game(options: ServerOptions, make: Callable[[], HostedGame]) -> None:
    """Print the address of the game that `make` returns, open it, and serve it until the process is interrupted.

    `make` loads what takes long, after the port is taken. Raises `InputError` for a missing package or a taken port.
    """
    require_packages(options.NEEDS)
    with listen(options.port) as listening:
        hosted = make()
        gate = Gate(listening.getsockname()[1])
        print(f"Play at {gate.address}\nThe address works once; Ctrl-C ends the server.", flush=True)
        if not options.no_browser and not open_browser(gate.address):
            port = listening.getsockname()[1]
            print(f"No browser opens here; from another machine: ssh -L {port}:{HOST}:{port} HOST", flush=True)
        serve(hosted, gate, listening)


def serve(hosted: HostedGame, gate: Gate, listening: socket.socket) -> None:
    """Answer requests until the process is interrupted; then raises `KeyboardInterrupt`."""
    make_server(hosted, gate).run(sockets=[listening])
    raise KeyboardInterrupt  # uvicorn ends on a signal only, and sometimes does so without raising it again


def make_server(hosted: HostedGame, gate: Gate) -> uvicorn.Server:
    """Return the server of `make_app`; without access log, which would hold the token."""
    return bounded_server(make_app(hosted, gate), largest_message=LARGEST_MESSAGE)
