"""The standard board as index arrays, read once from `standard_map.txt`; needs numpy only, neither Warp nor torch.

A province has an index in 0..74, in alphabetical order of the codes. A location is where a unit can stand: 0..74 are
the provinces themselves, then come the parts of the split coasts, BUL/EC BUL/SC SPA/NC SPA/SC STP/NC STP/SC at 75..80.
An army stands on the province, a fleet in a split province on one of its coasts, so no fleet adjacency lists a bare
BUL, SPA or STP. Arrays are read-only, since all callers share one board.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from sparring.configs.core.errors import InputError, UnknownNameError, nearest
from sparring.envs.diplomacy.board.map_file import NO_CENTRE, POWERS, TERRAINS, UNITS, MapFile, read_map

STANDARD_MAP = Path(__file__).with_name("standard_map.txt")

ARMY, FLEET = 0, 1
INLAND, COAST, SEA = 0, 1, 2
NOTHING = -1
"""Marks a missing power, centre or neighbour."""

ALIASES = {
    "BOT": ("GOB",),
    "EAS": ("EME", "Eastern Med"),
    "ENG": ("ECH", "Channel"),
    "HEL": ("HGB", "Heligoland Bight"),
    "LVP": ("LPL",),
    "LYO": ("GOL", "Gulf of Lyons", "Gulf of Lions"),
    "MAO": ("MID", "Mid-Atlantic", "Middle Atlantic Ocean"),
    "NAO": ("NAT", "North Atlantic"),
    "NWG": ("NRG",),
    "NWY": ("NOR",),
    "RUM": ("Romania",),
    "TYR": ("TYL", "Tyrol"),
    "TYS": ("TYN", "Tyrrhenian", "Tyrhennian Sea"),
    "WES": ("WME", "Western Med"),
}
"""Other common spellings, in addition to the map's codes and full names."""
COAST_NAMES = {"NC": "north coast", "EC": "east coast", "SC": "south coast", "WC": "west coast"}


@dataclass(frozen=True, eq=False)
class Board:
    """A map by index: P = 75 provinces, L = 81 locations, C = 34 supply centres."""

    provinces: tuple[str, ...]
    """[P] codes, in the order of the alphabet."""
    names: tuple[str, ...]
    """[P] full names."""
    locations: tuple[str, ...]
    """[L] codes: the provinces, then the coasts of the split ones."""
    coasts_of: tuple[tuple[int, ...], ...]
    """[P] the locations of a split province's coasts; empty where there is one coast or none."""
    start: tuple[tuple[int, int, int], ...]
    """The 22 units at the beginning: (power, `ARMY` or `FLEET`, location), power by power."""
    province_of: np.ndarray
    """int32 [L]."""
    terrain: np.ndarray
    """int32 [P]: `INLAND`, `COAST` or `SEA`."""
    centres: np.ndarray
    """int32 [C]: their provinces, ascending."""
    centre_of: np.ndarray
    """int32 [P]: index into `centres`, or `NOTHING`."""
    home: np.ndarray
    """int32 [P]: the power whose home centre it is, an index into `POWERS`, or `NOTHING`."""
    army_next: np.ndarray
    """bool [P, P], symmetric."""
    fleet_next: np.ndarray
    """bool [L, L], symmetric."""
    army_neighbours: np.ndarray
    """int32 [P, most neighbours of any]: `army_next` as lists, ascending, filled up with `NOTHING`."""
    fleet_neighbours: np.ndarray
    """int32 [L, most neighbours of any]: `fleet_next` as lists, ascending, filled up with `NOTHING`."""


@cache
def standard_board() -> Board:
    """Return the standard board; the file is read once."""
    return board_of(read_map(STANDARD_MAP))


def find_location(text: str) -> int:
    """Return the location named by `text`: a code, a full name or an alias, with or without a coast, in any case.

    "STP/NC", "stp(nc)", "Spa/sc", "St. Petersburg, north coast". Raises `UnknownNameError` with the nearest match.
    """
    spellings = _spellings()
    if (location := spellings.get(text)) is not None or (location := spellings.get(_key(text))) is not None:
        return location
    if (head := spellings.get(_key(re.split(r"[/(]", text)[0]))) is not None:
        raise _unknown_coast(text, int(standard_board().province_of[head]))
    hint = f"; did you mean {like!r}?" if (like := _nearest_location(_key(text))) else ""
    raise UnknownNameError(f"unknown province {text!r}: write a code or a name, as in PAR, STP/NC, North Sea{hint}")


def _nearest_location(key: str) -> str | None:
    """Return the most similar location; short words are compared with codes, longer ones with names."""
    spellings = _spellings()
    alike = [spelling for spelling in spellings if (len(spelling) <= 3) == (len(key) <= 3)]
    spelling = nearest(key, alike, likeness=0.65)
    return location_name(spellings[spelling]) if spelling else None


def _unknown_coast(text: str, province: int) -> UnknownNameError:
    coasts = standard_board().coasts_of[province]
    choices = ", ".join(location_name(coast) for coast in coasts) or f"{location_name(province)} alone"
    return UnknownNameError(f"unknown coast {text!r}: choose from {choices}")


def location_name(location: int) -> str:
    """Return the code of a location, such as "PAR" or "STP/NC"; the inverse of `find_location`."""
    locations = standard_board().locations
    if not 0 <= location < len(locations):
        raise InputError(f"location {location}: must be in [0, {len(locations) - 1}]")
    return locations[location]


def centre_names(owner: Sequence[int] | np.ndarray, power: int) -> list[str]:
    """Return the codes of a power's centres, from the owners [34]."""
    centres = standard_board().centres
    return [location_name(int(centres[centre])) for centre, holder in enumerate(owner) if holder == power]


def board_of(rows: MapFile) -> Board:
    """Number the rows of a map file."""
    provinces = tuple(sorted(rows.provinces))
    locations = provinces + tuple(coast for code in sorted(rows.coasts) for coast in rows.coasts[code])
    index = {location: number for number, location in enumerate(locations)}
    lines = [rows.provinces[code] for code in provinces]
    army_next = _matrix(rows.edges["A"], index, len(provinces))
    fleet_next = _matrix(rows.edges["F"], index, len(locations))
    return Board(
        provinces=provinces,
        names=tuple(line.name for line in lines),
        locations=locations,
        coasts_of=tuple(tuple(index[coast] for coast in rows.coasts.get(code, ())) for code in provinces),
        start=_start(rows, index),
        province_of=_ints(index[location[:3]] for location in locations),
        terrain=_ints(TERRAINS.index(line.terrain) for line in lines),
        **_centres([line.centre for line in lines]),
        army_next=army_next,
        fleet_next=fleet_next,
        army_neighbours=_frozen(padded(army_next)),
        fleet_neighbours=_frozen(padded(fleet_next)),
    )


def _centres(words: list[str]) -> dict[str, np.ndarray]:
    """`centres`, `centre_of` and `home` from the supply centre column, [P]."""
    centres = np.flatnonzero([word != NO_CENTRE for word in words]).astype(np.int32)
    centre_of = np.full(len(words), NOTHING, dtype=np.int32)
    centre_of[centres] = np.arange(len(centres))
    home = _ints(POWERS.index(word) if word in POWERS else NOTHING for word in words)
    return {"centres": _frozen(centres), "centre_of": _frozen(centre_of), "home": home}


def _start(rows: MapFile, index: dict[str, int]) -> tuple[tuple[int, int, int], ...]:
    units = [(POWERS.index(power), UNITS.index(unit), index[location]) for power, unit, location in rows.start]
    return tuple(sorted(units, key=lambda unit: unit[0]))


def _ints(values: Iterable[int]) -> np.ndarray:
    return _frozen(np.array(list(values), dtype=np.int32))


def _matrix(edges: list[tuple[str, str]], index: dict[str, int], size: int) -> np.ndarray:
    """Adjacency, bool [size, size], of edges written once."""
    matrix = np.zeros((size, size), dtype=bool)
    for start, end in edges:
        matrix[index[start], index[end]] = matrix[index[end], index[start]] = True
    return _frozen(matrix)


def padded(matrix: np.ndarray, width: int = 0) -> np.ndarray:
    """Columns where each row of `matrix` [n, m] is true, int32 [n, width], filled up with `NOTHING`.

    `width` defaults to the longest row.
    """
    lists = np.full((len(matrix), width or int(matrix.sum(axis=1).max())), NOTHING, dtype=np.int32)
    for row, true in zip(lists, matrix, strict=True):
        row[: true.sum()] = np.flatnonzero(true)
    return lists


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


@cache
def _spellings() -> dict[str, int]:
    """Every spelling of every location, as `_key` leaves it: province or alias, followed by a coast or by nothing."""
    board, spellings = standard_board(), {}
    for province, (code, name) in enumerate(zip(board.provinces, board.names, strict=True)):
        for word in (code, name, *ALIASES.get(code, ())):
            spellings[_key(word)] = province
            spellings.update({_key(word + ending): coast for ending, coast in _endings(board, province)})
    return spellings


def _endings(board: Board, province: int) -> list[tuple[str, int]]:
    """Return the suffixes that name a coast of a split province, such as NC, NCS and north coast, with its location."""
    parts = [(board.locations[coast][4:], coast) for coast in board.coasts_of[province]]
    return [(ending, coast) for part, coast in parts for ending in (part, f"{part}S", COAST_NAMES[part])]


def _key(text: str) -> str:
    """Return the letters and digits in upper case: "St. Petersburg (nc)" is STPETERSBURGNC."""
    return "".join(char for char in text.upper() if char.isalnum())
