"""The generator of the outlines of the Diplomacy map: the data kept is what it makes, and mistakes are refused."""

import json

import numpy as np
import pytest

from benchmarks.diplomacy_map.generate import STROKES, drawing_rows, project
from benchmarks.diplomacy_map.polygons import area, cut_up, soften
from benchmarks.diplomacy_map.strokes import read_strokes
from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.drawing.outlines import STANDARD_DRAWING


def leaves(value):
    """Strings, numbers and arrays of points of nested data, in order."""
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in (key, *leaves(item))]
    if isinstance(value, list | tuple) and not (value and isinstance(value[0], float)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def test_the_outlines_that_are_kept_are_those_it_makes():
    made, kept = leaves(drawing_rows(read_strokes(STROKES))), leaves(json.loads(STANDARD_DRAWING.read_text()))
    assert len(made) == len(kept) > 4000
    for one, other in zip(made, kept, strict=True):
        assert one == (other if isinstance(other, str) else pytest.approx(other, abs=1e-6))


def test_the_projection_keeps_east_and_north():
    x, y = project(np.array([[13.0, 47.0], [14.0, 47.0], [13.0, 48.0], [13.0, 62.0], [13.0, 63.0]])).T
    assert (x[0], y[0]) == (548, 592)
    assert x[1] > x[0]
    assert y[0] - y[2] > 1.3 * (y[3] - y[4]) > 0


def square(x, size=1.0):
    return np.array([[x, 0.0], [x + size, 0.0], [x + size, size], [x, size], [x, 0.0]])


def test_two_squares_with_a_common_side_are_two_polygons():
    mesh = cut_up([square(0.0), square(1.0)[[0, 1, 2, 3]]])
    assert len(mesh.polygons) == 3
    assert abs(area(mesh.outline(0))) == 2
    assert [abs(area(mesh.outline(number))) for number in (1, 2)] == [1, 1]
    assert sorted(sorted(sides) for sides in mesh.sides()) == [[0, 1], [0, 2], [1, 2]]


def test_cut_corners_keep_the_ends():
    chain = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    assert soften(chain, 1).tolist() == [[0, 0], [0.75, 0], [1, 0.25], [1, 1]]
    assert soften(chain[:2]).tolist() == chain[:2].tolist()


# ---- what is wrong in a file


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[lnes]", "did you mean '\\[lines\\]'"),
        ("x: 1,2 3,4", "before the first section"),
        ("[lines]\nx: 1,2 3", "line 2: '3' is no point"),
        ("[lines]\nx: 1,2", "at least 2 points"),
        ("[places]\nPAR 1,2\nPAR 1,2", "line 3: PAR is here twice"),
        ("[places]\nPAR", "write a code and where"),
    ],
)
def test_a_slip_is_answered_with_its_line(tmp_path, text, complaint):
    file = tmp_path / "drawing.txt"
    file.write_text(text + "\n")
    with pytest.raises(InputError, match=complaint):
        read_strokes(file)


def test_a_missing_border_is_noticed():
    strokes = read_strokes(STROKES)
    strokes.lines = [line for line in strokes.lines if not ends_in(line, (-2.0, 50.6), (-1.9, 52.3))]
    with pytest.raises(InputError, match="LON and WAL lie in one province"):
        drawing_rows(strokes)


def ends_in(line, *points):
    return all(any(np.allclose(end, point) for end in (line[0], line[-1])) for point in points)
