"""Options of a call as words of a command line, so that both are parsed once and refuse the same input."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sparring.configs.opponents import opponent_text


def option_words(options: Mapping[str, Any], *, repeated: Collection[str] | None = ()) -> list[str]:
    """Return `games=40, stochastic=True, regimes=["none", "full"]` as `--games 40 --stochastic --regimes none full`.

    None and False are left out, a mapping is KEY=VALUE. The options `repeated`, all if None, are written once for each
    value of a list.
    """
    words = []
    for key, value in options.items():
        name = f"--{key.rstrip('_').replace('_', '-')}"
        if (repeated is None or key in repeated) and isinstance(value, list | tuple):
            words += [word for one in value for word in _option(name, one)]
        else:
            words += _option(name, value)
    return words


def quiet_words(*, progress: bool) -> list[str]:
    """Return the words that keep a command from printing, unless its bar is wanted."""
    return [] if progress else ["--quiet"]


def _option(name: str, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [name]
    if isinstance(value, Mapping):
        return [name, *(f"{key}={opponent_text(item)}" for key, item in value.items())]
    if isinstance(value, list | tuple):
        return [name, *map(opponent_text, value)]
    text = opponent_text(value)
    return [f"{name}={text}"] if text.startswith("-") else [name, text]
