"""Parts that are discovered, not enumerated: games, commands and trainers, each an entry point of a distribution.

The groups are `sparring.games` (a `Game`), `sparring.commands` (a `CommandPlace`), `sparring.trainers` (a
`TrainerPlace`), `sparring.sweeps` (a `SweepPlace`), `sparring.runs` (a `RunsPlace`) and `sparring.functions`, further
names of the Python API. This project's are in pyproject.toml, where a checkout reads them without being installed; a
part whose folder was deleted is not listed, nor one that `needs` it. Those of other packages come from the installed
distributions.
"""

from __future__ import annotations

import tomllib
import warnings
from functools import cache
from importlib import import_module, metadata
from typing import Any, NamedTuple

from sparring.configs.core.files import PACKAGE

NAME = "sparring"


class CommandPlace(NamedTuple):
    """A command line of the program `sparring`: the module whose `main()` runs it, and what it does."""

    module: str
    what: str
    trains: bool = True
    """Whether it needs the extra `train`."""
    order: int = 100
    """Its position in the overview, ascending."""
    needs: tuple[str, ...] = ()
    """Modules of other parts without which it is not listed."""


class TrainerPlace(NamedTuple):
    """What `trainer=NAME` means: "module:name" of the trainer's class and of its training loop."""

    trainer: str
    fit: str = "sparring.agents.run.fit:fit"
    extra: str = ""
    """The extra that installs its requirements."""
    processes: bool = True
    """Whether torchrun can start it."""
    order: int = 100
    check_options: str = ""
    """Function "module:name" of a configuration that rejects options which the trainer lacks."""
    check_sources: str = ""
    """Function "module:name" of a configuration that rejects a new run if its starting point is missing."""
    preview: str = ""
    """Function "module:name" of a configuration with the lines that `dry_run=true` prints."""
    needs: tuple[str, ...] = ()
    """Modules of other parts without which it is not listed."""


class RunsPlace(NamedTuple):
    """Kinds of run of environments that no `Game` describes."""

    kinds: tuple[type, ...]
    order: int = 100


class SweepPlace(NamedTuple):
    """How `train.py` launches several runs at once: +KEY=NAME, where `key` is the entry's name, and `flags`."""

    launch: str
    """Function "module:name" of the arguments, `(arguments, *, show)`, that returns the exit code; `show` prints."""
    names: str
    """Function "module:name" that returns the names for +KEY=, with the purpose of each."""
    usage: str
    """Lines of --help."""
    about: str
    """Paragraph of --help all."""
    flags: tuple[str, ...] = ()
    order: int = 100


@cache
def parts(group: str) -> dict[str, Any]:
    """Return the objects of a group, such as `games`, by name: this project's by `order`, then other packages'.

    An installed distribution lists its entry points by name, so their order in pyproject.toml is lost. A part of
    another package that cannot be imported is left out with a warning that names it.
    """
    ours = {name: _load(reference) for name, reference in _project(group).items()}
    listed = [(name, part) for name, part in ours.items() if all(map(_exists, getattr(part, "needs", ())))]
    loaded = dict(sorted(listed, key=lambda item: (item[1].order, item[0])))
    for entry in _strangers(group):
        owner = entry.dist.name if entry.dist else "another package"
        if entry.name in loaded:
            warnings.warn(f"{owner}: {group} already has {entry.name!r}, so {entry.value} is not used", stacklevel=2)
            continue
        try:
            loaded[entry.name] = _load(entry.value)
        except Exception as error:  # an error in a foreign module must not break every command
            text = f"{owner}: {entry.value} of {group} cannot be used: {type(error).__name__}: {error}"
            warnings.warn(text, stacklevel=2)
    return loaded


def part(group: str, name: str) -> Any:
    """Import the object `name` of a group alone; raises `KeyError` if there is none."""
    return _load(_project(group).get(name) or {entry.name: entry.value for entry in _strangers(group)}[name])


@cache
def part_names(group: str) -> tuple[str, ...]:
    """Return the names of a group without importing the objects."""
    return tuple(sorted({*_project(group), *(entry.name for entry in _strangers(group))}))


def _project(group: str) -> dict[str, str]:
    """References of this project's own parts; in a checkout, from its current files."""
    stated = PACKAGE / "pyproject.toml"
    if stated.is_file():
        tables = tomllib.loads(stated.read_text(encoding="utf-8"))["project"]["entry-points"]
        references: dict[str, str] = tables.get(f"{NAME}.{group}", {})
    else:
        references = {entry.name: entry.value for entry in _installed(group) if _is_ours(entry)}
    return {name: reference for name, reference in references.items() if _exists(reference.partition(":")[0])}


def _strangers(group: str) -> list[metadata.EntryPoint]:
    return [entry for entry in _installed(group) if not _is_ours(entry)]


def _is_ours(entry: metadata.EntryPoint) -> bool:
    return entry.dist is not None and entry.dist.name == NAME


def _installed(group: str) -> metadata.EntryPoints:
    return _all_installed().select(group=f"{NAME}.{group}")


_all_installed = cache(metadata.entry_points)
"""One walk over all distributions takes some 10 ms."""


def _exists(module: str) -> bool:
    """Return whether a module of this project has its file; nothing is imported."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def _load(reference: str) -> Any:
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)
