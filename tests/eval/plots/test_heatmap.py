"""The picture of a payoff matrix: colours, scale, and what lies where."""

import numpy as np
import pytest

from sparring.eval.plots import heatmap
from sparring.eval.plots.heatmap import CELL, EVEN, GRID, LOSES, WINS, MatrixChart, color, draw_heatmap, ticks


def chart(shares, policies=1):
    names = [f"p{i}" for i in range(len(shares))]
    elo = [100.0 * i for i in range(len(shares))]
    intervals = [(value, value) if not value else (value - 50.0, value + 50.0) for value in elo]
    return MatrixChart("title", "subtitle", names, np.array(shares), elo, intervals, policies)


def test_colours_diverge_from_one_half():
    assert (color(0.0), color(0.5), color(1.0)) == (LOSES, EVEN, WINS)
    for a, b in ((0.25, LOSES), (0.75, WINS)):
        assert color(a) == pytest.approx([(x + y) / 2 for x, y in zip(EVEN, b, strict=True)], abs=0.5)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-730.0, 1480.0, [-500, 0, 500, 1000]),
        (-9.0, 41.0, [0, 10, 20, 30, 40]),
        (-9.0, 9.0, [-5, 0, 5]),
    ],
)
def test_ticks_are_round_and_inside(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


def test_every_cell_has_the_colour_of_its_share_and_the_diagonal_none():
    image = draw_heatmap(chart([[np.nan, 0.9], [0.1, np.nan]]))
    canvas = heatmap._HeatmapCanvas(chart([[np.nan, 0.9], [0.1, np.nan]]))
    corner = 8  # Beside the number.
    for i, j, expected in ((0, 0, GRID), (0, 1, color(0.9)), (1, 0, color(0.1)), (1, 1, GRID)):
        at = (canvas.left + j * CELL + corner, canvas.top + i * CELL + corner)
        assert image.getpixel(at) == pytest.approx(expected, abs=2)


def test_more_players_need_a_larger_picture():
    small, large = (draw_heatmap(chart(np.full((k, k), 0.5).tolist())) for k in (2, 5))
    assert large.height - small.height == 3 * CELL
    assert large.mode == "RGB"
