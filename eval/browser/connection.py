"""One connection of a page: JSON messages in, JSON messages out, and a task that runs as long as it lasts.

Also what the games share beside it: slow work in a thread, and names of new files.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any, Protocol, TypeVar, cast

from sparring.configs.core.errors import InputError

T = TypeVar("T")

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


async def in_thread(work: Callable[[], T]) -> T:
    """Return the result of `work`, run in a thread that does not delay the end of the process, unlike an executor's."""
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
    return await done


def free_path(folder: Path, stem: str, *endings: str) -> Path:
    """Return the first of STEM-1, STEM-2 ... in `folder` of which no file exists, with the first ending."""
    numbers = (number for number in count(1) if not any((folder / f"{stem}-{number}{end}").exists() for end in endings))
    return folder / f"{stem}-{next(numbers)}{endings[0]}"


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("not understood") from None
