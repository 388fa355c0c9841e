"""Write the outlines of the standard Diplomacy map: `python -m benchmarks.diplomacy_map.generate`.

Reads map_drawing.txt and writes envs/diplomacy/drawing/standard_drawing.json. Longitude and latitude become x to the
right and y downward by an azimuthal projection: directions from the middle, in the Alps, are true, and an angle of c
from there (in rad) is drawn at the distance

    r = atan(b c) / b

which gives the crowded middle more room than the rims. The far north is flattened as well.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.diplomacy_map.polygons import PolygonMesh, contains, cut_up, soften
from benchmarks.diplomacy_map.strokes import Strokes, read_strokes
from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board.board import standard_board
from sparring.envs.diplomacy.drawing.outlines import (
    COAST_LINE,
    LAND_BORDER,
    NO_PROVINCE,
    SEA_BORDER,
    STANDARD_DRAWING,
    is_sea,
)

STROKES = Path(__file__).with_name("map_drawing.txt")

_CROWDED = 1.8
"""b: the larger, the more room for the middle."""
_MIDDLE = (13.0, 47.0)
_SCALE = 1790.0
_ORIGIN = (548.0, 592.0)
_NORTH, _FLATTER = 0.20, 0.62
"""From here on, in units of the projection, the north is flatter by this factor."""


def drawing_rows(strokes: Strokes) -> dict[str, Any]:
    """Project and join the strokes of a drawing of the standard board, as plain data in the layout of `Drawing`."""
    mesh = cut_up([project(line) for line in strokes.lines])
    mesh = PolygonMesh([soften(chain, 1) for chain in mesh.chains], mesh.polygons)
    codes = _name_polygons(mesh, strokes)
    outlines = [(code, mesh.outline(number).tolist()) for number, code in codes.items()]
    return {
        "outlines": {code: outline for code, outline in outlines if code != NO_PROVINCE},
        "nowhere": [outline for code, outline in outlines if code == NO_PROVINCE],
        "borders": _borders(mesh, codes),
        "islands": [[code, _island(outline)] for code, outline in strokes.islands],
        "water": [_island(outline) for outline in strokes.water],
        **_positions(strokes),
    }


def project(places: np.ndarray) -> np.ndarray:
    """Return where points [n, 2] of longitude and latitude lie in the frame, [n, 2]."""
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


def _name_polygons(mesh: PolygonMesh, strokes: Strokes) -> dict[int, str]:
    """The code of every polygon but the outer one; raises `InputError` where places and polygons do not match."""
    board = standard_board()
    units = {code: project(np.array([strokes.places[code].unit]))[0] for code in board.provinces}
    found = {}
    for number in range(1, len(mesh.polygons)):
        outline = mesh.outline(number)
        inside = [code for code, point in units.items() if contains(outline, point)]
        if len(inside) > 1:
            raise InputError(f"{' and '.join(inside)} lie in one province of the drawing: draw the border between them")
        found[number] = inside[0] if inside else NO_PROVINCE
    if missing := sorted(set(units) - set(found.values())):
        raise InputError(f"no province of the drawing has the place of {', '.join(missing)} in it")
    return found


def _borders(mesh: PolygonMesh, codes: dict[int, str]) -> list[dict[str, Any]]:
    """All chains but those along the edge of the world."""
    found = []
    for chain, (left, right) in zip(mesh.chains, mesh.sides(), strict=True):
        if left in codes and right in codes:
            between = (codes[left], codes[right])
            kind = (LAND_BORDER, COAST_LINE, SEA_BORDER)[sum(map(is_sea, between))]
            found.append({"between": between, "kind": kind, "line": chain.tolist()})
    return found


def _positions(strokes: Strokes) -> dict[str, list[list[float]]]:
    """`units`, `labels` and `centres`."""
    board, places = standard_board(), strokes.places
    rows = {
        "units": [places[code].unit for code in board.locations],
        "labels": [places[code].label for code in board.provinces],
        "centres": [places[board.provinces[province]].centre for province in board.centres],
    }
    return {name: project(np.array(points, dtype=float)).tolist() for name, points in rows.items()}


def _island(outline: np.ndarray) -> list[list[float]]:
    """A closed outline, projected, with its corners cut."""
    points = project(outline)
    return soften(np.concatenate([points, points[:1]]), 1).tolist()


if __name__ == "__main__":
    text = json.dumps(drawing_rows(read_strokes(STROKES)))
    STANDARD_DRAWING.write_text(text.replace("]], ", "]],\n") + "\n", encoding="utf-8")
    print(f"{STANDARD_DRAWING.name} is written")
