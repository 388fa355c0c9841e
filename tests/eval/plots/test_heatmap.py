"""The payoff matrix picture: colours, numbers, ratings, and reproducible bytes."""

import io

import matplotlib as mpl
import numpy as np
import pytest
from PIL import Image

from sparring.eval.plots.heatmap import EVEN, GRID, LOSES, WINS, MatrixChart, draw_heatmap, heatmap_figure


def chart(shares, policies=1):
    names = [f"p{i}" for i in range(len(shares))]
    elo = [100.0 * i for i in range(len(shares))]
    intervals = [(value, value) if not value else (value - 50.0, value + 50.0) for value in elo]
    return MatrixChart("title", "subtitle", names, np.array(shares), elo, intervals, policies)


def parts(*arguments):
    matrix = heatmap_figure(chart(*arguments)).axes[0]
    bar, ratings = matrix.child_axes
    return matrix, bar, ratings


def words(axes):
    return [text.get_text() for text in axes.texts]


def test_every_cell_has_colour_and_number_except_diagonal():
    matrix, _, _ = parts([[np.nan, 1.0, 0.5], [0.0, np.nan, 0.9], [0.5, 0.1, np.nan]])
    (image,) = matrix.images
    found = image.to_rgba(image.get_array(), bytes=True)[..., :3]
    hexes = [["#" + bytes(cell).hex().upper() for cell in row] for row in found]
    assert [hexes[i][i] for i in range(3)] == [GRID] * 3
    assert (hexes[0][1], hexes[1][0]) == (WINS, LOSES)
    assert found[0][2] == pytest.approx([int(EVEN[i : i + 2], 16) for i in (1, 3, 5)], abs=2)
    assert words(matrix) == ["100", "50", "0", "90", "50", "10"]


@pytest.mark.parametrize(("policies", "lines"), [(1, 2), (0, 0), (2, 0)])
def test_line_separates_policies_from_bots(policies, lines):
    assert len(parts([[np.nan, 0.9], [0.1, np.nan]], policies)[0].lines) == lines


def test_ratings_are_beside_their_rows():
    matrix, _, ratings = parts([[np.nan, 0.9], [0.1, np.nan]])
    assert words(ratings) == ["0, fixed", "+100"]
    assert ratings.get_ylim() == matrix.get_ylim() == (1.5, -0.5)
    assert [tuple(point) for point in ratings.lines[0].get_xydata()] == [(0.0, 0.0), (100.0, 1.0)]


def test_more_players_enlarge_picture_and_settings_are_restored():
    charts = [chart(np.full((k, k), 0.5).tolist()) for k in (2, 5)]
    small, large = (Image.open(io.BytesIO(draw_heatmap(one))) for one in charts)
    assert large.height - small.height == pytest.approx(3 * 56, abs=2)
    with mpl.rc_context({"font.size": 20, "savefig.dpi": 30}):
        assert draw_heatmap(charts[0]) == draw_heatmap(chart([[0.5, 0.5], [0.5, 0.5]]))
        again = draw_heatmap(charts[0])
    assert again == draw_heatmap(charts[0])
