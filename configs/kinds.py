"""Kinds of run, and the options of each by dotted key.

Keys are written as on the command line: `phases.0.stages.1.at` is the second stage of the first phase.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any, get_args, get_type_hints

from sparring.configs.core.errors import ConfigError, choose
from sparring.configs.core.parts import parts
from sparring.configs.games import EXPLOITED, PACKAGES, id_message, is_imported, is_retired
from sparring.configs.schema import GYMNASIUM, IMPORTED, RunConfig

OWN_PREFIX = "sparring/"


@cache
def run_kinds() -> tuple[type[RunConfig], ...]:
    """Return all kinds of run, PPO's first: those of the games and those of other packages."""
    # By name, since `envs` imports this package.
    envs = import_module("sparring.envs.game")
    kinds = [kind for game in envs.games() if game.runs for kind in envs.load(game.runs)]
    kinds += [kind for place in parts("runs").values() for kind in place.kinds]
    return tuple(sorted(kinds, key=lambda kind: "ppo" not in kind.trainers))


@cache
def first_runs() -> dict[str, str]:
    """Return the run file of `env=NAME` if no run is named."""
    envs = import_module("sparring.envs.game")
    first_runs = {name: name for name in ("gymnasium", *PACKAGES)}
    first_runs |= {game.name: game.first_run for game in envs.games()}
    return first_runs | {name: game.first_run for name, (game, _) in envs.aliases().items()}


def alias_id(name: str) -> str:
    """Return the `env.id` that `env=NAME` stands for if NAME is an alias; empty for the name of a game."""
    _, env_id = import_module("sparring.envs.game").aliases().get(name, (None, ""))
    return str(env_id)


def run_kind(plain: Mapping[str, Any]) -> type[RunConfig]:
    """Return the kind of run selected by `trainer` and `env.id`; unknown ones are rejected when read."""
    trainer, env = plain.get("trainer", "ppo"), plain.get("env")
    kinds = [kind for kind in run_kinds() if trainer in kind.trainers] or run_kinds()
    env_id = env.get("id") if isinstance(env, Mapping) else None
    game = GYMNASIUM
    if packaged := [kind for kind in run_kinds() if isinstance(env, Mapping) and kind.game == _game_of_package(env)]:
        return next((kind for kind in packaged if kind in kinds), packaged[0])  # its trainer is checked later
    if isinstance(env_id, str) and (is_game(env_id) or env_id.lower().startswith(OWN_PREFIX) or is_retired(env_id)):
        game = env_id
    elif isinstance(env, Mapping) and is_imported(env):
        return next((kind for kind in run_kinds() if kind.game == IMPORTED), kinds[0])  # its trainer is checked later
    elif not isinstance(env_id, str):
        return kinds[0]
    return next((kind for kind in kinds if kind.game == game), kinds[0])


def _game_of_package(env: Mapping[str, Any]) -> str:
    """Return the id of the game that `env.package` names, empty for other packages."""
    games = import_module("sparring.envs.game").games()
    return next((game.id for game in games if game.name == env.get("package")), "")


def is_game(env_id: str) -> bool:
    """Return whether a game of this project or of another package has this id."""
    return any(kind.game == env_id for kind in run_kinds())


def members(section: Any, lacks: Sequence[str], prefix: str = "") -> Iterator[tuple[Field[Any], str]]:
    """Yield the fields of a dataclass at `prefix`, except those in `lacks`, with their bare keys."""
    for option in sorted(fields(section), key=lambda field: field.name == "logger"):  # common to all runs, comes last
        if (key := f"{prefix}{option.name}") not in lacks:
            yield option, key


def declared(kind: Any) -> dict[str, Field[Any]]:
    """Return the options of a kind of run by bare key, such as `phases.stages.at`."""
    return _all_declared(kind)


@cache  # in a function of its own: mypy takes a dataclass's type for unhashable
def _all_declared(kind: Any) -> dict[str, Field[Any]]:
    return dict(_declared(kind, kind.lacks, ""))


def _declared(section: Any, lacks: Sequence[str], prefix: str) -> Iterator[tuple[str, Field[Any]]]:
    hints = get_type_hints(section)
    for option, key in members(section, lacks, prefix):
        inner = next((hint for hint in (hints[option.name], *get_args(hints[option.name])) if is_dataclass(hint)), None)
        if inner:
            yield from _declared(inner, lacks, f"{key}.")
        else:
            yield key, option


def knows(kind: Any, key: str) -> bool:
    """Return whether a kind of run has this option or section."""
    return bare(key) in _options_and_sections(kind)


@cache
def _options_and_sections(kind: Any) -> frozenset[str]:
    parts = (key.split(".") for key in declared(kind))
    return frozenset(".".join(names[:length]) for names in parts for length in range(1, len(names) + 1))


def siblings(kind: type[RunConfig], key: str) -> list[str]:
    """Return the options and sections on the level of `key`, known or not, in order."""
    group, dot, _ = key.rpartition(".")
    prefix = f"{bare(group)}{dot}"
    names = (name.removeprefix(prefix).split(".")[0] for name in declared(kind) if name.startswith(prefix))
    return [f"{group}{dot}{name}" for name in dict.fromkeys(names)]


def owners(key: str) -> list[type[RunConfig]]:
    """Return the kinds of run that have an option or section; none if the key is unknown."""
    return [kind for kind in run_kinds() if knows(kind, key)]


def games(kinds: Sequence[type[RunConfig]]) -> list[str]:
    """Return the games of some kinds of run, each once."""
    return list(dict.fromkeys(kind.game for kind in kinds))


def check_own_game(env_id: str) -> None:
    """Raise `ConfigError` if an `env.id` refers to a game of the project, by prefix or name, that does not exist."""
    if is_retired(env_id):
        raise ConfigError(id_message(env_id))
    registered = [game for game in games(run_kinds()) if game not in (GYMNASIUM, IMPORTED)]
    if env_id.lower().startswith(OWN_PREFIX) or f"{OWN_PREFIX}{env_id}" in registered:
        choose("env.id", env_id, registered)


def belongs_elsewhere(kind: type[RunConfig], key: str, plain: Mapping[str, Any]) -> str:
    """Name the owner of the option `key`, given in `plain` but missing from its `kind`; empty if none.

    The owner is a game or a trainer, with its game if the trainer's other games lack the option.
    """
    kinds, trainer, env = owners(key), plain.get("trainer", "ppo"), plain.get("env")
    same_trainer = [owner for owner in kinds if trainer in owner.trainers]
    game = env.get("id", kind.game) if isinstance(env, Mapping) else kind.game
    if same_trainer or (not {kind.game, game} & {*games(kinds)} and knows(kind, key.split(".")[0])):
        whose, name, condition = games(same_trainer or kinds), game, ""
    else:
        whose, name = list(dict.fromkeys(t for owner in kinds for t in owner.trainers)), f"trainer={trainer}"
        same = [owner for owner in run_kinds() if {*owner.trainers} & {*whose}]
        condition = f" with {joined(games(kinds))}" if {*games(same)} - {*games(kinds)} else ""
    instead = "leave it out"
    if key == "dry_run":
        instead += ", --cfg prints what would be run"
    elif key in EXPLOITED:
        described = import_module("sparring.envs.game").game_of(game)
        attacked = described is not None and described.response_run
        instead += ", `sparring exploit RUN` trains best responses" if attacked else ", no attack measures its policies"
    return f"is an option of {joined(whose)}{condition}, not of {name}; {instead}" if kinds else ""


def joined(names: Iterable[str]) -> str:
    """Return "a", "a and b", or "a, b and c", each name once."""
    *first, last = dict.fromkeys(names) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def bare(key: str) -> str:
    """Return `phases.0.stages.1.at` as `phases.stages.at`, and `env.kwargs.board_size` as `env.kwargs`."""
    return re.sub(r"\.\d+(?=\.|$)", "", re.sub(r"^env\.kwargs\..*", "env.kwargs", key))
