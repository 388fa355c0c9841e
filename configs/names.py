"""Choosing a thing by name, with an error a person can act on: the name, the choices, the nearest match."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UnknownNameError(ValueError):
    """A name that is not among the choices. Command lines print its one line and exit with code 2."""


def choose(kind: str, name: str, choices: Iterable[str]) -> str:
    """Return `name` if it is one of `choices`, else raise `UnknownNameError` naming it, them and the nearest."""
    known = list(choices)
    if name in known:
        return name
    nearest = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise UnknownNameError(f"unknown {kind} {name!r}: choose from {', '.join(known)}{hint}")
