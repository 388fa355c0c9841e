"""One connection of a page: JSON messages in, JSON messages out, and a task that runs as long as it lasts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

from sparring.configs.core.errors import InputError

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


async def answer(connection: PlayConnection, text: str, send: Send) -> None:
    """Hand a text of the page over; a wrong one is answered with `{"kind": "note", "text": ...}`."""
    try:
        await connection.receive(_parse(text))
    except InputError as error:
        await send({"kind": "note", "text": str(error)})


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


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("not understood") from None
