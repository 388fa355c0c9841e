"""A game that every open page of a server shows: pages are told after each change, and players are asked meanwhile."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from sparring.eval.browser.server import Send


class WatchedGame(ABC):
    """The one game of a server; a subclass holds its rules, and calls `tell` after every change."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._watchers: set[Callable[[], None]] = set()

    @abstractmethod
    def message(self) -> dict[str, Any]:
        """Return what a page shows."""

    @abstractmethod
    def think(self) -> None:
        """Ask the player to move, unless that is the person."""

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call `changed` after every change of the game, until the returned function is called."""
        self._watchers.add(changed)
        return lambda: self._watchers.discard(changed)

    def tell(self) -> None:
        """Say that the game has changed."""
        for changed in [*self._watchers]:
            changed()

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine beside the pages."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop holds weak references only
        task.add_done_callback(self._tasks.discard)


Game = TypeVar("Game", bound=WatchedGame)


class WatchingPage(ABC, Generic[Game]):
    """One open page. A subclass takes its messages; `run` sends the game after every change."""

    def __init__(self, game: Game, send: Send) -> None:
        self._table, self._send = game, send
        self._changed = asyncio.Event()
        self._changed.set()
        self._leave = game.watch(self._changed.set)

    @abstractmethod
    async def receive(self, message: Any) -> None:
        """Apply one message. Raises `InputError` for a wrong one."""

    async def run(self) -> None:
        """Send the game now and after every change, until cancelled; a player that is to move is asked."""
        self._table.think()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._send(self._table.message())

    def close(self) -> None:
        """Stop watching the game, which goes on."""
        self._leave()
