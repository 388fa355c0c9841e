"""Options of a call as words of a command line, so that both are parsed once and refuse the same input.

Every name stays whole: a comma, a space, `=`, `[` or `:` in a path means nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePath
from typing import Any

from sparring.configs.opponents import opponent_text
from sparring.eval.parser import WholeName


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


def whole_name(value: Any, key: str = "") -> WholeName:
    """Return the word for one value of a call, of the key of a mapping if there is one."""
    text = opponent_text(value)
    is_path = isinstance(value, PurePath) or text == str(getattr(value, "path", None))
    if is_path and (text.startswith("-") or (":" in text and "/" not in text)):
        text = f"./{text}"  # no option, and no module:Name
    return WholeName(f"{key}={text}" if key else text, key or (None if isinstance(value, str) else ""))


def _option(name: str, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [name]
    if isinstance(value, Mapping):
        return [name, *(whole_name(item, key) for key, item in value.items())]
    if isinstance(value, list | tuple):
        return [name, *map(whole_name, value)]
    word = whole_name(value)
    return [f"{name}={word}"] if word.startswith("-") else [name, word]
