"""Errors for bad user input, one line each: the input, what is allowed, the nearest match.

Every user error raises an `InputError`. Command lines print its line and exit with code 2; any other exception is a
fault of the program and keeps its traceback.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

LONGEST = 2000


class InputError(ValueError):
    """Input that cannot be used; the message is one line naming it, what is allowed and what to do."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class UnknownNameError(InputError):
    """A name that is not among the choices."""


class ConfigError(InputError):
    """An option of a run that is unknown, of the wrong type or outside what is allowed."""


def one_line(text: str) -> str:
    """Put `text` on one line, cutting the middle of a long one; terminal control characters are escaped."""
    half = LONGEST // 2
    short = text if len(text) <= LONGEST else f"{text[:half]} ... {text[-half:]}"
    joined = re.sub(r"\s*[\r\n]\s*", " ", short.strip())
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in joined)


def nearest(name: str, choices: Iterable[str], *, likeness: float = 0.5) -> str | None:
    """Return the one of `choices` most similar to `name`, None if none reaches `likeness` (0 to 1)."""
    return next(iter(difflib.get_close_matches(name, list(choices), n=1, cutoff=likeness)), None)


def suggestion(name: object, choices: Iterable[str], *, likeness: float = 0.5) -> str:
    """Return "; did you mean 'x'?" for the nearest of `choices`, or nothing if none reaches `likeness` (0 to 1)."""
    found = nearest(str(name), choices, likeness=likeness)
    return f"; did you mean {found!r}?" if found else ""


def choose(kind: str, name: str, choices: Iterable[str]) -> str:
    """Return `name` if it is one of `choices`, else raise `UnknownNameError` naming it, them and the nearest."""
    known = list(choices)
    if name in known:
        return name
    raise UnknownNameError(f"unknown {kind} {name!r}: choose from {', '.join(known)}{suggestion(name, known)}")
