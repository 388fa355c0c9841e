"""The OpenEnv environment of the text matches, and its server: `python -m sparring.envs.hubs.openenv.server`.

`reset` takes the seed and the options of a match, such as `game="diplomacy", power="FRANCE"`; `step` takes the text of
an answer. Every session has its own match. Rules, rewards and checks are in `matches.py`.
"""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock, Thread
from typing import Any
from uuid import uuid4

from sparring.configs.core.errors import InputError
from sparring.configs.core.serving import ClientBounds, GuardedApp, bounded_server, in_thread

try:
    from openenv.core.env_server.http_server import create_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, ConcurrencyConfig, EnvironmentMetadata, Observation, State
except ImportError as error:
    raise InputError(f"openenv 0.10 or later is needed ({error}): `sparring install openenv`") from error

from pydantic import Field

from sparring.envs.hubs.matches import LARGEST_SEED, MatchTurn, TextMatch, open_match

SESSIONS, CLIENT_SESSIONS = 128, 64
"""Maximum concurrent sessions of a server, for all clients and per client."""
IDLE_SECONDS = 1800.0
"""Maximum time between two messages of a client."""


class AnswerAction(Action):
    """A completion of the prompt."""

    text: str = Field(description="the answer in the prompt's form: in Diplomacy one order a line, then </orders>")
    cut: bool | None = Field(default=None, description="whether it was cut off; null: only the text shows")


class TurnObservation(Observation):
    """A `MatchTurn`, with `done` and `reward` in OpenEnv's fields."""

    prompt: str = ""
    seat: int = -1
    legal: list[list[str]] = Field(default_factory=list, description="legal lines, a list for each line of the answer")
    rewards: dict[str, float] = Field(default_factory=dict, description="reward of each of the caller's seats")
    answer: str = Field(default="", description="read, illegal, incomplete or truncated")
    problems: list[str] = Field(default_factory=list)
    facts: dict[str, Any] = Field(default_factory=dict)


class MatchEnvironment(Environment):  # type: ignore[misc]
    """One session."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._match: TextMatch | None = None
        self._options: dict[str, Any] = {}
        self._state = State()
        self._playing, self._left = Lock(), False

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, game: str = "diplomacy", **options: Any
    ) -> TurnObservation:
        """Begin a match; without a seed, with a random one given in the state. Raises `InputError`."""
        seed = secrets.randbelow(LARGEST_SEED) if seed is None else seed
        options = {"game": game, **options}
        if self._match is None or options != self._options:
            self.close()
            self._match, self._options = open_match(**options), options
        turn = self._play(lambda match: match.start(seed))
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0, seed=seed, **options)
        return _observed(turn)

    def step(self, action: AnswerAction, timeout_s: float | None = None, **options: Any) -> TurnObservation:
        """Play an answer. Raises `InputError` before `reset` and after the end."""
        turn = self._play(lambda match: match.answer(action.text, cut=action.cut))
        self._state.step_count += 1
        return _observed(turn)

    async def reset_async(
        self, seed: int | None = None, episode_id: str | None = None, **options: Any
    ) -> TurnObservation:
        """Begin a match as `reset` does, until the client leaves."""
        return await in_thread(partial(self.reset, seed, episode_id, **options), self._leave)

    async def step_async(self, action: AnswerAction, timeout_s: float | None = None, **options: Any) -> TurnObservation:
        """Play an answer as `step` does, until the client leaves."""
        return await in_thread(partial(self.step, action, timeout_s, **options), self._leave)

    def _play(self, call: Callable[[TextMatch], MatchTurn]) -> MatchTurn:
        with self._playing:
            match = self._match
            if match is None:
                raise InputError("no match is running: call reset")
            if self._left:
                match.cancel()
            return call(match)

    def _leave(self) -> None:
        self._left = True
        self.close()

    @property
    def state(self) -> State:
        """Episode, steps, seed and options."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """Return name and description."""
        text = "Diplomacy, games of OpenSpiel and text tasks of chess, with seeds, legal orders and verified rewards"
        return EnvironmentMetadata(name="sparring", description=text, version="0.3.0")

    def close(self) -> None:
        """End the match, and a call that is under way in another thread."""
        match, self._match = self._match, None
        if match is not None:
            match.cancel()
            Thread(target=self._free, args=(match,), daemon=True).start()

    def _free(self, match: TextMatch) -> None:
        with self._playing:
            match.close()


def _observed(turn: MatchTurn) -> TurnObservation:
    return TurnObservation(
        done=turn.done,
        reward=turn.reward,
        prompt=turn.prompt,
        seat=turn.seat,
        legal=[list(lines) for lines in turn.legal],
        rewards={str(seat): reward for seat, reward in turn.rewards.items()},
        answer=turn.answer,
        problems=list(turn.problems),
        facts=dict(turn.facts),
    )


app = GuardedApp(
    create_app(
        MatchEnvironment,
        AnswerAction,
        TurnObservation,
        env_name="sparring",
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=SESSIONS, session_timeout=IDLE_SECONDS),
    ),
    bounds=ClientBounds(requests=CLIENT_SESSIONS, idle_seconds=IDLE_SECONDS),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until Ctrl-C, on this machine only unless --host says otherwise."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--name", action="append", default=[], help="a host name under which clients reach it")
    options = parser.parse_args(arguments)
    app.names |= {options.host, *options.name}
    where = {"host": options.host, "port": options.port, "log_level": "info"}
    bounded_server(app, largest_message=app.bounds.body, **where).run()


if __name__ == "__main__":
    main()
