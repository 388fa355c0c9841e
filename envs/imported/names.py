"""Names of the games of all packages, to find one that was given without its package or misspelled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import gymnasium

from sparring.configs.core.errors import nearest
from sparring.envs.imported.config import KNOWN_GAME

ALIKE = 0.75
"""Least likeness of a name to the one that was meant."""
TOPS = ("pettingzoo", "mpe2")
VERSION = re.compile(r"[_-]v\d+$")
HOW = {
    "pettingzoo": "PettingZoo has {0}: check it as {0}, train with env=pettingzoo env.id={0}",
    "openspiel": "OpenSpiel has {0}: check it as openspiel:{0}, train with env=openspiel env.id={0}",
    "gymnasium": "Gymnasium has {0}, for one player: train with env=gymnasium env.id={0}",
}


def found_elsewhere(name: str) -> str:
    """Return "; OpenSpiel has NAME: check it as ..." for the game of any package that `name` means, or nothing."""
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
    """Yield package and id of every game that is installed; where short names are equal, the last counts."""
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
