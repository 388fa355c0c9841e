"""Typed reading of a sweep file's sections: each fault is one line with key, value, what is allowed, and the fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sparring.configs.core.errors import ConfigError, suggestion
from sparring.configs.core.typed import shown
from sparring.configs.overrides import as_override


def mapping(key: str, value: Any, known: Sequence[str] = (), needed: Sequence[str] = ()) -> dict[str, Any]:
    """Return a mapping with text keys, only `known` ones if given, and all of `needed`."""
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ConfigError(f"{key}={shown(value)}: must be a mapping of names, such as {{A: ...}}")
    for name in value:
        if known and name not in known:
            raise ConfigError(f"{key}.{name}: unknown key; choose from {', '.join(known)}{suggestion(name, known)}")
    for name in needed:
        if name not in value:
            raise ConfigError(f"{key}.{name} is missing; add it, or see docs/sweeps.md for the whole form")
    return value


def text(key: str, value: Any) -> str:
    """Return a non-empty text on one line."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{key}={shown(value)}: must be text; write a sentence, in quotes if it has a colon")
    return " ".join(value.split())


def texts(key: str, value: Any) -> list[str]:
    """Return a list of texts."""
    if not isinstance(value, list):
        raise ConfigError(f"{key}={shown(value)}: must be a list of texts, such as [a, b]")
    return [text(f"{key}.{index}", one) for index, one in enumerate(value)]


def whole(key: str, value: Any, low: int, high: int) -> int:
    """Return a whole number in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"{key}={shown(value)}: must be a whole number in [{low}, {high}]")
    return value


def number(key: str, value: Any) -> float | int:
    """Return a finite number as it is written."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == float("inf"):
        raise ConfigError(f"{key}={shown(value)}: must be a finite number; write 1.0e-4, since YAML reads 1e-4 as text")
    return value


def one_of(key: str, value: Any, known: Iterable[str]) -> str:
    """Return one of the `known` texts."""
    names = list(known)
    if value not in names:
        raise ConfigError(f"{key}={shown(value)}: choose from {', '.join(names)}{suggestion(value, names)}")
    return str(value)


def overrides(options: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return nested options as the texts `key=value` that `load` takes; dotted keys may be used at any depth."""
    given: list[str] = []
    for key, value in options.items():
        if isinstance(value, dict):
            given += overrides(value, f"{prefix}{key}.")
        else:
            given.append(f"{prefix}{key}={as_override(value, quoted=True)}")
    return given
