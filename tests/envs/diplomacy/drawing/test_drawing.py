"""The drawn map against the board: borders, coasts and positions of pieces."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from sparring.envs.diplomacy.board.board import COAST, SEA, standard_board
from sparring.envs.diplomacy.drawing.outlines import (
    COAST_LINE,
    NO_PROVINCE,
    SEA_BORDER,
    standard_drawing,
)

BOARD, DRAWING = standard_board(), standard_drawing()
INDEX = {code: number for number, code in enumerate(BOARD.provinces)}
SEAS = {code for code, terrain in zip(BOARD.provinces, BOARD.terrain, strict=True) if terrain == SEA}


def pairs(matrix):
    """Return location pairs joined by an adjacency [n, n]."""
    found = zip(*np.nonzero(matrix), strict=True)
    codes = [tuple(sorted(BOARD.locations[place][:3] for place in pair)) for pair in found]
    return {pair for pair in codes if pair[0] != pair[1]}


def contains(outline, point):
    """Return whether a point is inside a closed outline [n, 2], by counting ray crossings."""
    (x0, y0), (x1, y1) = outline.T, np.roll(outline, -1, axis=0).T
    spans = (y0 > point[1]) != (y1 > point[1])
    rise = np.where(spans, y1 - y0, 1.0)
    return bool(np.count_nonzero(spans & (point[0] < x0 + (point[1] - y0) * (x1 - x0) / rise)) % 2)


def touching():
    return {tuple(sorted(border.between)) for border in DRAWING.borders if NO_PROVINCE not in border.between}


# ---- what touches


def test_drawn_provinces_touch_exactly_as_on_board():
    assert touching() == pairs(BOARD.army_next) | pairs(BOARD.fleet_next)


def test_land_borders_reach_sea_exactly_along_fleet_routes():
    shore = {tuple(end) for b in DRAWING.borders if b.kind == COAST_LINE for end in (b.line[0], b.line[-1])}
    found = set()
    for border in DRAWING.borders:
        both = sorted(border.between)
        if not SEAS & set(both) and NO_PROVINCE not in both and {tuple(border.line[0]), tuple(border.line[-1])} & shore:
            found.add(tuple(both))
    coastal = {code for code in INDEX if BOARD.terrain[INDEX[code]] == COAST}
    assert found == {pair for pair in pairs(BOARD.fleet_next) if set(pair) <= coastal}


def test_every_province_is_connected():
    assert sorted(DRAWING.outlines) == list(BOARD.provinces)
    assert len(DRAWING.nowhere) == 2  # Switzerland and the desert


def test_borders_have_right_kind():
    for border in DRAWING.borders:
        seas = len(SEAS & set(border.between))
        assert {0: "land", 1: "coast", 2: "sea"}[seas] == border.kind
    assert Counter(border.kind for border in DRAWING.borders)[SEA_BORDER] > 20


# ---- where things stand


@pytest.mark.parametrize("points", ["units", "centres"])
def test_units_and_centres_are_inside_their_provinces(points):
    owners = {"units": range(75), "centres": BOARD.centres}[points]
    for number, province in enumerate(owners):
        code = BOARD.provinces[province]
        place = getattr(DRAWING, points)[number]
        within = [c for c, outline in DRAWING.outlines.items() if contains(outline, place)]
        assert within == [code], f"{points} of {code}"


def test_coastal_fleets_are_close_to_their_coast():
    for location in range(75, 81):
        outline = DRAWING.outlines[BOARD.locations[location][:3]]
        assert np.hypot(*(outline - DRAWING.units[location]).T).min() < 26


def test_lines_do_not_cross():
    """Lines are smoothed as drawn; pieces that share an end may touch there."""
    pieces = np.array([pair for border in DRAWING.borders for pair in pairwise(border.line.tolist())])
    start, end = pieces[:, 0], pieces[:, 1]

    def side(a, b, c):
        return np.sign(
            (b[..., 0] - a[..., 0]) * (c[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (c[..., 0] - a[..., 0])
        )

    a, b, c, d = start[:, None], end[:, None], start[None], end[None]
    crossing = (side(a, b, c) * side(a, b, d) < 0) & (side(c, d, a) * side(c, d, b) < 0)
    assert [(pieces[i].tolist(), pieces[j].tolist()) for i, j in zip(*np.nonzero(crossing), strict=True)] == []
