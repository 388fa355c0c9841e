"""JSON read field by field; errors name the path, as in `phases[3].state.units.FRANCE[1]`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, TypeVar

from sparring.configs.core.allowed import inside
from sparring.configs.core.errors import InputError, choose

T = TypeVar("T")
_KINDS = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "true or false"}


class Field:
    """Value and its path."""

    def __init__(self, value: Any, path: str = "") -> None:
        self.value, self.path = value, path

    def fail(self, problem: str) -> NoReturn:
        """Raise `InputError`."""
        raise InputError(f"{self.path}: {problem}" if self.path else problem)

    def read(self, reader: Callable[..., T], *arguments: Any) -> T:
        """Call `reader` with these arguments; its `InputError` is raised under this path."""
        try:
            return reader(*arguments)
        except InputError as error:
            self.fail(str(error))

    def of(self, kind: type[T]) -> T:
        """Return the value of this type."""
        if type(self.value) is not kind:
            self.fail(f"must be {_KINDS[kind]}, not {_shown(self.value)}")
        return self.value

    def number(self, interval: str) -> float:
        """Return the value, a number in this interval, such as "(0, 1]"."""
        if type(self.value) not in (int, float) or not inside(self.value, interval):
            self.fail(f"must be a number in {interval}, not {_shown(self.value)}")
        return float(self.value)

    def whole(self, interval: str) -> int:
        """Return the value, a whole number in this interval."""
        if not inside(self.of(int), interval):
            self.fail(f"must be in {interval}, not {_shown(self.value)}")
        return self.of(int)

    def keys(self, known: Iterable[str]) -> None:
        """Refuse unknown keys, with the nearest known one."""
        for key in self.of(dict):
            self.read(choose, "key", str(key), known)

    def get(self, key: str) -> Field | None:
        """Return a key's value; None if missing or null."""
        value = self.of(dict).get(key)
        return None if value is None else Field(value, f"{self.path}.{key}" if self.path else key)

    def __getitem__(self, key: str) -> Field:
        """Return the value of a required key."""
        if (field := self.get(key)) is None:
            self.fail(f"{key!r} is missing")
        return field

    def items(self) -> Iterator[tuple[str, Field]]:
        """Yield keys and values."""
        for key in self.of(dict):
            yield str(key), Field(self.value[key], f"{self.path}.{key}")

    def __iter__(self) -> Iterator[Field]:
        """Yield list items."""
        for number, value in enumerate(self.of(list)):
            yield Field(value, f"{self.path}[{number}]")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
