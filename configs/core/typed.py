"""Stored plain data read by its type, by pydantic or field by field; an error is one line with its location.

A section of a file is a `TypedDict` whose values have the types below. Unknown keys are ignored, since later versions
may add keys. `NotRequired` keys may be missing in files of earlier versions. Values are never converted: a number is
not text, a Boolean is not a number.

`Field` reads JSON one value after the other; its errors name the path, as in `phases[3].state.units.FRANCE[1]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, NoReturn, TypeVar, cast

from pydantic import AfterValidator, ConfigDict, Strict, StringConstraints, TypeAdapter, ValidationError
from pydantic import Field as Limits

from sparring.configs.core.allowed import inside
from sparring.configs.core.errors import InputError, choose

T = TypeVar("T")
MOST = 10**15
"""Limit of every count: more than any run can reach, and far below the 64-bit range."""
DEEPEST = 32
_LONGEST = 60
_KINDS = {dict: "an object", list: "a list", str: "a text", int: "a whole number", bool: "true or false"}


class ContentError(InputError):
    """Stored content of the wrong type or size; the message names the place, the value and what is allowed."""


def plain(value: Any) -> Any:
    """Return JSON-like data; raise `ValueError` for anything else in it, NaN and infinity included."""
    for item in _leaves(value, DEEPEST):
        if item is not None and type(item) not in (bool, int, float, str):
            raise ValueError(f"must be plain data, not a {type(item).__name__}")
        if type(item) is float and not math.isfinite(item):
            raise ValueError(f"must contain finite numbers, not {item}")
    return value


def _leaves(value: Any, levels: int) -> Iterator[Any]:
    if not isinstance(value, dict | list | tuple):
        yield value
        return
    if not levels:
        raise ValueError(f"must be nested {DEEPEST} levels deep at most")
    for item in [*value, *value.values()] if isinstance(value, dict) else value:
        yield from _leaves(item, levels - 1)


Count = Annotated[int, Strict(), Limits(ge=0, le=MOST)]
Positive = Annotated[int, Strict(), Limits(ge=1, le=MOST)]
Integer = Annotated[int, Strict(), Limits(ge=-MOST, le=MOST)]
Seed = Annotated[int, Strict(), Limits(ge=0, lt=2**31)]
Number = Annotated[float, Strict(), Limits(allow_inf_nan=False)]
NotNegative = Annotated[float, Strict(), Limits(ge=0.0, allow_inf_nan=False)]
Flag = Annotated[bool, Strict()]
Text = Annotated[str, Strict(), StringConstraints(max_length=4000)]
Digest = Annotated[str, Strict(), StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Plain = Annotated[dict[str, Any], Strict(), AfterValidator(plain)]


def read(kind: type[T], value: Any, prefix: str = "") -> T:
    """Return `value` if it is of the type `kind`, a `TypedDict` or a list or mapping of one; raise `ContentError`.

    Lists stay lists, and keys that `kind` does not name are left out. `prefix` comes before every name in the message.
    """
    try:
        return cast(T, _adapter(cast(Any, kind)).validate_python(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
    except RecursionError:
        raise ContentError(f"{prefix or 'it'}: is nested too deep") from None
    names = ".".join(map(str, (*([prefix] if prefix else []), *first["loc"])))
    if first["type"] == "missing":
        raise ContentError(f"{names} is missing")
    # pydantic's messages are "Input should be ..." and, for our own, "Value error, must be ..."
    rule = first["msg"].replace("Input should", "must").removeprefix("Value error, ")
    raise ContentError(f"{names or 'it'}={shown(first['input'])}: {rule[0].lower()}{rule[1:]}")


@contextmanager
def within(name: str) -> Iterator[None]:
    """Raise every `InputError` inside as a `ContentError` under the name `name`."""
    try:
        yield
    except InputError as error:
        raise ContentError(f"{name}.{error}") from error


@contextmanager
def naming(name: object, error: Callable[[str], InputError], fix: str) -> Iterator[None]:
    """Raise every `ContentError` inside as an `error` of the file `name`, with the `fix` after it."""
    try:
        yield
    except ContentError as wrong:
        raise error(f"{name}: {wrong}; {fix}") from wrong


def require(condition: bool, problem: str) -> None:
    """Raise `ContentError` with the problem unless the condition holds."""
    if not condition:
        raise ContentError(problem)


def shown(value: Any) -> str:
    """Return a value for a message, in a few words where it is long; a tensor is its type and shape."""
    if isinstance(value, dict | list | tuple):
        return f"({type(value).__name__} of {len(value)})"
    if hasattr(value, "dtype"):
        return f"({str(value.dtype).removeprefix('torch.')} tensor {tuple(value.shape)})"
    if isinstance(value, int) and abs(value) > MOST**3:
        return f"(integer of {value.bit_length()} bits)"
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind, config=_CONFIG if not hasattr(kind, "__required_keys__") else None)


_CONFIG = ConfigDict(strict=True, arbitrary_types_allowed=True)


class Field:
    """A value and its path, which is built only for an error: files contain thousands of correct values."""

    __slots__ = ("_above", "_key", "value")

    def __init__(self, value: Any, path: str | int = "", *, above: Field | None = None) -> None:
        self.value, self._key, self._above = value, path, above

    @property
    def path(self) -> str:
        """Where the value is, as in `phases[3].name`."""
        start = "" if self._above is None else self._above.path
        if isinstance(self._key, int):
            return f"{start}[{self._key}]"
        return f"{start}.{self._key}" if start else self._key

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
            self.fail(f"must be {_KINDS[kind]}, not {shown(self.value)}")
        return self.value

    def number(self, interval: str) -> float:
        """Return the value, a number in this interval, such as "(0, 1]"."""
        if type(self.value) not in (int, float) or not inside(self.value, interval):
            self.fail(f"must be a number in {interval}, not {shown(self.value)}")
        return float(self.value)

    def whole(self, interval: str) -> int:
        """Return the value, a whole number in this interval."""
        if not inside(self.of(int), interval):
            self.fail(f"must be in {interval}, not {shown(self.value)}")
        return self.of(int)

    def keys(self, names: Iterable[str]) -> None:
        """Refuse unknown keys, with the nearest known one."""
        for key in self.of(dict):
            self.read(choose, "key", str(key), names)

    def get(self, key: str) -> Field | None:
        """Return a key's value; None if missing or null."""
        value = self.of(dict).get(key)
        return None if value is None else Field(value, key, above=self)

    def __getitem__(self, key: str) -> Field:
        """Return the value of a required key."""
        if (field := self.get(key)) is None:
            self.fail(f"{key!r} is missing")
        return field

    def items(self) -> Iterator[tuple[str, Field]]:
        """Yield keys and values."""
        for key in self.of(dict):
            yield str(key), Field(self.value[key], str(key), above=self)

    def __iter__(self) -> Iterator[Field]:
        """Yield list items."""
        for number, value in enumerate(self.of(list)):
            yield Field(value, number, above=self)

    def texts(self) -> Iterator[tuple[int, str]]:
        """Yield index and text of the items of a list of texts; `item` names one with another fault."""
        for number, value in enumerate(self.of(list)):
            yield number, value if type(value) is str else self.item(number).of(str)

    def item(self, number: int) -> Field:
        """Return one list item."""
        return Field(self.value[number], number, above=self)
