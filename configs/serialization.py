"""Conversion of configurations to plain data and back, for YAML files, config.yaml and checkpoints.

Pydantic reads them with the dataclasses: `trainer` and `env.id` discriminate the union of all kinds of run, extra keys
are forbidden, and `schema.py` declares each option's validator. The first error becomes one line with key, value,
allowed values and the nearest name. A whole float such as 1e6 counts as an integer.

Stored configurations of earlier versions contain the sections of all trainers and games. Options that the run's kind
lacks are dropped, since they had no effect. The file is not changed.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, is_dataclass
from functools import cache, partial
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin, get_type_hints

import yaml
from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    PlainValidator,
    Strict,
    Tag,
    TypeAdapter,
    ValidationError,
)
from pydantic_core import ErrorDetails
from typing_extensions import TypedDict

from sparring.configs import kinds
from sparring.configs.core.allowed import Form, complaint, describe
from sparring.configs.core.errors import ConfigError, choices, nearest
from sparring.configs.core.files import DEEPEST, MOST_YAML, unusable_text
from sparring.configs.foreign_names import translation
from sparring.configs.schema import Instead, RunConfig

UNKNOWN = ("extra_forbidden", "invalid_key")
"""Pydantic's errors about a key; a section and a list have others."""
SHAPES = {"dict_type": "a mapping of options", "list_type": "a list, such as [a, b]"}
_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3


class _Loader(yaml.SafeLoader):
    """Loader of plain data without aliases, which can expand a few lines beyond any memory."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read here, write the value itself")
        self.depth += 1
        if self.depth > DEEPEST:
            raise yaml.YAMLError(f"is nested deeper than {DEEPEST} levels")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def read_yaml(text: str) -> Any:
    """Read a stored configuration's YAML; raises `ConfigError` for any fault in it."""
    if len(text) > MOST_YAML:
        raise ConfigError(f"has {len(text)} characters; the limit is {MOST_YAML}")
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"not YAML of plain data ({error})") from error


class _TypedLoader(_Loader):
    """Loader that keeps every number, Boolean and date as the text in the file."""

    yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {
        first: [resolver for resolver in resolvers if resolver[0].endswith((":null", ":merge"))]
        for first, resolvers in _Loader.yaml_implicit_resolvers.items()
    }


def read_options(text: str, option: Callable[[str], str] = kinds.bare) -> Any:
    """Read options in YAML as `read_yaml` does, but keep text options as written: 2_0, 1e3, on.

    `option` returns the bare key of an option from its place in the file.
    """
    return with_texts(read_yaml(text), yaml.load(text, Loader=_TypedLoader), option=option)


def with_texts(value: Any, typed: Any, key: str = "", *, option: Callable[[str], str] = kinds.bare) -> Any:
    """Return the options `value` of the section or option `key`, with text options as written in `typed`.

    A format that guesses types reads 2_0 as 20, 0x10 as 16 and 1e3 as 1000.0. `typed` has the shape of `value`.
    """
    if isinstance(value, dict):
        return {
            name: with_texts(item, text, f"{key}.{name}" if key else str(name), option=option)
            for (name, item), text in zip(value.items(), typed.values(), strict=True)
        }
    if isinstance(value, list):
        return [with_texts(item, text, key, option=option) for item, text in zip(value, typed, strict=True)]
    return value if isinstance(value, str) or option(key) not in text_keys() else typed


@cache
def text_keys() -> frozenset[str]:
    """Return the bare keys of all options whose values are text, or lists of text."""
    options = {key: option for kind in kinds.run_kinds() for key, option in kinds.declared(kind).items()}
    return frozenset(key for key, option in options.items() if option.type in ("str", "str | None", "list[str]"))


def to_plain(config: RunConfig) -> dict[str, Any]:
    """Turn a configuration into dicts, lists, numbers, text and None, in the schema's order."""
    return dict(_plain(config, config.lacks))


def options(config: RunConfig) -> dict[str, Any]:
    """Return the values of all options by dotted key, such as `phases.0.stages.1.at`, in the schema's order."""
    return dict(_flat(to_plain(config), ""))


def from_plain(plain: Mapping[str, Any]) -> RunConfig:
    """Build the configuration that `plain` describes, of its kind; missing options keep their defaults.

    Raises `ConfigError` for unknown keys, options of other kinds of run, wrong types, and invalid values.
    """
    if not isinstance(plain, Mapping):
        raise ConfigError(f"the configuration={_shown(plain)}: must be a mapping of options")
    try:
        read: RunConfig = _adapter().validate_python(plain)
    except ValidationError as error:
        details = error.errors(include_url=False)
        first = next((detail for detail in details if detail["type"] in UNKNOWN), details[0])
        raise _refusal(first, plain) from None  # pydantic's own text would repeat secret values
    return read


def migrate(plain: Any) -> Any:
    """Return a stored configuration without other kinds' options; unknown keys remain and are rejected later.

    Raises `ConfigError` for a removed option whose value is no longer supported.
    """
    if not isinstance(plain, Mapping):
        return plain
    kind = kinds.run_kind(plain)
    return _kept(kind, kind.migrated(plain), "")


def from_stored(plain: Any) -> RunConfig:
    """Build the configuration stored in a config.yaml or a checkpoint; raises `ConfigError` like `from_plain`."""
    return from_plain(migrate(plain))


def check_option(section: Any, name: str, value: Any) -> None:
    """Raise `ConfigError` unless the option `name` of a section allows `value`; nothing is converted."""
    fraction = isinstance(value, float) and get_type_hints(section)[name] is int
    _read_option(section, name, str(value) if fraction else value, name)


def read_section(section: Any, plain: Mapping[str, Any], name: str) -> Any:
    """Build a section of options that belongs to no run, such as a server's; raises `ConfigError`."""
    known = {option: f"{name}.{option}" for option in section.__dataclass_fields__}
    for option in plain:
        if option not in known:
            key = f"{name}.{option}"
            raise ConfigError(f"unknown key {key!r}: {choices(key, [*known.values()])}")
    return section(**{option: _read_option(section, option, value, known[option]) for option, value in plain.items()})


def _read_option(section: Any, name: str, value: Any, key: str) -> Any:
    option = section.__dataclass_fields__[name]
    try:
        return _read(get_type_hints(section)[name], option, value)
    except ValueError as error:
        raise ConfigError(f"{key}={_shown(value, option)}: {error}") from None


def unknown_key(key: str, names: Sequence[str]) -> ConfigError:
    """Make the error for an undeclared dotted `key`: the `names` on its level, and the nearest name anywhere.

    For another library's name, the nearest name is ours for that option.
    """
    everywhere = [*names, *(option for kind in kinds.run_kinds() for option in kinds.declared(kind))]
    gone = next((name for name in removed() if f"{kinds.bare(key)}.".startswith(f"{name}.")), "")
    if meant := _removal(gone) if gone else translation(key):
        return ConfigError(f"unknown key {key!r}: {meant}")
    near = nearest(key, everywhere, likeness=0.65) or ""
    return ConfigError(f"unknown key {key!r}: {choices(key, names, near=near)}")


def _kept(kind: type[RunConfig], value: Any, key: str) -> Any:
    if isinstance(value, list):
        return [_kept(kind, item, key) for item in value]
    if not isinstance(value, Mapping):
        return value
    kept = {}
    for name, item in value.items():
        path = f"{key}.{name}" if key else str(name)
        if path in removed():
            only = removed()[path]
            if item != only and not isinstance(only, Instead):
                raise ConfigError(f"{path}={item}: {_removal(path)}")
        elif kinds.knows(kind, path) or not kinds.owners(path):
            kept[name] = _kept(kind, item, path)
    return kept


@cache
def removed() -> Mapping[str, Any]:
    """Return the options of earlier versions by bare key, with the value that every run has, or what to do instead."""
    return {key: value for kind in kinds.run_kinds() for key, value in kind.removed.items()}


def _removal(key: str) -> str:
    only = removed()[key]
    return f"is not an option any more; {only if isinstance(only, Instead) else f'every run has {only}'}"


@cache
def _adapter() -> TypeAdapter[Any]:
    forms = tuple(Annotated[_form(kind, kind.lacks), Tag(kind.__name__)] for kind in kinds.run_kinds())
    union: Any = Annotated[Union[forms], Discriminator(lambda plain: kinds.run_kind(plain).__name__)]  # noqa: UP007
    return TypeAdapter(union)


def _form(section: Any, lacks: Sequence[str], prefix: str = "") -> Any:
    """Return a dataclass as a pydantic type: the options that the run has, all optional, and no others."""
    hints = get_type_hints(section)
    typed = {f.name: _typed(hints[f.name], f, lacks, key) for f, key in kinds.members(section, lacks, prefix)}
    form = TypedDict(section.__name__, typed, total=False)  # type: ignore[misc]
    form.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]
    return Annotated[form, AfterValidator(lambda values: section(**values))]


def _typed(hint: Any, option: Field[Any], lacks: Sequence[str], key: str) -> Any:
    if is_dataclass(hint):
        return _form(hint, lacks, f"{key}.")
    if get_origin(hint) is dict:
        return Annotated[Any, PlainValidator(_read_kwargs)]
    if get_origin(hint) is list:
        return Annotated[list[_typed(get_args(hint)[0], option, lacks, key)], Strict()]  # type: ignore[misc]
    return Annotated[Any, PlainValidator(partial(_read, hint, option))]


def _plain(value: Any, lacks: Sequence[str], prefix: str = "") -> Any:
    if is_dataclass(value):
        owned = kinds.members(value, lacks, prefix)
        return {option.name: _plain(getattr(value, option.name), lacks, f"{key}.") for option, key in owned}
    return [_plain(item, lacks, prefix) for item in value] if isinstance(value, list) else value


def _flat(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict | list):
        yield key, value
        return
    for name, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _flat(item, f"{key}.{name}" if key else str(name))


def _refusal(error: ErrorDetails, plain: Mapping[str, Any]) -> ConfigError:
    """Convert a pydantic error, located under the tag of its kind of run, to a one-line error."""
    key, value = ".".join(map(str, error["loc"][1:])), error["input"]
    if error["type"] in UNKNOWN:
        return _misplaced(key, value, plain)
    shape, option = SHAPES.get(error["type"]), _option(key)
    why = f"must be {shape}{_rule(option) if option else ''}" if shape else error["ctx"]["error"]
    return ConfigError(f"{key}={_shown(value, option)}: {why}")


def _misplaced(key: str, value: Any, plain: Mapping[str, Any]) -> ConfigError:
    """Make the error for a key that this kind of run lacks, for a section its first option."""
    kind, env = kinds.run_kind(plain), plain.get("env")
    if isinstance(env, Mapping) and isinstance(env.get("id"), str):
        kinds.check_own_game(env["id"])  # else the error would name one of its options
    while isinstance(value, Mapping) and value and kinds.owners(inner := f"{key}.{next(iter(value))}"):
        key, value = inner, next(iter(value.values()))
    elsewhere = kinds.belongs_elsewhere(kind, key, plain)
    if not elsewhere:
        return unknown_key(key, kinds.siblings(kind, key))
    return ConfigError(f"{key}={_shown(value, _option(key))}: {elsewhere}")


def _read(kind: Any, option: Field[Any], value: Any) -> Any:
    """Read one value by its annotation and its option's allowed values; raises `ValueError` with the fault."""
    optional = get_args(kind)
    if optional and value is None:
        return None
    try:
        read = _READERS[optional[0] if optional else kind](value)
    except TypeError as error:
        raise ValueError(f"must be {error}{_rule(option)}") from error
    allowed = option.metadata.get("allowed")
    wrong = unusable_text(read) if isinstance(read, str) else ""
    if not wrong and allowed is not None and read != option.default:  # "" or None: not set
        wrong = complaint(read, allowed) or ""
    if wrong:
        numeric = isinstance(option.default, int | float)
        raise ValueError(f"{wrong}; the default is {option.default}" if numeric else wrong)
    return read


# Each reads one value or raises `TypeError` naming the expected type.


def _read_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false")
    return value


def _read_int(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError("a whole number")
    return value


def _read_float(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number")
    try:
        return float(value)
    except OverflowError as error:
        raise TypeError("a number of at most 308 digits") from error


def _read_str(value: Any) -> str:
    if isinstance(value, bool):
        raise TypeError("text; YAML reads a bare on, off, yes or no as true or false, so quote it")
    if not isinstance(value, str | int):
        raise TypeError("text")
    if "${" in str(value):
        raise TypeError("text without ${...}, which is never filled in, from the environment or elsewhere")
    return str(value)


def _read_kwargs(value: Any) -> dict[str, Any]:
    """Return the options of a game, whose meaning only the game knows."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) and name.isidentifier() for name in value):
        raise ValueError("must be a mapping of the game's options by name, such as env.kwargs.board_size=3")
    for name, item in value.items():
        if not isinstance(item, bool | int | float | str | None):
            raise ValueError(f"{name} is a {type(item).__name__}; must be a number, a Boolean or text")
        if isinstance(item, str) and ("${" in item or unusable_text(item)):
            raise ValueError(f"{name}: {unusable_text(item) or 'must be text without ${...}'}")
    return dict(value)


_READERS = {bool: _read_bool, int: _read_int, float: _read_float, str: _read_str}


def _option(key: str) -> Field[Any] | None:
    """Return the field that declares an option or its list, in any kind of run."""
    name = kinds.bare(key)
    return next((kinds.declared(kind)[name] for kind in kinds.owners(key) if name in kinds.declared(kind)), None)


def _shown(value: object, option: Field[Any] | None = None) -> str:
    """Return a value for messages, hiding possible secrets."""
    allowed = option.metadata.get("allowed") if option else None
    if isinstance(allowed, Form) and allowed.private:
        return "(not shown)"
    return str(value) if isinstance(value, str | int | float) else _SHORT.repr(value)


def _rule(option: Field[Any]) -> str:
    """Return an option's allowed values, worded to follow its type."""
    allowed = option.metadata.get("allowed")
    if isinstance(allowed, str):
        return f" in {allowed}" + ("" if option.default is MISSING else f"; the default is {option.default}")
    if isinstance(allowed, tuple):
        return f"; choose from {describe(allowed)}"
    return f": {describe(allowed)}" if allowed else ""
