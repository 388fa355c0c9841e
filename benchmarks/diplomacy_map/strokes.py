"""A drawing of a map as a text file: read line by line into strokes, and refused with file and line where it is wrong.

The layout is described at the head of `map_drawing.txt`. Nothing is projected or joined here; `generate.py` does that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sparring.configs.core.errors import InputError, choose

Point = tuple[float, float]
"""Longitude and latitude, in degrees."""


@dataclass(frozen=True)
class Place:
    """Points of a unit, of the written code and of the centre mark; a coast has the first only."""

    unit: Point
    label: Point | None = None
    centre: Point | None = None


@dataclass
class Strokes:
    """The rows of a drawing; outlines and lines are [n, 2], longitude and latitude."""

    lines: list[np.ndarray] = field(default_factory=list)
    islands: list[tuple[str, np.ndarray]] = field(default_factory=list)
    """(code of the province they belong to or `-`, outline)."""
    water: list[np.ndarray] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)
    """By code, with the coast where it is one: SPA, SPA/NC."""


def read_strokes(path: Path) -> Strokes:
    """Read the drawing at `path`; raises `InputError` naming file and line for what cannot be read."""
    found, section = Strokes(), ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        try:
            if text.startswith("["):
                section = choose("section", text, SECTIONS)
            elif text:
                _read_row(found, section, text)
        except InputError as error:
            raise InputError(f"{path}, line {number}: {error}") from None
    return found


def _read_row(found: Strokes, section: str, text: str) -> None:
    if not section:
        raise InputError(f"this comes before the first section: begin with one of {' '.join(SECTIONS)}")
    SECTIONS[section](found, text)


def _read_line(found: Strokes, text: str) -> None:
    found.lines.append(_outline(text, least=2)[1])


def _read_island(found: Strokes, text: str) -> None:
    found.islands.append(_outline(text, least=3))


def _read_water(found: Strokes, text: str) -> None:
    found.water.append(_outline(text, least=3)[1])


def _read_place(found: Strokes, text: str) -> None:
    code, *words = text.split()
    if code in found.places:
        raise InputError(f"{code} is here twice")
    if not 1 <= len(words) <= 3:
        raise InputError(
            f"{text!r}: write a code and where its unit, its name and its centre are, as in PAR 1.9,47.7 ..."
        )
    found.places[code] = Place(*[_point(word) for word in words])


def _outline(text: str, *, least: int) -> tuple[str, np.ndarray]:
    """The word before the colon, and the points after it."""
    word, _, points = text.partition(":")
    found = [_point(pair) for pair in points.split()]
    if len(found) < least:
        raise InputError(f"{text!r}: write a word, a colon and at least {least} points, as in word: 2.3,48.9 4.4,50.8")
    return word.strip(), np.array(found)


def _point(text: str) -> Point:
    try:
        longitude, latitude = (float(number) for number in text.split(","))
    except ValueError:
        raise InputError(f"{text!r} is no point: write longitude and latitude in degrees, as in 2.35,48.85") from None
    return longitude, latitude


SECTIONS: dict[str, Callable[[Strokes, str], None]] = {
    "[lines]": _read_line,
    "[islands]": _read_island,
    "[water]": _read_water,
    "[places]": _read_place,
}
"""Reads a row of a section, by the section's header."""
