"""Configurations as plain data and back: what YAML files, config.yaml and checkpoints hold.

Reading walks the dataclasses, so nothing passes that they do not declare: an unknown key is refused wherever it stands
and however it got there, with the nearest known one; a value of the wrong type names what is wanted. A whole float such
as 1e6 counts as an integer, because that is how people write large numbers.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import yaml

from sparring.configs.core.allowed import describe
from sparring.configs.core.errors import ConfigError, suggestion
from sparring.configs.schema import RunConfig
from sparring.configs.validate import options

REMOVED = {("grpo", "first_decision_only"): False, ("grpo", "mask_replay"): True}
"""Options, by section and name, that files of earlier versions hold: the value that is now the only behaviour."""

_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3


class _Loader(yaml.SafeLoader):
    """Plain data only, and no aliases: a few lines of them can stand for more than any memory holds."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not read here, write the value itself")
        return super().compose_node(parent, index)


def read_yaml(text: str) -> Any:
    """Read a stored configuration's YAML; raises `ConfigError`, whatever is wrong with it."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"is no YAML of plain data ({error})") from error


def to_plain(config: RunConfig) -> dict[str, Any]:
    """Turn a configuration into dicts, lists, numbers, text and None, in the schema's order."""
    return asdict(config)


def from_plain(plain: Mapping[str, Any]) -> RunConfig:
    """Build the configuration that `plain` describes; what it leaves out keeps its default.

    Raises `ConfigError` for unknown keys and wrong types. Ranges are `validate`'s matter.
    """
    config = _read(RunConfig, _without_removed(plain), "")
    assert isinstance(config, RunConfig)
    return config


def _without_removed(plain: Any) -> Any:
    """Leave out `REMOVED` options; raises `ConfigError` where one holds another value than the one that is left."""
    if not isinstance(plain, Mapping):
        return plain
    kept = dict(plain)
    for (section, name), only in REMOVED.items():
        if isinstance(kept.get(section), Mapping) and name in kept[section]:
            kept[section] = dict(kept[section])
            if (value := kept[section].pop(name)) is not only:
                raise ConfigError(f"{section}.{name}={value}: is no option any more, and every run has {only}")
    return kept


def unknown_key(key: str, siblings: Sequence[str]) -> ConfigError:
    """The error for a dotted `key` that nothing declares: the known `siblings`, and the nearest option anywhere."""
    everywhere = [*siblings, *(option for option, _, _ in options(RunConfig()))]
    hint = suggestion(key, everywhere, likeness=0.65)
    return ConfigError(f"unknown key {key!r}: choose from {', '.join(siblings)}{hint}")


def _read(kind: Any, value: Any, key: str, option: Field[Any] | None = None) -> Any:
    """Read `value`, found at the dotted `key`, as the annotation `kind`; `option` is the field that declares it."""
    if is_dataclass(kind):
        return _read_dataclass(kind, value, key)
    if get_origin(kind) is list:
        return _read_list(get_args(kind)[0], value, key, option)
    if get_origin(kind) in (Union, UnionType):
        if value is None:
            return None
        (kind,) = (member for member in get_args(kind) if member is not type(None))
    try:
        return _READERS[kind](value)
    except TypeError as error:
        raise _wrong(key, value, str(error), option) from error


def _read_dataclass(kind: Any, value: Any, key: str) -> Any:
    if not isinstance(value, Mapping):
        raise _wrong(key, value, "a mapping of options")
    kinds, declared = get_type_hints(kind), {option.name: option for option in fields(kind)}
    for name in value:
        if name not in kinds:
            raise unknown_key(_join(key, name), [_join(key, known) for known in kinds])
    return kind(**{name: _read(kinds[name], item, _join(key, name), declared[name]) for name, item in value.items()})


def _read_list(kind: Any, value: Any, key: str, option: Field[Any] | None) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(key, value, "a list, such as [a, b]", option)
    return [_read(kind, item, _join(key, index), option) for index, item in enumerate(value)]


# Each reads one value or raises `TypeError` with what was wanted.


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


_READERS = {bool: _read_bool, int: _read_int, float: _read_float, str: _read_str}


def _join(key: str, name: object) -> str:
    return f"{key}.{name}" if key else str(name)


def _wrong(key: str, value: object, wanted: str, option: Field[Any] | None = None) -> ConfigError:
    shown = value if isinstance(value, str | int | float) else _SHORT.repr(value)
    return ConfigError(f"{key or 'the configuration'}={shown}: must be {wanted}{_rule(option) if option else ''}")


def _rule(option: Field[Any]) -> str:
    """What the option may hold, in the words that follow its type."""
    allowed = option.metadata.get("allowed")
    if isinstance(allowed, str):
        return f" in {allowed}" + ("" if option.default is MISSING else f"; the default is {option.default}")
    if isinstance(allowed, tuple):
        return f"; choose from {describe(allowed)}"
    return f": {describe(allowed)}" if allowed else ""
