"""A Python object as a player: a function, an object with a method `act`, or a class of such objects."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

from sparring.configs.core.errors import InputError


class OpponentError(InputError):
    """An object that cannot act as an opponent; the message is one line with what it returned and what is expected."""


def asked(source: Any, name: str) -> Callable[[Any], Any]:
    """Return the function to call in each position; raises `OpponentError` if `source` has none."""
    if inspect.isclass(source):
        try:
            source = source()
        except TypeError as error:
            raise OpponentError(f"opponent {name}: cannot be made without arguments ({error})") from error
    found = getattr(source, "act", source)
    if not callable(found):
        kind = type(source).__name__
        raise OpponentError(f"opponent {name}: a {kind} cannot act; give a function or an object with act(obs)")
    return cast(Callable[[Any], Any], found)
