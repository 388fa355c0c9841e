"""Reader of map files: lines of text into plain rows, with errors that name file and line.

The layout is described at the head of `standard_map.txt`. `board.py` converts the rows to arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sparring.configs.core.errors import InputError, choose

POWERS = ("AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY")
UNITS = ("A", "F")
TERRAINS = ("inland", "coast", "sea")
COASTS = ("NC", "EC", "SC", "WC")
NEUTRAL, NO_CENTRE = "neutral", "-"


@dataclass(frozen=True)
class Province:
    """A line of [provinces]: `terrain` is one of `TERRAINS`, `centre` a power, `NEUTRAL` or `NO_CENTRE`."""

    code: str
    terrain: str
    centre: str
    name: str


@dataclass
class MapFile:
    """The rows of a map file, filled in section by section; places are codes, with a coast where it matters."""

    provinces: dict[str, Province] = field(default_factory=dict)
    coasts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Places by split province: {"SPA": ("SPA/NC", "SPA/SC")}."""
    start: list[tuple[str, str, str]] = field(default_factory=list)
    """(power, one of `UNITS`, place)."""
    edges: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: {unit: [] for unit in UNITS})
    """Pairs of places by one of `UNITS`, each pair once."""


def read_map(path: Path) -> MapFile:
    """Read the map file at `path`; raises `InputError` naming file and line for the first mistake in it."""
    map_file, section = MapFile(), ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        try:
            if text.startswith("["):
                section = _next_section(section, text)
            elif text:
                _reader(section)(map_file, text)
        except InputError as error:
            raise InputError(f"{path}, line {number}: {error}") from None
    if section != ORDER[-1]:
        raise InputError(f"{path}: ends before {ORDER[-1]}; the sections are {' '.join(ORDER)}")
    return map_file


def _next_section(section: str, header: str) -> str:
    before = ORDER.index(choose("section", header, ORDER))
    if section != ("", *ORDER)[before]:
        raise InputError(f"{header} is out of place: each section is here once, in the order {' '.join(ORDER)}")
    return header


def _reader(section: str) -> Callable[[MapFile, str], None]:
    if not section:
        raise InputError(f"this comes before the first section: begin with {ORDER[0]}")
    return SECTIONS[section]


def _read_province(map_file: MapFile, text: str) -> None:
    words = text.split(maxsplit=3)
    if len(words) < 4:
        raise InputError(f"{text!r} is not a province: write code, terrain, supply centre, full name")
    province = Province(*words)
    _check_province(province)
    for other in map_file.provinces.values():
        if other.code == province.code or other.name == province.name:
            raise InputError(f"{province.code} {province.name} is here twice: as {other.code} {other.name}")
    map_file.provinces[province.code] = province


def _check_province(province: Province) -> None:
    if not re.fullmatch("[A-Z]{3}", province.code):
        raise InputError(f"code {province.code!r}: must be three upper-case letters")
    choose("terrain", province.terrain, TERRAINS)
    choose("supply centre", province.centre, (*POWERS, NEUTRAL, NO_CENTRE))
    if province.terrain == "sea" and province.centre != NO_CENTRE:
        raise InputError(f"{province.code} is a sea: it holds no supply centre")


def _read_coasts(map_file: MapFile, text: str) -> None:
    code, *parts = text.split()
    if map_file.provinces[choose("province", code, map_file.provinces)].terrain != "coast":
        raise InputError(f"{code} is not a coast: its terrain is not coast")
    if code in map_file.coasts:
        raise InputError(f"the coasts of {code} are here twice")
    if len(parts) < 2 or len(set(parts)) < len(parts):
        raise InputError(f"{text!r}: write a province and two or more different coasts of {', '.join(COASTS)}")
    map_file.coasts[code] = tuple(f"{code}/{choose('coast', part, COASTS)}" for part in sorted(parts))


def _read_start(map_file: MapFile, text: str) -> None:
    power, *words = text.split()
    choose("power", power, POWERS)
    if not words or len(words) % 2:
        raise InputError(f"{text!r}: write a power and its units, as in 'FRANCE  A PAR  F BRE'")
    for unit, location in zip(words[::2], words[1::2], strict=True):
        _check_stands(map_file, choose("unit", unit, UNITS), location)
        if location[:3] in (other[:3] for _, _, other in map_file.start):
            raise InputError(f"two units begin in {location[:3]}")
        map_file.start.append((power, unit, location))


def _read_edges(map_file: MapFile, text: str, *, unit: str) -> None:
    start, colon, ends = text.partition(":")
    if not colon or not ends.strip():
        raise InputError(f"{text!r}: write a place, a colon and the places it touches, as in 'ALB: GRE SER'")
    for end in ends.split():
        _add_edge(map_file, unit, start.strip(), end)


def _add_edge(map_file: MapFile, unit: str, start: str, end: str) -> None:
    for location in (start, end):
        _check_stands(map_file, unit, location)
    if start[:3] == end[:3]:
        raise InputError(f"{start} {end}: a province does not touch itself")
    if (start, end) in map_file.edges[unit] or (end, start) in map_file.edges[unit]:
        raise InputError(f"{start} {end} is here twice: write an adjacency once, in one direction")
    map_file.edges[unit].append((start, end))


def _check_stands(map_file: MapFile, unit: str, location: str) -> None:
    """Raise an error for an unknown place or one where such a unit cannot stand."""
    code = location.partition("/")[0]
    terrain = map_file.provinces[choose("province", code, map_file.provinces)].terrain
    if terrain == ("sea" if unit == "A" else "inland"):
        raise InputError(f"no {'army' if unit == 'A' else 'fleet'} stands on {location}: its terrain is {terrain}")
    if unit == "A" and location != code:
        raise InputError(f"no army stands on {location}: it stands on {code}")
    if unit == "F":
        choose(f"place of a fleet in {code}", location, map_file.coasts.get(code, (code,)))


SECTIONS: dict[str, Callable[[MapFile, str], None]] = {
    "[provinces]": _read_province,
    "[coasts]": _read_coasts,
    "[start]": _read_start,
    "[army]": partial(_read_edges, unit="A"),
    "[fleet]": partial(_read_edges, unit="F"),
}
"""Reads a line of a section, by the section's header."""
ORDER = tuple(SECTIONS)
"""The headers in file order: a line can refer only to lines above it."""
