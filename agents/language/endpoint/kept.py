"""Answers of a server that are kept: an evaluation that is cut, also by kill -9, does not ask for them again.

Every answer is a line of a file beside the results, under a key of the whole request. A decision that the server did
not make, and that was replaced, is kept as well, since the games went on from it. The games of the same command are
then the same up to the cut, from the same answers. The first line states what the answers depend on; another
configuration is refused. The file is removed once the results are complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sparring.agents.distributed.tasks import KeptResults
from sparring.agents.language.endpoint.answer import ServerAnswer
from sparring.configs.core.errors import InputError
from sparring.configs.core.status import UNFINISHED

CONDITIONS, FAILED, REFUSED = "conditions", "failed ", "refused "
"""Key of the line with the conditions, and beginnings of the keys of decisions without an answer, and of parameters
that the server refuses."""
_FORM = TypeAdapter(ServerAnswer)


def key_of(request: Any) -> str:
    """Return the key of a request, which changes with all of it."""
    return sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


class KeptAnswers:
    """The answers in the file `path`, under `conditions`; safe for threads.

    `refused` are notes on parameters that the server refuses. Raises `InputError` if the file holds answers under other
    conditions, naming the first that differs.
    """

    def __init__(self, path: Path, conditions: Mapping[str, Any]) -> None:
        self._path, self._file = path, KeptResults[Any](path, Any)
        self._lock, self._locks = Lock(), dict[str, Lock]()
        self._stated = json.loads(json.dumps(conditions, default=str))
        entries = self._file.read()
        self._is_new = CONDITIONS not in entries
        self._check(entries.pop(CONDITIONS, self._stated))
        self._failed, self.refused = (
            {key.removeprefix(start): str(entries.pop(key)) for key in [*entries] if key.startswith(start)}
            for start in (FAILED, REFUSED)
        )
        self._answers = {key: answer for key, entry in entries.items() if (answer := _answer(entry))}
        self._used = set[str]()

    def __len__(self) -> int:
        return len(self._answers)

    def answer(self, key: str, ask: Callable[[], ServerAnswer]) -> tuple[ServerAnswer, bool, bool]:
        """Return the answer under a key, from `ask` if it is new; whether it is used first, and whether it was kept.

        Equal requests at the same time are one. Raises what `ask` raises.
        """
        with self._lock:
            lock = self._locks.setdefault(key, Lock())
        with lock:
            first, kept = key not in self._used, key in self._answers
            if not kept:
                self._answers[key] = ask()
                self._add(key, _FORM.dump_python(self._answers[key], mode="json"))
            self._used.add(key)
            return self._answers[key], first, kept

    def failure(self, key: str) -> str:
        """Return why a decision failed if the games continued without its answer, else an empty text."""
        return self._failed.get(key, "")

    def add_failure(self, key: str, why: str) -> None:
        """Keep that a decision has no answer."""
        if key not in self._failed:
            self._failed[key] = why
            self._add(FAILED + key, why)

    def add_refused(self, parameter: str, note: str) -> None:
        """Keep the note on a parameter that the server refuses."""
        self._add(REFUSED + parameter, note)

    def discard(self) -> None:
        """Remove the file."""
        self._file.discard()

    def _add(self, key: str, entry: Any) -> None:
        with self._lock:
            if self._is_new:
                self._file.add(CONDITIONS, self._stated)
                self._is_new = False
            self._file.add(key, entry)

    def _check(self, stored: Mapping[str, Any]) -> None:
        stated = self._stated
        for name in [*stated, *(name for name in stored if name not in stated)]:
            if stored.get(name) != stated.get(name):
                UNFINISHED.discard(self._path)  # this command does not go on from it
                was, now = (_text(conditions.get(name)) for conditions in (stored, stated))
                raise InputError(
                    f"{name}={now}: {self._path} holds answers with {name}={was}; give that to go on, or another --out"
                )


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else json.dumps(value).strip('"')


def _answer(entry: Any) -> ServerAnswer | None:
    """Return a kept answer, None for a damaged one, which is asked for again."""
    try:
        return _FORM.validate_python(entry)
    except ValidationError:
        return None
