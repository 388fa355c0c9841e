"""The drawing of the standard map in a picture's coordinates: outlines of provinces, borders, and where things stand.

Longitude and latitude become x to the right and y downward by an azimuthal projection: directions from the middle, in
the Alps, are true, and an angle of c from there (in rad) is drawn at the distance

    r = atan(b c) / b

which gives the crowded middle more room than the rims. The far north is flattened besides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board.board import SEA, standard_board
from sparring.envs.diplomacy.drawing.drawing_file import NOBODY, Strokes, read_strokes
from sparring.envs.diplomacy.drawing.polygons import Faces, contains, cut_up, soften

STANDARD_DRAWING = Path(__file__).with_name("map_drawing.txt")

WIDTH, HEIGHT = 1200, 1000
"""The frame; what lies beyond it is not shown."""
_CROWDED = 1.8
"""b: the larger, the more room for the middle."""
_MIDDLE = (13.0, 47.0)
_SCALE = 1790.0
_ORIGIN = (548.0, 592.0)
_NORTH, _FLATTER = 0.20, 0.62
"""From here on, in units of the projection, the north is flatter by this factor."""

COAST_LINE, LAND_BORDER, SEA_BORDER = "coast", "land", "sea"


@dataclass(frozen=True)
class Border:
    """A line [n, 2] between two provinces, `NOBODY` being land where nobody goes."""

    line: np.ndarray
    between: tuple[str, str]
    kind: str
    """`COAST_LINE`, `LAND_BORDER` or `SEA_BORDER`."""


@dataclass(frozen=True)
class Drawing:
    """The map in the frame; points are [.., 2], x to the right and y downward."""

    outlines: dict[str, np.ndarray]
    """By code, all 75."""
    nowhere: list[np.ndarray]
    """Land where nobody goes."""
    borders: list[Border]
    islands: list[tuple[str, np.ndarray]]
    """(code or `NOBODY`, outline)."""
    water: list[np.ndarray]
    units: np.ndarray
    """[81, 2] by location."""
    labels: np.ndarray
    """[75, 2] by province."""
    centres: np.ndarray
    """[34, 2] in the order of `board.centres`."""


@cache
def standard_drawing() -> Drawing:
    """The drawing of the standard map; the file is read once."""
    return drawing_of(read_strokes(STANDARD_DRAWING))


def drawing_of(strokes: Strokes) -> Drawing:
    """Project and join the strokes of a drawing of the standard board."""
    faces = cut_up([project(line) for line in strokes.lines])
    faces = Faces([soften(chain, 1) for chain in faces.chains], faces.faces)
    codes = _name_faces(faces, strokes)
    return Drawing(
        outlines={code: faces.outline(face) for face, code in codes.items() if code != NOBODY},
        nowhere=[faces.outline(face) for face, code in codes.items() if code == NOBODY],
        borders=_borders(faces, codes),
        islands=[(code, _island(outline)) for code, outline in strokes.islands],
        water=[_island(outline) for outline in strokes.water],
        **_positions(strokes),
    )


def project(places: np.ndarray) -> np.ndarray:
    """Where points [n, 2] of longitude and latitude lie in the frame, [n, 2]."""
    east, north = np.radians(places[:, 0] - _MIDDLE[0]), np.radians(places[:, 1])
    middle = np.radians(_MIDDLE[1])
    x = np.cos(north) * np.sin(east)
    y = np.cos(middle) * np.sin(north) - np.sin(middle) * np.cos(north) * np.cos(east)
    height = np.sin(middle) * np.sin(north) + np.cos(middle) * np.cos(north) * np.cos(east)
    sine = np.maximum(np.hypot(x, y), 1e-9)
    k = np.arctan(_CROWDED * np.arctan2(sine, height)) / _CROWDED / sine
    x, y = k * x, k * y
    y = np.where(y > _NORTH, _NORTH + _FLATTER * (y - _NORTH), y)
    return np.stack([_ORIGIN[0] + _SCALE * x, _ORIGIN[1] - _SCALE * y], axis=1)


def _name_faces(faces: Faces, strokes: Strokes) -> dict[int, str]:
    """The code of every face but the outer one; raises `InputError` where places and faces do not match."""
    board = standard_board()
    units = {code: _at(strokes.places[code].unit) for code in board.provinces}
    found = {}
    for face in range(1, len(faces.faces)):
        outline = faces.outline(face)
        inside = [code for code, point in units.items() if contains(outline, point)]
        if len(inside) > 1:
            raise InputError(f"{' and '.join(inside)} lie in one province of the drawing: draw the border between them")
        found[face] = inside[0] if inside else NOBODY
    if missing := sorted(set(units) - set(found.values())):
        raise InputError(f"no province of the drawing has the place of {', '.join(missing)} in it")
    return found


def _borders(faces: Faces, codes: dict[int, str]) -> list[Border]:
    """All chains but those along the edge of the world."""
    found = []
    for chain, (left, right) in zip(faces.chains, faces.sides(), strict=True):
        if left in codes and right in codes:
            between = (codes[left], codes[right])
            found.append(Border(chain, between, _kind(between)))
    return found


def _kind(between: tuple[str, str]) -> str:
    seas = sum(is_sea(code) for code in between)
    return (LAND_BORDER, COAST_LINE, SEA_BORDER)[seas]


def is_sea(code: str) -> bool:
    """Whether a province of that code, or `NOBODY`, is a sea."""
    board = standard_board()
    return code != NOBODY and int(board.terrain[board.provinces.index(code)]) == SEA


def _positions(strokes: Strokes) -> dict[str, np.ndarray]:
    """`units`, `labels` and `centres`."""
    board, places = standard_board(), strokes.places
    rows = {
        "units": [places[code].unit for code in board.locations],
        "labels": [places[code].label for code in board.provinces],
        "centres": [places[board.provinces[province]].centre for province in board.centres],
    }
    return {name: project(np.array(points, dtype=float)) for name, points in rows.items()}


def _island(outline: np.ndarray) -> np.ndarray:
    """A closed outline, projected, with its corners cut."""
    points = project(outline)
    closed = np.concatenate([points, points[:1]])
    return soften(closed, 1)


def _at(place: tuple[float, float]) -> tuple[float, float]:
    x, y = project(np.array([place]))[0]
    return float(x), float(y)
