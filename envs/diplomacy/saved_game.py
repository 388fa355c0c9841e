"""Saved games as JSON: every phase's position, orders and results, read back exactly as they were.

The format is described in `docs/envs/diplomacy_saved_games.md`. `write_game` makes the JSON value, `read_game` takes it
apart, `save` and `load` do so with a file. A game is a list of `Record`s, the last one being where it stands; any of
them can go on with `batch.set_position(game, record.position)`. Games of the Python package `diplomacy` are read by
`package_game.py`; `read_game` tells the two apart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from configs.files import write_atomically
from configs.names import InputError
from envs.diplomacy.history import Record
from envs.diplomacy.json_fields import Field
from envs.diplomacy.package_game import read_package_game
from envs.diplomacy.phase_reading import read_phase
from envs.diplomacy.phase_writing import write_phase

FORMAT, VERSION = "sparring-diplomacy", 1
KEYS = ("format", "version", "map", "phases")


def write_game(game: Sequence[Record]) -> dict[str, Any]:
    """The JSON value of a game; raises `InputError` for an order that has no words."""
    return {"format": FORMAT, "version": VERSION, "map": "standard", "phases": [write_phase(phase) for phase in game]}


def read_game(data: Any) -> list[Record]:
    """The game in a JSON value; raises `InputError` with the path of what is wrong."""
    whole = Field(data)
    if "format" not in whole.of(dict) and "phases" in data:
        return _some(read_package_game(whole))
    for name, wanted in zip(KEYS, (FORMAT, VERSION, "standard"), strict=False):
        if (found := whole[name]).value != wanted or type(found.value) is not type(wanted):
            found.fail(f"must be {wanted!r}, not {found.value!r}")
    whole.keys(KEYS)
    return _some([read_phase(phase) for phase in whole["phases"]])


def save(path: Path, game: Sequence[Record]) -> None:
    """Write a game into a file, whole or not at all."""
    write_atomically(path, json.dumps(write_game(game), indent=1) + "\n")


def load(path: Path) -> list[Record]:
    """Read the game in a file; raises `InputError` for what is not there, no JSON, or no game."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_once)
        return read_game(data)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: no JSON: {error}") from error


def _some(game: list[Record]) -> list[Record]:
    if not game:
        raise InputError("phases: must hold at least one phase")
    return game


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without a key said twice, of which JSON would keep the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise InputError(f"key {next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found
