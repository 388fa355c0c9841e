"""One connection of the page for flying: choices and the stick come in, a frame for every tick goes out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.typed import Flag, Number, Text, read, require
from sparring.envs.air_combat import rules
from sparring.eval.air_combat.replay import scene_constants, scene_parts, write_air_replay
from sparring.eval.browser.air_combat.live_flight import AUTOPILOTS, YOU, LiveFlight
from sparring.eval.browser.connection import Send, free_path, in_thread
from sparring.eval.command import fill_page, join_files

if TYPE_CHECKING:
    from sparring.agents.opponents.air_combat import Pilot

LONGEST = 0.1
"""Seconds that one frame may stand for; a machine that is later loses time instead of jumping."""
_FOLDER = Path(__file__).parent
_TITLE = "Sparring · air combat"


class AirMessage(TypedDict):
    """A message of the page; the keys beside `kind` depend on it."""

    kind: Literal["begin", "pace", "hold", "order", "save"]
    opponent: NotRequired[Text]
    model: NotRequired[Text]
    autopilot: NotRequired[Text]
    speed: NotRequired[Annotated[Number, Field(ge=0.1, le=2.0)]]
    paused: NotRequired[Flag]
    action: NotRequired[Annotated[list[Number], Field(min_length=4, max_length=4)]]


@dataclass(frozen=True)
class AirStage:
    """Air combat as the server hosts it: common settings of all connections, each with a match of its own."""

    opponents: tuple[str, ...]
    """Names offered by the page; no others are loaded."""
    model: str
    gun: str
    seed: int
    folder: Path
    """Folder of saved replays."""
    load: Callable[[str], Pilot]
    """Loads an opponent by its name; raises `InputError` for an unusable one."""

    def page(self, path: str, socket: str) -> str | None:
        """Return the page at "/"."""
        return flying_page(self.opponents, self.model, socket) if path == "/" else None

    def connect(self, send: Send) -> AirSession:
        """Return a new connection."""
        return AirSession(self, send)


class AirSession:
    """The match of one connection. `receive` takes the page's messages, `run` plays until it is cancelled."""

    def __init__(self, stage: AirStage, send: Send) -> None:
        self._stage, self._send = stage, send
        self._match: LiveFlight | None = None
        self._pilots: dict[str, Pilot] = {}
        self._matches = 0
        self._action, self._speed, self._paused = [0.0, 0.0, 0.0, 0.0], 1.0, True
        self._autopilot = next(iter(AUTOPILOTS))
        self._changed = asyncio.Event()

    async def receive(self, message: Any) -> None:
        """Apply one message. Raises `InputError` for a wrong one, or an opponent that cannot play."""
        told = read(AirMessage, message, "message")
        await getattr(self, f"_{told['kind']}")(told)

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
            await asyncio.sleep(max(before + rules.DT - clock(), 0.0))
            before, passed = clock(), clock() - before
            owed += min(passed, LONGEST) * rules.TICKS_PER_SECOND * self._speed
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

    async def _begin(self, message: AirMessage) -> None:
        name = choose("opponent", message.get("opponent", self._stage.opponents[0]), self._stage.opponents)
        model = choose("model", message.get("model", self._stage.model), rules.MODELS)
        self._paused = True
        if name not in self._pilots:
            await self._send({"kind": "note", "text": f"loading {name} ..."})
            # Loading takes seconds: a thread keeps the connection alive meanwhile.
            self._pilots[name] = await in_thread(lambda: self._stage.load(name))
        seed = (self._stage.seed + self._matches) % 2**31
        self._matches += 1
        match = LiveFlight(self._pilots[name], model=model, gun=self._stage.gun, seed=seed)
        match.order(self._autopilot)
        self.close()
        self._match = match
        names = [YOU, match.opponent.name]
        await self._send({"kind": "match", "names": names, "model": model, "gun": match.gun})
        await self._send({"kind": "frame", **match.frame.message()})
        await self._send({"kind": "note", "text": ""})

    async def _pace(self, message: AirMessage) -> None:
        self._speed = message.get("speed", self._speed)
        self._paused = message.get("paused", self._paused)
        self._changed.set()

    async def _hold(self, message: AirMessage) -> None:
        require("action" in message, "message.action is missing")
        self._action = message["action"]

    async def _order(self, message: AirMessage) -> None:
        self._autopilot = choose("autopilot", message.get("autopilot", ""), tuple(AUTOPILOTS))
        if self._match:
            self._match.order(self._autopilot)

    async def _save(self, message: AirMessage) -> None:
        require(self._match is not None and self._match.over, "a replay is saved after the end of the match")
        assert self._match is not None
        path = free_path(self._stage.folder, "air-match", ".html")
        try:
            write_air_replay(path, [self._match.recording()])
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror}); give another --replays") from error
        await self._send({"kind": "note", "text": f"saved {path}"})


def flying_page(opponents: Sequence[str], model: str, socket: str) -> str:
    """Return the page with a choice of `opponents`, first on `model`; it may open WebSockets of `socket`."""
    models = [model, *(other for other in rules.MODELS if other != model)]
    data = {
        "rules": scene_constants(),
        "opponents": list(opponents),
        "models": models,
        "autopilots": list(AUTOPILOTS),
    }
    script = join_files(_FOLDER, "stick.js", "flying.js")
    return fill_page(_FOLDER / "page.html", title=_TITLE, data=data, script=script, connect=socket, **scene_parts())
