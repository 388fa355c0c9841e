"""Saved games as JSON: position, orders and results of every phase, restored exactly.

The format is described in `docs/envs/diplomacy_saved_games.md`. `write_game` makes the JSON value, `read_game` reads
it, `save` and `load` use a file, `save_lines` and `load_lines` one with a game on every line (JSONL). A game is a list
of `PhaseRecord`s, the last one its current position; any of them can be continued with
`batch.set_position(game, record.position)`. `read_game` recognizes games of the Python package `diplomacy` and reads
them with `package_game.py`.

Files may lack some or all results. The adjudicator processes the orders of every phase. Its results replace missing
ones if its next position equals the file's; otherwise they stay `UNKNOWN`. Every difference becomes a note of its
phase.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import read_regular_text, user_path, write_atomically
from sparring.configs.core.typed import Field
from sparring.envs.diplomacy.batch import SEA
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.records import phase_format
from sparring.envs.diplomacy.records.history import PhaseRecord
from sparring.envs.diplomacy.records.history_consistency import check_course
from sparring.envs.diplomacy.records.package_game import read_package_game
from sparring.envs.diplomacy.records.verification import Difference, complete_results, differences

T = TypeVar("T")

FORMAT, VERSION = "sparring-diplomacy", 1
LARGEST = 16 * 2**20
"""Bytes of a file or a line with one game; one of 200 phases has about one MiB."""
KEYS = ("format", "version", "map", "phases", "players")


def write_game(game: Sequence[PhaseRecord], *, players: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON value of a game; raises `InputError` with a path for games that `read_game` would reject.

    These include integers that are not orders, and orders without a unit: the adjudicator ignores them, the format
    excludes them. `players` names the players of the seven powers, in order; empty if unknown.
    """
    value: dict[str, Any] = {"format": FORMAT, "version": VERSION, "map": "standard"}
    if any(players):
        value["players"] = {power: name for power, name in zip(POWERS, players, strict=True) if name}
    value["phases"] = [phase_format.write_phase(record, f"phases[{number}]") for number, record in enumerate(game)]
    _read(value)
    return value


def read_game(data: Any, *, verify: bool = False, via: str = SEA) -> list[PhaseRecord]:
    """Return the game in a JSON value; raises `InputError` with the path of the wrong field.

    The adjudicator fills in missing results and adds `notes` where its results differ; `via` selects its rule for moves
    VIA (`DiplomacyBatch`). With `verify` the first difference raises an `InputError` with the unit and both results.
    """
    game = _read(data)
    if verify and (difference := next(differences([game], via=via), None)) is not None:
        raise InputError(str(difference))
    return complete_results(game, via=via)


def _read(data: Any) -> list[PhaseRecord]:
    root = Field(data)
    if "format" not in root.of(dict) and "phases" in data:
        return _whole(read_package_game(root), root["phases"])
    for name, expected in zip(KEYS, (FORMAT, VERSION, "standard"), strict=False):
        if (field := root[name]).value != expected or type(field.value) is not type(expected):
            field.fail(f"must be {expected!r}, not {field.value!r}")
    root.keys(KEYS)
    read_players(data)
    return _whole([phase_format.read_phase(phase) for phase in root["phases"]], root["phases"])


def read_players(data: Any) -> tuple[str, ...]:
    """Return the players of the seven powers in a JSON value, empty where unknown; raises `InputError`."""
    names = [""] * len(POWERS)
    if (players := Field(data).get("players")) is not None and "format" in data:
        for power, name in players.items():
            names[phase_format.read_power(name, power)] = name.of(str)
    return tuple(names)


def save(path: str | Path, game: Sequence[PhaseRecord], *, players: Sequence[str] = ()) -> None:
    """Write a game to a file, atomically.

    Raises `InputError` for a game that cannot be written (`write_game`), for a missing folder, and if the file cannot
    be written.
    """
    _write(user_path("path", path), json.dumps(write_game(game, players=players), indent=1) + "\n")


def _write(path: Path, text: str) -> None:
    if not path.parent.is_dir():
        raise InputError(f"{path}: missing folder {str(path.parent)!r}; create it first, or give another path")
    try:
        write_atomically(path, text)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); give another path") from error


def load(path: str | Path, *, verify: bool = False, via: str = SEA) -> list[PhaseRecord]:
    """Read the game in a file; raises `InputError` for a missing file, invalid JSON, or an invalid game.

    `verify` and `via` are those of `read_game`.
    """
    return _load(path, partial(read_game, verify=verify, via=via))


def verify_file(path: str | Path, *, via: str = SEA) -> tuple[int, list[Difference]]:
    """Re-adjudicate every phase of the games in a file; return the number of phases and the differing ones.

    A file ending in .jsonl has a game on every line; many phases are adjudicated at once. Raises `InputError`.
    """
    lined, counted = Path(path).suffix == ".jsonl", 0

    def games() -> Iterator[list[PhaseRecord]]:
        nonlocal counted
        for game in _lines(path, _read) if lined else [_load(path, _read)]:
            counted += sum(record.orders is not None for record in game)
            yield game

    differing = list(differences(games(), via=via))
    if counted:
        return counted, differing
    raise InputError(f"{path}: has no phase with orders to verify")


def save_lines(path: str | Path, games: Iterable[Sequence[PhaseRecord]]) -> None:
    """Write games to a file, one on every line, atomically. Raises `InputError` as `save` does, with the game's number.

    `load_lines` reads them, and games that the package `diplomacy` has saved so.
    """
    lines = []
    for number, game in enumerate(games):
        try:
            lines.append(json.dumps(write_game(game)) + "\n")
        except InputError as error:
            raise InputError(f"game {number}: {error}") from error
    _write(user_path("path", path), "".join(lines))


def load_lines(path: str | Path) -> Iterator[list[PhaseRecord]]:
    """Yield the games in a file with one on every line, of either format; empty lines are left out.

    Raises `InputError`, with the number of the line, for invalid ones, and before it is parsed for one above `LARGEST`.
    """
    return _lines(path, read_game)


def _lines(path: str | Path, reader: Callable[[Any], T]) -> Iterator[T]:
    file_path = user_path("path", path)
    try:
        with file_path.open("rb") as file:
            for number in count(1):
                if not (line := file.readline(LARGEST + 1)):
                    return
                if line.strip():
                    yield _line(f"{path}, line {number}", line, reader)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def _line(name: str, line: bytes, reader: Callable[[Any], T]) -> T:
    if len(line) > LARGEST:
        raise InputError(f"{name}: has more than {LARGEST:,} bytes; write one game per line")
    try:
        return _parsed(line, reader)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: no JSON: {error}") from error


def load_players(path: str | Path) -> tuple[str, ...]:
    """Read the players of the seven powers from a file; raises `InputError` as `load` does."""
    return _load(path, read_players)


def _load(path: str | Path, reader: Callable[[Any], T]) -> T:
    file_path = user_path("path", path)
    try:
        if file_path.is_file() and (size := file_path.stat().st_size) > LARGEST:
            raise InputError(f"has {size:,} bytes; a game has at most {LARGEST:,}, so give a file of one game")
        return _parsed(read_regular_text(file_path, follow=True), reader)
    except OSError as error:
        folder = file_path.parent
        missing = "" if folder.is_dir() else f"; missing folder {str(folder)!r}"
        raise InputError(f"{path}: {error.strerror}{missing}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:
        lines = "; a file holds one game; load_lines reads one game per line" if "Extra data" in str(error) else ""
        raise InputError(f"{path}: no JSON: {error}{lines}") from error


def _parsed(text: str | bytes, reader: Callable[[Any], T]) -> T:
    """Return the result of `reader` for JSON.

    The garbage collector is paused: the many objects have no cycles, and collection takes three quarters of the parsing
    time.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return reader(json.loads(text, object_pairs_hook=_once))
    finally:
        if collects:
            gc.enable()


def _whole(game: list[PhaseRecord], phases: Field) -> list[PhaseRecord]:
    if not game:
        phases.fail("must hold at least one phase")
    check_course(game, phases)
    return game


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object; raises `InputError` for a repeated key (JSON would keep its last value)."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise InputError(f"key {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return members
