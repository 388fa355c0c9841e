"""Drawing of the standard map in image coordinates: outlines of provinces, borders, and positions of units.

standard_drawing.json was made from a drawing in longitude and latitude, by `d65582ec:benchmarks/diplomacy_map`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from sparring.envs.diplomacy.board.board import SEA, standard_board

STANDARD_DRAWING = Path(__file__).with_name("standard_drawing.json")

WIDTH, HEIGHT = 1200, 1000
"""Size of the frame; the map beyond it is not shown."""
NO_PROVINCE = "-"
"""Code of land that belongs to no province of the game."""
COAST_LINE, LAND_BORDER, SEA_BORDER = "coast", "land", "sea"


@dataclass(frozen=True)
class Border:
    """A line [n, 2] between two provinces, or between a province and `NO_PROVINCE`."""

    line: np.ndarray
    between: tuple[str, str]
    kind: str
    """`COAST_LINE`, `LAND_BORDER` or `SEA_BORDER`."""


@dataclass(frozen=True)
class Drawing:
    """Map in the frame; points are [.., 2], x to the right and y downward."""

    outlines: dict[str, np.ndarray]
    """Outlines of all 75 provinces by code."""
    nowhere: list[np.ndarray]
    """Land that belongs to no province."""
    borders: list[Border]
    islands: list[tuple[str, np.ndarray]]
    """(code or `NO_PROVINCE`, outline)."""
    water: list[np.ndarray]
    units: np.ndarray
    """[81, 2] by location."""
    labels: np.ndarray
    """[75, 2] by province."""
    centres: np.ndarray
    """[34, 2] in the order of `board.centres`."""


@cache
def standard_drawing() -> Drawing:
    """Return the drawing of the standard map; the file is read once."""
    rows = json.loads(STANDARD_DRAWING.read_text(encoding="utf-8"))
    return Drawing(
        outlines={code: np.array(outline) for code, outline in rows["outlines"].items()},
        nowhere=[np.array(outline) for outline in rows["nowhere"]],
        borders=[Border(np.array(row["line"]), tuple(row["between"]), row["kind"]) for row in rows["borders"]],
        islands=[(code, np.array(outline)) for code, outline in rows["islands"]],
        water=[np.array(outline) for outline in rows["water"]],
        **{name: np.array(rows[name]) for name in ("units", "labels", "centres")},
    )


def is_sea(code: str) -> bool:
    """Return whether the province with this code is a sea, False for `NO_PROVINCE`."""
    board = standard_board()
    return code != NO_PROVINCE and int(board.terrain[board.provinces.index(code)]) == SEA
