"""Look up game modules and names in all packages, given a misspelled name or one without its package."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import gymnasium

from sparring.configs.core.errors import ConfigError, nearest, suggestion
from sparring.envs.imported.config import KNOWN_GAME
from sparring.envs.imported.match import raised, raised_where

ALIKE = 0.75
"""Minimum similarity of a suggested name."""
TOPS = ("pettingzoo", "mpe2")
VERSION = re.compile(r"[_-]v\d+$")
HOW = {
    "pettingzoo": "PettingZoo has {0}: check it as {0}, train with env=pettingzoo env.id={0}",
    "openspiel": "OpenSpiel has {0}: check it as openspiel:{0}, train with env=openspiel env.id={0}",
    "gymnasium": "Gymnasium has {0}, for one player: train with env=gymnasium env.id={0}",
}


def found_elsewhere(name: str) -> str:
    """Return "; OpenSpiel has NAME: check it as ..." for the game that `name` matches in any package, or ""."""
    games = list(_names())
    names = {alias.lower(): game for game in games for alias in _aliases(game[1])}
    names |= {game[1].lower(): game for game in games}
    meant = name.partition("(")[0].lower()
    near = meant if meant in names else nearest(meant, names, likeness=ALIKE)
    if near is None:
        return ""
    package, full = names[near]
    return f"; {HOW[package].format(full)}"


def _names() -> Iterator[tuple[str, str]]:
    """Yield package and id of every installed game; of equal short names the last one counts."""
    yield from (("gymnasium", name) for name in sorted(gymnasium.registry, key=lambda name: ("/" not in name, name)))
    for top in TOPS:
        spec = find_spec(top)
        for folder in map(Path, spec.submodule_search_locations or () if spec else ()):
            files = sorted([*folder.glob("*_v*.py"), *folder.glob("*/*_v*.py")])
            modules = (".".join((top, *file.relative_to(folder).with_suffix("").parts)) for file in files)
            yield from (("pettingzoo", name) for name in modules if KNOWN_GAME.fullmatch(name))
    if find_spec("pyspiel"):
        yield from (("openspiel", name) for name in import_module("pyspiel").registered_names())


def _aliases(name: str) -> list[str]:
    """Return an id, and the same without its package and without its version."""
    short = re.split(r"[./]", name)[-1]
    return [VERSION.sub("", short), short, name.partition(".")[2] or name]


def module_of(game_id: str, name: str) -> ModuleType:
    """Import the module `name` of a game. Raises `ConfigError` for any exception."""
    try:
        return import_module(name)
    except Exception as error:
        hint = _similar(name, error) if isinstance(error, ModuleNotFoundError) else ""
        what = raised(error) if isinstance(error, ImportError | ValueError) else raised_where(error)
        raise ConfigError(f"env.id={game_id}: {name or 'it'} cannot be imported: {what}{hint}") from error


def _similar(module_name: str, error: ModuleNotFoundError) -> str:
    """Return a hint on where to look for the missing module, or how to install a game's packages."""
    if not module_name.startswith(str(error.name)):
        group = module_name.split(".")[1:2]
        packaged = module_name.startswith("pettingzoo.") and group
        return f"; pip install 'pettingzoo[{group[0]}]'" if packaged else "; install the packages that this game needs"
    package, top = module_name.rpartition(".")[0], module_name.split(".")[0]
    if error.name == top and (elsewhere := found_elsewhere(module_name)):
        return elsewhere
    if error.name == top:
        if Path(f"{top}.py").is_file() or Path(top).is_dir():
            return "; it is in this folder: run `export PYTHONPATH=.`"
        return "; install it, or put its folder on PYTHONPATH"
    try:
        spec = find_spec(package) if package else None
    except (ImportError, ValueError):
        spec = None
    places = spec.submodule_search_locations if spec else None
    siblings = [f"{package}.{module.name}" for module in pkgutil.iter_modules(places)] if places else []
    return suggestion(module_name, siblings) or found_elsewhere(module_name)
