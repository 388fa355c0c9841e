"""Games of several evaluations as one table.

A long evaluation can run in parts with different seeds on several cores. Their files hold the end of every game. From
these, `pooled` recomputes all figures and their intervals over games, pair by pair. It refuses parts with different
last years or starts, the same pair with the same seed twice, or files without the ends of games.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from sparring.configs.core.errors import InputError
from sparring.configs.core.files import read_json
from sparring.configs.core.typed import Field
from sparring.envs.diplomacy.board.codes import NUM_CENTRES, NUM_POWERS
from sparring.envs.diplomacy.evaluation.results import (
    EACH_OF_SIX,
    INTERVALS,
    SCHEMA_VERSION,
    PowerRecord,
    owners_with,
    plain_record,
    power_table,
    record,
    side_table,
)
from sparring.eval.stats.tables import table

_POOLED = {
    "score % (squares)": "squares",
    "searchbot % (solo 1 or 0)": "searchbot",
    "solo %": "solos",
    "decided %": "decided",
    "most centres %": "leads",
    "centres": "centres",
    "survival %": "survival",
}
_END = re.compile(r"(\d{4,5})((?: \d{1,2}){7})")


@dataclass
class Pair:
    """Ends of the games of one player against six of another: last years, and centres of the powers."""

    years: list[int] = field(default_factory=list)
    centres: list[list[int]] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)


def pooled(files: Sequence[Path]) -> tuple[str, str]:
    """Return the table of all games in `files`, and the same as JSON.

    Raises `InputError` with the name of the file that cannot be read or does not belong to the others.
    """
    pairs: dict[tuple[str, str], Pair] = {}
    years: dict[int, Path] = {}
    starts: dict[Any, tuple[Path, Any]] = {}
    for path in files:
        try:
            content = Field(read_json(path, follow=True))
            _add(pairs, content)
            years.setdefault(content["last_year"].of(int), path)
            start = content.get("start")
            starts.setdefault(start and start["digest"].of(str), (path, start and start.of(dict)))
        except (OSError, ValueError, RecursionError) as error:  # an InputError is a ValueError
            what = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"{path}: {what}; give the JSON of an evaluation by this version") from error
    if len(years) > 1:
        (year, first), (other, second) = list(years.items())[:2]
        raise InputError(f"--pool: games of {first} end after {year}, those of {second} after {other}; pool them apart")
    if len(starts) > 1:
        first, second = [file for file, _ in starts.values()][:2]
        raise InputError(f"--pool: games of {first} and {second} begin in different positions; pool them apart")
    return _texts(pairs, next(iter(years)), next(iter(starts.values()))[1])


def _add(pairs: dict[tuple[str, str], Pair], content: Field) -> None:
    if content["kind"].value != "diplomacy":
        content["kind"].fail(f"must be 'diplomacy', not {content['kind'].value!r}")
    seed = content["seed"].of(int)
    for entry in content["records"]:
        pair = pairs.setdefault((entry["one"].of(str), entry["six"].of(str)), Pair())
        if seed in pair.seeds:
            entry.fail(f"its games were played with seed {seed}, like those of a previous file; use another seed")
        pair.seeds.append(seed)
        for end in entry["ends"]:
            year, centres = _end(end)
            pair.years.append(year)
            pair.centres.append(centres)
        if len(pair.years) % NUM_POWERS:
            entry["ends"].fail("must be a multiple of 7 games")


def _end(field: Field) -> tuple[int, list[int]]:
    """Return the last year and the centres of the seven powers."""
    match = _END.fullmatch(field.of(str))
    centres = [int(count) for count in match[2].split()] if match else []
    if match is None or sum(centres) > NUM_CENTRES:
        field.fail(f"must be a year and seven counts of at most {NUM_CENTRES} centres, not {field.value!r}")
    return int(match[1]), centres


def _records(pairs: dict[tuple[str, str], Pair]) -> Iterator[PowerRecord]:
    """Yield a record for every pair."""
    for (lone, six), pair in pairs.items():
        yield record(lone, six, owners_with(pair.centres), torch.tensor(pair.years), by_power=True)


def _texts(pairs: dict[tuple[str, str], Pair], last_year: int, start: Mapping[str, Any] | None) -> tuple[str, str]:
    records = list(_records(pairs))
    begin = f"from {start['phase']} of {start['file']} " if start else ""
    games = [
        [entry.one, entry.six, str(entry.games), " ".join(map(str, pairs[entry.one, entry.six].seeds))]
        for entry in records
    ]
    lone = side_table([(entry.one, entry.six, entry.alone) for entry in records], _POOLED)
    six = side_table([(entry.six, entry.one, entry.together) for entry in records], _POOLED)
    parts = [
        f"# Diplomacy: one power against six, {begin}to the end of {last_year}",
        INTERVALS,
        table(("one", "six", "games", "seeds"), games),
        f"## One against six\n\n{lone}",
        f"## Six against one\n\n{EACH_OF_SIX} Most centres are those of any of the six, or as many as any.\n\n{six}",
    ]
    for entry in records:
        parts.append(f"## {entry.one} against six {entry.six}, power by power\n\n{power_table(entry.alone_by_power)}")
    content: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "kind": "diplomacy_pool", "last_year": last_year}
    content |= {"start": start} if start else {}
    content["records"] = [plain_record(entry) | {"seeds": pairs[entry.one, entry.six].seeds} for entry in records]
    return "\n\n".join(parts) + "\n", json.dumps(content, indent=1, allow_nan=False) + "\n"
