"""A player served over HTTP in OpenSpiel games; docs/exploit.md has the protocol and a 20-line server.

Decisions are sent in requests of up to `BATCH`. The answer is bounded in time and size. Redirects are not followed,
proxies are not used, and only the numbers in an answer are read.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from socket import SHUT_RDWR
from threading import Timer
from typing import Any
from urllib.parse import SplitResult, urlsplit

from sparring.configs.core.errors import InputError
from sparring.envs.imported.states import text_of, whole

PROTOCOL = 1
BATCH = 256
"""Decisions in a request."""
SECONDS = 30.0
"""Time for a request, from the connection to the last byte of the answer."""
LARGEST = 4 * 1024 * 1024
"""Bytes of an answer."""


class HttpPlayer:
    """Function from states to probabilities that queries a server."""

    def __init__(self, text: str, game: Any) -> None:
        self.text, self.game, kind = text, str(game), game.get_type()
        self._tensor = next(
            (f"{name}_tensor" for name in ("information_state", "observation") if tensor_of(kind, name)), ""
        )
        self._address = address_of(text)

    def __call__(self, states: Sequence[Any]) -> list[Mapping[int, float]]:
        """Return the probabilities in each of the states. Raises `InputError` if the server fails."""
        answers: list[Mapping[int, float]] = []
        for start in range(0, len(states), BATCH):
            answers += self._asked(states[start : start + BATCH])
        return answers

    def _asked(self, states: Sequence[Any]) -> list[Mapping[int, float]]:
        legal = [[int(action) for action in state.legal_actions()] for state in states]
        decisions = [self._decision(state, actions) for state, actions in zip(states, legal, strict=True)]
        content = self._read(json.dumps({"protocol": PROTOCOL, "game": self.game, "decisions": decisions}).encode())
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.text}: returned invalid JSON; return an object with probabilities") from error
        kinds = [key for key in ("probabilities", "actions") if isinstance(answer, dict) and key in answer]
        if len(kinds) != 1 or not isinstance(answer[kinds[0]], list):
            raise InputError(f"{self.text}: expected a list under probabilities or actions; fix the server")
        rows = answer[kinds[0]]
        if len(rows) != len(states):
            raise InputError(f"{self.text}: returned {len(rows)} answers for {len(states)} decisions; fix the server")
        if kinds[0] == "actions":
            return [{self._action(action): 1.0} for action in rows]
        return [self._row(row, actions) for row, actions in zip(rows, legal, strict=True)]

    def _decision(self, state: Any, legal: Sequence[int]) -> dict[str, Any]:
        played, player = whole(state)
        tensor = getattr(played, self._tensor)(player) if self._tensor else []
        return {
            "player": player,
            "information_state": text_of(state),
            "observation": [float(value) for value in tensor],
            "legal_actions": legal,
        }

    def _action(self, action: Any) -> int:
        if type(action) is not int:
            raise InputError(f"{self.text}: expected an action as an integer, got {str(action)[:80]!r}")
        return action

    def _row(self, row: Any, legal: Sequence[int]) -> dict[int, float]:
        numbers = isinstance(row, list) and all(type(value) in (int, float) for value in row)
        if not numbers or len(row) != len(legal):
            what = f"expected {len(legal)} probabilities, one for each legal action, got {str(row)[:80]}"
            raise InputError(f"{self.text}: {what}; fix the server")
        return dict(zip(legal, row, strict=True))

    def _read(self, body: bytes) -> bytes:
        """Post `body` and return the answer."""
        url, end = self._address, time.monotonic() + SECONDS
        connect = HTTPSConnection if url.scheme == "https" else HTTPConnection
        connection: HTTPConnection = connect(url.hostname or "", url.port, timeout=SECONDS)
        clock: Timer | None = None
        try:
            connection.connect()
            clock = Timer(SECONDS, connection.sock.shutdown, (SHUT_RDWR,))  # in case a server sends byte by byte
            clock.start()
            connection.request("POST", url.path or "/", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                to = ": name the address that it redirects to" if 300 <= response.status < 400 else ""
                raise InputError(f"{self.text}: answered with status {response.status}; expected 200{to}")
            parts, size = [], 0
            while part := response.read1(65536):
                parts.append(part)
                size += len(part)
                if size > LARGEST:
                    raise InputError(f"{self.text}: the answer is larger than {LARGEST:,} bytes; send numbers only")
            if time.monotonic() > end:
                raise TimeoutError
        except (OSError, HTTPException) as error:
            if isinstance(error, TimeoutError) or time.monotonic() > end:
                raise InputError(f"{self.text}: did not answer a request within {SECONDS:g} seconds") from error
            what = "cannot be reached" if clock is None else "does not speak HTTP or closed the connection"
            cure = "start the server, or correct its address" if clock is None else "fix the server"
            raise InputError(f"{self.text}: {what} ({type(error).__name__}); {cure}") from error
        finally:
            if clock is not None:
                clock.cancel()
            connection.close()
        return b"".join(parts)


def tensor_of(kind: Any, name: str) -> bool:
    """Return whether a type of games has this tensor."""
    return bool(getattr(kind, f"provides_{name}_tensor"))


def address_of(text: str) -> SplitResult:
    """Return the parts of an address. Raises `InputError` if it is incomplete or contains a password."""
    try:
        url = urlsplit(text)
        usable = bool(url.hostname) and (url.port is None or url.port > 0) and not (url.query or url.fragment)
    except ValueError:  # a port that is not a number
        usable = False
    if not usable:
        raise InputError(f"{text}: expected an address such as http://127.0.0.1:8000/act")
    if url.username or url.password:
        raise InputError("the address of a player has a user or password; leave it out")
    return url
