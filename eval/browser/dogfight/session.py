"""The dogfight on the local server: the messages of a page, and the loop that plays its match in real time.

60 frames a second go out, each after the ticks of the time that has passed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from sparring.agents.opponents.dogfight.load import Entrant
from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.typed import Flag, Number, Text, read, require
from sparring.envs.dogfight.recording import short_names
from sparring.envs.dogfight.rules import REGIMES, TICKS_PER_SECOND
from sparring.eval.browser.connection import Send, free_path, in_thread
from sparring.eval.browser.dogfight.live_match import YOU, LiveMatch
from sparring.eval.browser.dogfight.pages import live_page
from sparring.eval.dogfight.replay import write_replay

FRAME = 1 / 60
"""Seconds between frames."""
LONGEST = 0.1
"""Seconds that one frame may stand for; a machine that is later loses time instead of jumping."""


class FlightMessage(TypedDict):
    """A message of the page; the keys beside `kind` depend on it."""

    kind: Literal["begin", "pace", "hold", "save"]
    opponent: NotRequired[Text]
    regime: NotRequired[Text]
    speed: NotRequired[Annotated[Number, Field(ge=0.1, le=2.0)]]
    paused: NotRequired[Flag]
    action: NotRequired[Annotated[list[Number], Field(min_length=3, max_length=3)]]


@dataclass(frozen=True)
class Stage:
    """The dogfight as the server hosts it: common settings of all connections, each with a match of its own."""

    opponents: tuple[str, ...]
    """Names offered by the page; no others are loaded."""
    rules: str | None
    seed: int
    folder: Path
    """Folder of saved replays."""
    load: Callable[[str], Entrant]
    """Loads an opponent by its name; raises `InputError` for an unusable one."""

    def page(self, path: str, socket: str) -> str | None:
        """Return the page at "/"."""
        return live_page(self.opponents, socket) if path == "/" else None

    def connect(self, send: Send) -> FlightSession:
        """Return a new connection."""
        return FlightSession(self, send)


class FlightSession:
    """The match of one connection. `receive` takes the page's messages, `run` plays until it is cancelled."""

    def __init__(self, stage: Stage, send: Send) -> None:
        self._stage, self._send = stage, send
        self._match: LiveMatch | None = None
        self._entrants: dict[str, Entrant] = {}
        self._matches = 0
        self._action, self._speed, self._paused = [0.0, 0.0, 0.0], 1.0, True
        self._changed = asyncio.Event()

    async def receive(self, message: Any) -> None:
        """Apply one message. Raises `InputError` for a wrong one, or an opponent that cannot play."""
        flight = read(FlightMessage, message, "message")
        await getattr(self, f"_{flight['kind']}")(flight)

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
            else:
                await asyncio.sleep(max(before + FRAME - clock(), 0.0))
                before, passed = clock(), clock() - before
                owed += min(passed, LONGEST) * TICKS_PER_SECOND * self._speed
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

    async def _begin(self, message: FlightMessage) -> None:
        name = choose("opponent", message.get("opponent", self._stage.opponents[0]), self._stage.opponents)
        regime = choose("regime", message.get("regime", "default"), tuple(REGIMES))
        self._paused = True
        if name not in self._entrants:
            await self._send({"kind": "note", "text": f"loading {name} ..."})
            # Loading takes seconds: a thread keeps the connection alive meanwhile.
            self._entrants[name] = await in_thread(lambda: self._stage.load(name))
        seed = (self._stage.seed + self._matches) % 2**31
        self._matches += 1
        match = LiveMatch(self._entrants[name], regime=regime, seed=seed, rules=self._stage.rules)
        self.close()
        self._match = match
        wraps, note = match.rules == "challenge", f"{match.rules} rules · {regime}"
        names = [YOU, match.opponent.name]
        about: dict[str, Any] = {"names": names, "short": short_names(*names), "regime": regime, "note": note}
        about |= {"maxHp": match.max_hp, "wraps": wraps}
        await self._send({"kind": "match", **about})
        await self._send({"kind": "frame", **match.frame.message()})
        await self._send({"kind": "note", "text": "; ".join(match.opponent.notes)})

    async def _pace(self, message: FlightMessage) -> None:
        self._speed = message.get("speed", self._speed)
        self._paused = message.get("paused", self._paused)
        self._changed.set()

    async def _hold(self, message: FlightMessage) -> None:
        require("action" in message, "message.action is missing")
        self._action = message["action"]

    async def _save(self, message: FlightMessage) -> None:
        require(self._match is not None and self._match.over, "a replay is saved after the end of the match")
        assert self._match is not None
        path = free_path(self._stage.folder, "match", ".html")
        try:
            write_replay(path, [self._match.recording()])
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror}); give another --replays") from error
        await self._send({"kind": "note", "text": f"saved {path}"})
