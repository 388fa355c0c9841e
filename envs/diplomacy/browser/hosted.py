"""A game of Diplomacy on the server: one game, shown on every open page, played in a thread.

Messages of a page: order (text), drop (place), undo, clear, submit (phase; a late click cannot submit the next one),
hint, new. Messages to all pages: phases (from a number on), turn (possible orders, drafts and their marks), thinking
(what the game waits for), notes. Each page gets `begin` when it is loaded or another game has started.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from sparring.configs.core.errors import InputError
from sparring.configs.core.serving import in_thread
from sparring.configs.core.typed import Text, read, require
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import location_name, standard_board
from sparring.envs.diplomacy.browser.live_game import LiveDiplomacy
from sparring.envs.diplomacy.evaluation.page import board_data, encode_orders, encode_phase, map_parts, page
from sparring.envs.diplomacy.orders.choices import Choices
from sparring.envs.diplomacy.records.game_log import result
from sparring.envs.diplomacy.records.timeline import KINDS, winner
from sparring.envs.text import Option
from sparring.eval.browser.server import Send, failure_note
from sparring.eval.command import fill_page, join_files

_FOLDER = Path(__file__).parent
_REPLAY = '<a href="/replay" target="_blank" rel="noopener">Replay</a>'


def play_page(power: int, players: Sequence[str], file: str) -> str:
    """Return the page for the person who plays `power`; `file` is where the game is saved."""
    data = board_data() | {"power": power, "players": list(players), "file": file}
    script = join_files(_FOLDER, "remote.js", "choose.js", "play.js")
    parts = map_parts() | {"script": script, "extra": _REPLAY, "policy": ""}
    return fill_page(_FOLDER / "page.html", title="Sparring · Diplomacy", data=data, **parts)


class TurnMessage(TypedDict):
    """A message from the page; the other keys depend on `kind`."""

    kind: Literal["order", "drop", "undo", "clear", "submit", "hint", "new"]
    text: NotRequired[Text]
    place: NotRequired[Text]
    phase: NotRequired[Text]


class HostedDiplomacy:
    """One game and the pages that show it; `renew` creates another one with the same players."""

    def __init__(self, game: LiveDiplomacy, renew: Callable[[], LiveDiplomacy]) -> None:
        self._game, self._renew = game, renew
        self._pages: list[Send] = []
        self._thinking: asyncio.Task[None] | None = None
        self._waiting_for = ""

    def page(self, path: str, socket: str) -> str | None:
        """Return the game page at "/", and a replay of the game so far at "/replay"."""
        seat, phases = self._game.seat, self._game.phases
        if path == "/":
            return play_page(seat.power, seat.names, str(seat.file))
        return page(phases, players=seat.names) if path == "/replay" else None

    def connect(self, send: Send) -> DiplomacyConnection:
        """Return a new connection."""
        return DiplomacyConnection(self, send)

    async def open(self, send: Send) -> None:
        """Show the game to a page, from now on."""
        await send(self._phases(0))
        await send(self._turn())
        self._pages.append(send)

    def leave(self, send: Send) -> None:
        """Remove a closed page; the game continues."""
        if send in self._pages:
            self._pages.remove(send)

    async def apply(self, message: TurnMessage) -> None:
        """Change the drafts or submit them. Raises `InputError` for an invalid change."""
        require(self._thinking is None, "the others are ordering; wait for the results")
        kind = message["kind"]
        require(kind == "new" or not self._game.over, "the game is over")
        if kind == "new":
            self._thinking = asyncio.create_task(self._begin())
        elif kind == "submit":
            require(message.get("phase") == self._game.phases[-1]["name"], "message.phase is not the current phase")
            self._thinking = asyncio.create_task(self._play())
        elif kind == "hint":
            self._thinking = asyncio.create_task(self._hint())
        elif kind == "order":
            require("text" in message, "message.text is missing")
            self._game.draft(message["text"])
        elif kind == "drop":
            require("place" in message, "message.place is missing")
            self._game.drop(message["place"])
        elif kind == "undo":
            self._game.undo()
        else:
            self._game.clear()
        await self._tell(self._turn())

    async def _play(self) -> None:
        """Play this phase, and the following ones until the person has orders to give."""
        loop, game, problem = asyncio.get_running_loop(), self._game, ""

        def wait_for(line: str) -> None:
            with suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(lambda: asyncio.ensure_future(self._wait_for(line)))

        try:
            while True:
                before = len(game.phases) - 1
                await in_thread(lambda: game.advance(wait_for))
                await self._tell(self._phases(before))
                if game.over or game.out or game.choices.lines:
                    break
        except InputError as error:
            problem = str(error)
        except Exception as error:  # an opponent in Python: its author needs the traceback, the game continues
            traceback.print_exception(error)
            problem = f"{type(error).__name__}: {error}"
        self._thinking, self._waiting_for = None, ""
        await self._tell(self._turn())
        await self._tell(failure_note(problem or game.problem))

    async def _hint(self) -> None:
        """Draft the orders that a search would give."""
        await self._wait_for("a search looks for your orders")
        try:
            note = {"kind": "note", "text": await in_thread(self._game.hint)}
        except InputError as error:
            note = failure_note(str(error))
        self._thinking, self._waiting_for = None, ""
        await self._tell(self._turn())
        await self._tell(note)

    async def _begin(self) -> None:
        """Replace this game with a new one and keep its file."""
        problem, ended = "", self._game
        try:
            self._game = await in_thread(self._renew)
        except InputError as error:  # its file cannot be written
            problem = str(error)
        self._thinking = None
        if problem:
            await self._tell(self._turn())
            await self._tell(failure_note(problem))
        else:
            ended.close()
            await self._tell({"kind": "begin"})

    async def _wait_for(self, line: str) -> None:
        if self._thinking:
            self._waiting_for = line
            await self._tell({"kind": "thinking", "text": line})

    async def _tell(self, message: dict[str, Any]) -> None:
        for send in list(self._pages):
            try:
                await send(message)
            except Exception:  # the page was closed; servers report this differently, and the connection ends anyway
                self.leave(send)

    def _phases(self, begin: int) -> dict[str, Any]:
        """Return the phases from number `begin` on."""
        phases = self._game.phases
        pairs = zip(phases[begin:], [*phases[begin + 1 :], None], strict=True)
        return {"kind": "phases", "begin": begin, "phases": [encode_phase(phase, after) for phase, after in pairs]}

    def _turn(self) -> dict[str, Any]:
        game = self._game
        shared = {"kind": "turn", "phase": game.phases[-1]["name"], "waitingFor": self._waiting_for}
        if self._thinking:
            return shared | {"state": "thinking"}
        ended = {"result": result(game.phases), "winner": winner(game.phases)} if game.over else {}
        return (shared | ended) | {
            "state": "over" if game.over else "out" if game.out else "ordering",
            "options": _options(game.choices),
            "lines": game.choices.lines,
            "winter": game.choices.winter,
            "orders": [{"place": location_name(slot), "text": draft.text} for slot, draft in game.drafts.items()],
            "marks": encode_orders(game.drafted),
            "undo": game.can_undo,
        }


class DiplomacyConnection:
    """One open page."""

    def __init__(self, hosted: HostedDiplomacy, send: Send) -> None:
        self._hosted, self._send = hosted, send

    async def receive(self, message: Any) -> None:
        """Apply one message. Raises `InputError` for an invalid message or an illegal order."""
        await self._hosted.apply(read(TurnMessage, message, "message"))

    async def run(self) -> None:
        """Show the game until cancelled."""
        await self._hosted.open(self._send)
        await asyncio.Event().wait()

    def close(self) -> None:
        """Stop showing the game."""
        self._hosted.leave(self._send)


def _options(menu: Choices) -> dict[str, list[list[str]]]:
    """Return legal orders by province: text, kind, target province, province of the helped unit."""
    slots = zip(menu.provinces, menu.options, strict=True)
    return {location_name(slot): [_option(option) for option in options] for slot, options in slots}


def _option(option: Option) -> list[str]:
    kind, target, other, _ = codes.unpack(option.value)
    aimed = kind in (codes.MOVE, codes.SUPPORT, codes.SUPPORT_MOVE, codes.CONVOY, codes.RETREAT)
    helped = target if kind == codes.SUPPORT else other if kind in (codes.SUPPORT_MOVE, codes.CONVOY) else None
    return [option.text, KINDS[kind], _province(target) if aimed else "", "" if helped is None else _province(helped)]


def _province(location: int) -> str:
    return location_name(int(standard_board().province_of[location]))
