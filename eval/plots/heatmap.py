"""Heatmap of a payoff matrix: share of points of each row against each column, and each player's rating.

Colours diverge from 50 %: blue if the row wins, red if the column does. Every cell shows its number. To the right each
row has its rating as a dot with its interval. Needs matplotlib; see `check_matplotlib`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from sparring.eval.plots import DIM, GRID, INK, picture

LOSES, EVEN, WINS = "#B2182B", "#F7F7F7", "#2166AC"
"""Ends and middle of ColorBrewer's RdBu, which is safe for red-green colour blindness."""
COLORS = LinearSegmentedColormap.from_list("shares", [LOSES, EVEN, WINS]).with_extremes(bad=GRID)

CELL, RATINGS, GAP, BAR = 0.56, 3.0, 0.4, 0.16
"""Inches: a cell's side, the width of the ratings, the space between parts, the height of the colour bar."""
_DARK = 0.3
"""Numbers are white in cells farther than this from 50 %."""
_STYLE = {"savefig.bbox": "tight", "savefig.pad_inches": 0.28, "text.color": INK, "text.parse_math": False}


@dataclass(frozen=True)
class MatrixChart:
    """A payoff matrix: `shares` [K, K] in [0, 1], the row's points against the column, NaN for a pair without games.

    `labels`, `elo` and `intervals` describe the K players in the order of the rows. The first `policies` labels are
    ages; the others are bots, separated by a line.
    """

    title: str
    subtitle: str
    labels: Sequence[str]
    shares: np.ndarray
    elo: Sequence[float]
    intervals: Sequence[tuple[float, float]]
    policies: int


def draw_heatmap(chart: MatrixChart) -> bytes:
    """Return the picture as PNG data; the same chart gives the same bytes, independent of matplotlib's settings."""
    with style.context(["default", _STYLE]):
        return picture(heatmap_figure(chart), "png")


def heatmap_figure(chart: MatrixChart) -> Figure:
    """Return the matrix with its colour bar below and the ratings to the right, rows aligned."""
    side = len(chart.labels) * CELL
    figure = Figure(figsize=(side, side))
    matrix = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    _draw_matrix(figure, matrix, chart, bar=matrix.inset_axes((0.0, -(GAP + BAR) / side, 1.0, BAR / side)))
    _draw_ratings(matrix.inset_axes((1.0 + GAP / side, 0.0, RATINGS / side, 1.0), sharey=matrix), chart)
    return figure


def _draw_matrix(figure: Figure, axes: Axes, chart: MatrixChart, *, bar: Axes) -> None:
    places = range(len(chart.labels))
    image = axes.imshow(100.0 * chart.shares, cmap=COLORS, vmin=0.0, vmax=100.0)
    axes.set_title(f"{chart.title}\n{chart.subtitle}", loc="left", fontsize=11, pad=12)
    axes.set_xticks(places, chart.labels, rotation=90)
    axes.set_yticks(places, chart.labels)
    axes.tick_params(length=0, labeltop=True, labelbottom=False)
    for (i, j), share in np.ndenumerate(chart.shares):
        if not np.isnan(share):
            color = "white" if abs(share - 0.5) > _DARK else INK
            axes.text(j, i, f"{100 * share:.0f}", ha="center", va="center", color=color)
    if 0 < chart.policies < len(chart.labels):
        axes.axhline(chart.policies - 0.5, color=INK)
        axes.axvline(chart.policies - 0.5, color=INK)
    figure.colorbar(image, cax=bar, orientation="horizontal", ticks=range(0, 101, 25))
    bar.set_xlabel("points of the row against the column, %, a draw being half", loc="left", fontsize=9, color=DIM)


def _draw_ratings(axes: Axes, chart: MatrixChart) -> None:
    places, elo = range(len(chart.labels)), np.array(chart.elo)
    low, high = np.array(chart.intervals).T
    axes.errorbar(elo, places, xerr=[elo - low, high - elo], fmt="o", color=WINS)
    for position, rating, fixed in zip(places, elo, low >= high, strict=True):
        words = f"{rating:g}, fixed" if fixed else f"{rating:+.0f}"
        axes.annotate(words, (rating, position), xytext=(0, 6), textcoords="offset points", ha="center", fontsize=9)
    axes.tick_params(left=False, labelleft=False)
    axes.margins(x=0.12)
    axes.grid(axis="x", color=GRID)
    axes.set_axisbelow(True)
    axes.set_title("Elo (Bradley-Terry), 95 %", fontsize=10)
