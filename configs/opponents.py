"""Names of opponents and rewards that are Python code: the registry, and references such as `my_package.bots:Mine`.

Importing a reference runs code. It must therefore come from the user's script or command line, not only from a file:
`code_to_type` returns the options of a configuration that name code and are not repeated on the command line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from itertools import chain, count
from types import ModuleType
from typing import Any, TypeVar

from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import InputError, suggestion
from sparring.configs.kinds import run_kinds
from sparring.configs.schema import LABEL, NamedOpponentsRunConfig, RunConfig

REFERENCE = re.compile(r"(?!bot:|held_out:|stochastic:)[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
"""`module:Name`; `bot:NAME` is a bot, `held_out:NAME` a held-out opponent, `stochastic:NAME` a checkpoint."""
ACTING = ("act", "action_probabilities", "step")
"""Methods of players: for rows of observations, and for a state as in OpenSpiel."""
Source = TypeVar("Source")
_registered: dict[str, Any] = {}


def register_opponent(name: str) -> Callable[[Source], Source]:
    """Register the decorated class or function as the opponent `name`, wherever opponents are named.

    It acts for a whole batch: `act(obs [N, D]) -> actions [N, A]`, as a method or as the function itself. A class is
    instantiated without arguments when a game needs it. Registering a name again replaces the object, as when a cell of
    a notebook runs twice. Raises `InputError` for a bot's name, or one not made of letters, digits, '_' and '-'.
    """
    if wrong := complaint(name, LABEL):
        raise InputError(f"register_opponent({name!r}): {wrong}")
    if any(name in kind.bots for kind in run_kinds()):
        raise InputError(f"register_opponent({name!r}): is a bot's name; choose another")

    def register(source: Source) -> Source:
        _registered[name] = source
        return source

    return register


def forget_opponent(name: str) -> None:
    """Unregister an opponent."""
    del _registered[name]


def registered() -> tuple[str, ...]:
    """Return the registered names."""
    return tuple(_registered)


def registered_name(source: object) -> str:
    """Return the name under which `source` is registered, empty if it is not."""
    return next((name for name, object_ in _registered.items() if object_ is source), "")


def source_name(source: Any) -> str:
    """Return the name of a class or a function, or of an object's class."""
    return str(getattr(source, "__name__", type(source).__name__)).strip("<>")


def opponent_text(value: Any) -> str:
    """Return the text that names `value` in a configuration or on a command line, such as a loaded policy's file.

    A Python object that acts is registered, if necessary, under the name of its class or function; equal names are
    numbered: Mine, Mine-2. Raises `InputError` for a class or function with the name of a bot.
    """
    if (path := getattr(value, "path", None)) is not None:
        if (statistics := getattr(value, "vecnormalize", None)) is not None:
            raise InputError(
                f"{path}: an opponent finds its statistics beside it; copy {statistics} to {path.stem}_vecnormalize.pkl"
            )
        return str(path)
    if not (callable(value) or any(hasattr(value, name) for name in ACTING)):
        return str(value)
    if registered_as := registered_name(value):
        return registered_as
    base = source_name(value)
    names = chain([base], (f"{base}-{number}" for number in count(2)))
    name = next(name for name in names if name not in _registered)
    register_opponent(name)(value)
    return name


def is_reference(text: str) -> bool:
    """Return True for `module:Name`."""
    return REFERENCE.fullmatch(text) is not None


def is_code(text: object) -> bool:
    """Return True for the name of a Python object: `module:Name`, or a registered name."""
    return isinstance(text, str) and (text in _registered or is_reference(text))


def named_module(module: str, label: str) -> ModuleType:
    """Import a module, which runs its code. Raises `InputError`, which begins with `label`, if it is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}."):
            raise
        where = "install it, or put its folder on PYTHONPATH"
        raise InputError(f"{label}: cannot find the module {error.name}; {where}") from error
    except SystemExit as error:
        raise InputError(f"{label}: the module {module} exits when imported; put its calls into functions") from error


def named_source(text: str, noun: str = "opponent") -> Any:
    """Return the object registered as `text`, or import the reference `text`, which runs the module's code.

    `noun` describes it in messages.

    Raises `InputError` if the module or the name in it is missing.
    """
    if text in _registered:
        return _registered[text]
    module, _, name = text.partition(":")
    imported = named_module(module, f"{noun} {text}")
    if not hasattr(imported, name):
        names = [other for other in vars(imported) if not other.startswith("_")]
        raise InputError(f"{noun} {text}: {module} has no {name}{suggestion(name, names)}")
    return getattr(imported, name)


def named_opponents(config: RunConfig) -> dict[str, list[str]]:
    """Return a configuration's opponents (including bots) by key, and its custom reward."""
    if not isinstance(config, NamedOpponentsRunConfig):
        return {}
    stages = {
        f"phases.{p}.stages.{s}.bots": list(stage.bots)
        for p, phase in enumerate(config.phases)
        for s, stage in enumerate(phase.stages)
    }
    against = {"against": [config.against]} if config.against else {}
    reward = getattr(config, "reward", "")
    against |= {"reward": [reward]} if reward else {}
    outcome = getattr(config.env, "outcome", "")
    against |= {"env.outcome": [outcome]} if outcome else {}
    return against | ({"opponents": list(config.opponents)} if config.opponents else {}) | stages


def code_to_type(config: RunConfig, typed: Iterable[Any]) -> dict[str, str]:
    """Return the references of `config` missing from the `typed` values, each with the option that repeats it."""
    typed_texts = set(_texts(typed))
    missing: dict[str, str] = {}
    for key, names in named_opponents(config).items():
        option = f"{key}={names[0]}" if key in ("against", "reward", "env.outcome") else f"{key}=[{','.join(names)}]"
        missing |= {name: option for name in names if is_reference(name) and name not in typed_texts | missing.keys()}
    return missing


def _texts(values: Any) -> Iterable[str]:
    """Yield every text inside nested lists and mappings."""
    if isinstance(values, str):
        yield values
    elif isinstance(values, Iterable):
        for value in values.values() if isinstance(values, dict) else values:
            yield from _texts(value)
