"""Chess as the server hosts it: pages, and the messages of one open page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Strict, StringConstraints
from typing_extensions import TypedDict

from sparring.configs.core.typed import Count, Text, read, require
from sparring.eval.browser.chess.table import ChessTable
from sparring.eval.browser.connection import Send
from sparring.eval.chess.options import SIDES
from sparring.eval.command import fill_page, join_files

MoveText = Annotated[str, Strict(), StringConstraints(min_length=1, max_length=16)]
_FOLDER = Path(__file__).parent


def live_page(opponents: Sequence[str], side: str, socket: str) -> str:
    """Return the page with a choice of `opponents`; it may connect to `socket` only. `side` is chosen at first."""
    data = {"opponents": list(opponents), "sides": list(SIDES), "side": side}
    script = join_files(_FOLDER, "pieces.js", "board.js", "page.js")
    return fill_page(_FOLDER / "page.html", title="Sparring · chess", data=data, script=script, connect=socket)


class ChessMessage(TypedDict):
    """A message of the page; the keys beside `kind` depend on it."""

    kind: Literal["begin", "move", "undo", "resign", "claim", "retry", "save"]
    opponent: NotRequired[Text]
    side: NotRequired[Text]
    text: NotRequired[MoveText]
    ply: NotRequired[Count]
    """Half-moves of the game to which the page adds a move."""


@dataclass(frozen=True)
class HostedChess:
    """The pages and connections of a server, which all show the game of one table."""

    table: ChessTable

    def page(self, path: str, socket: str) -> str | None:
        """Return the page to play on at "/", and the replay of the game so far at "/replay"."""
        if path == "/replay":
            return self.table.replay()
        return live_page(self.table.offered, self.table.rules.side, socket) if path == "/" else None

    def connect(self, send: Send) -> ChessSession:
        """Return a new connection."""
        return ChessSession(self.table, send)


class ChessSession:
    """One open page. `receive` takes its messages, `run` sends the game after every change."""

    def __init__(self, table: ChessTable, send: Send) -> None:
        self._table, self._send = table, send
        self._changed = asyncio.Event()
        self._changed.set()
        self._leave = table.watch(self._changed.set)

    async def receive(self, message: Any) -> None:
        """Apply one message. Raises `InputError` for a wrong one, a move that is not legal, or a failing opponent."""
        action = read(ChessMessage, message, "message")
        table = self._table
        match action["kind"]:
            case "begin":
                await self._begin(action)
            case "move":
                require("text" in action, "message.text is missing")
                require(action.get("ply", table.plies) == table.plies, "the game has changed; look at the board again")
                table.move(action["text"])
            case "undo":
                table.undo()
            case "resign":
                table.resign()
            case "claim":
                table.claim()
            case "retry":
                table.think()
            case "save":
                await self._note(f"saved {table.save()} and .html")

    async def run(self) -> None:
        """Send the game now and after every change, until cancelled; the opponent begins where it is to move."""
        self._table.think()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._send(self._table.message())

    def close(self) -> None:
        """Stop watching the game, which goes on."""
        self._leave()

    async def _begin(self, action: ChessMessage) -> None:
        name = action.get("opponent", self._table.opponent)
        await self._note(f"loading {name} ...")
        await self._table.begin(name, action.get("side", self._table.rules.side))
        await self._note("")

    async def _note(self, text: str) -> None:
        await self._send({"kind": "note", "text": text})
