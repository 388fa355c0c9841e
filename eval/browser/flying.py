"""A match that a person flies on a page of the local server: messages come in, and a frame for every picture goes out.

The dogfight and air combat share it. A game has a `FlightStage`, the settings of its server, which makes the matches
and writes their replays, and every open page has a match of its own.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from sparring.agents.opponents.players import released_of, runs_of
from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.files import CHECKPOINTS
from sparring.configs.core.serving import in_thread
from sparring.configs.core.typed import Flag, Number, Text, read, require
from sparring.envs.game import Game
from sparring.eval.browser.server import Send, free_path

YOU = "You"
FRAME = 1 / 60
"""Seconds between frames."""
LONGEST = 0.1
"""Seconds that one frame may stand for; a machine that is later loses time instead of jumping."""


class FlightChoices(TypedDict):
    """What a message of the page may say in both games, beside its `kind`."""

    opponent: NotRequired[Text]
    speed: NotRequired[Annotated[Number, Field(ge=0.1, le=2.0)]]
    paused: NotRequired[Flag]


@dataclass(frozen=True)
class FlightStage(ABC):
    """A game as the server hosts it: common settings of all connections, each with a match of its own."""

    opponents: tuple[str, ...]
    """Names offered by the page; no others are loaded."""
    seed: int
    folder: Path
    """Folder of saved replays."""
    load: Callable[[str], Any]
    """Loads an opponent by its name; raises `InputError` for an unusable one."""

    MESSAGE: ClassVar[Any]
    """Type of a message, which also has its `kind` and an `action`."""
    RESTING: ClassVar[tuple[float, ...]]
    """Action of a page that has sent none."""
    TICKS_PER_SECOND: ClassVar[int]
    REPLAY: ClassVar[str]
    """Beginning of a replay's name."""
    SETTING: ClassVar[tuple[str, tuple[str, ...]]]
    """What a person may choose of a match beside the opponent: its name in messages, and its values."""

    @property
    @abstractmethod
    def usual(self) -> str:
        """The setting of a match without a chosen one."""

    @abstractmethod
    def html(self, socket: str) -> str:
        """Return the page, which may open WebSockets of `socket`."""

    @abstractmethod
    def start(self, opponent: Any, setting: str, seed: int) -> tuple[Any, dict[str, Any], str]:
        """Return a match of a person in seat 0 against a loaded opponent, what the page is told of it, and a note.

        A match has `frame`, whose `message()` the page draws, `over`, `tick(action)` and `close()`.
        """

    @abstractmethod
    def write(self, path: Path, match: Any) -> None:
        """Write the replay of a match that is over."""

    def page(self, path: str, socket: str) -> str | None:
        """Return the page at "/"."""
        return self.html(socket) if path == "/" else None

    def connect(self, send: Send) -> FlightSession:
        """Return a new connection."""
        return FlightSession(self, send)


class FlightSession:
    """The match of one connection. `receive` takes the page's messages, `run` plays until it is cancelled."""

    def __init__(self, stage: FlightStage, send: Send) -> None:
        self._stage, self._send = stage, send
        self._match: Any = None
        self._opponents: dict[str, Any] = {}
        self._matches = 0
        self._action, self._speed, self._paused = list(stage.RESTING), 1.0, True
        self._changed = asyncio.Event()

    async def receive(self, message: Any) -> None:
        """Apply one message. Raises `InputError` for a wrong one, or an opponent that cannot play."""
        content = read(self._stage.MESSAGE, message, "message")
        await getattr(self, f"_{content['kind']}")(content)

    async def run(self) -> None:
        """Play in real time whenever there is a match that is neither paused nor over."""
        clock = asyncio.get_running_loop().time
        before, owed = clock(), 0.0
        while True:
            match = self._match
            if match is None or self._paused or match.over:
                self._changed.clear()
                await self._changed.wait()
                before, owed = clock(), 0.0
                continue
            await asyncio.sleep(max(before + FRAME - clock(), 0.0))
            before, passed = clock(), clock() - before
            owed += min(passed, LONGEST) * self._stage.TICKS_PER_SECOND * self._speed
            if owed >= 1.0 and match is self._match:
                for _ in range(int(owed)):
                    match.tick(self._action)
                await self._send({"kind": "frame", **match.frame.message()})
            owed %= 1.0

    def close(self) -> None:
        """Release the match."""
        if self._match:
            self._match.close()
            self._match = None

    async def _begin(self, message: Any) -> None:
        stage = self._stage
        name = choose("opponent", message.get("opponent", stage.opponents[0]), stage.opponents)
        what, allowed = stage.SETTING
        setting = choose(what, message.get(what, stage.usual), allowed)
        self._paused = True
        if name not in self._opponents:
            await self._send({"kind": "note", "text": f"loading {name} ..."})
            # Loading takes seconds: a thread keeps the connection alive meanwhile.
            self._opponents[name] = await in_thread(lambda: stage.load(name))
        seed = (stage.seed + self._matches) % 2**31
        self._matches += 1
        match, about, note = stage.start(self._opponents[name], setting, seed)
        self._prepare(match)
        self.close()
        self._match = match
        await self._send({"kind": "match", **about})
        await self._send({"kind": "frame", **match.frame.message()})
        await self._send({"kind": "note", "text": note})

    def _prepare(self, match: Any) -> None:
        """Bring a new match to what the person ordered before."""

    async def _pace(self, message: Any) -> None:
        self._speed = message.get("speed", self._speed)
        self._paused = message.get("paused", self._paused)
        self._changed.set()

    async def _hold(self, message: Any) -> None:
        require("action" in message, "message.action is missing")
        self._action = message["action"]

    async def _save(self, message: Any) -> None:
        require(self._match is not None and self._match.over, "a replay is saved after the end of the match")
        path = free_path(self._stage.folder, self._stage.REPLAY, ".html")
        try:
            self._stage.write(path, self._match)
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror}); give another --replays") from error
        await self._send({"kind": "note", "text": f"saved {path}"})


def known_opponents(game: Game, first: str) -> tuple[str, ...]:
    """Return the names that a page offers: `first`, the bots, released policies, and runs with a final policy."""
    names = (first, *game.bots, *released_of(game, CHECKPOINTS), *runs_of(game, CHECKPOINTS))
    return tuple(dict.fromkeys(names))
