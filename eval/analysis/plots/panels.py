"""Figure of learning curves: a panel per metric over shared env steps or updates, a colour per group of runs.

Each run is a thin line, the mean of its group a thick line of the same colour. If there are more groups than colours,
further groups are dashed or dotted. A line has a gap where its metric was not recorded for long. The same chart
produces the same bytes, independent of the user's matplotlib settings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter

from sparring.eval.analysis.plots.history import Curve, PhaseMark
from sparring.eval.plots import COLORS, DIM, GRID, INK, MILLION, picture

DASHES = ("-", "--", ":")
MOST_GROUPS = len(COLORS) * len(DASHES)
GAP = 10.0
"""A line has a gap where the distance to the next value is this many times the median distance."""
FEW = 40
"""Maximum number of values also shown as dots."""

_WIDTH, _PANEL_HEIGHT, _LABEL_HEIGHT = 9.0, 2.6, 0.21
"""Inches."""
_ROW = 10
"""Row height of phase names in points."""
_PANEL_LETTERS = 125
"""Width of a panel in letters of a phase name."""
_LEGEND_LETTERS = 110
"""Width of the legend in letters; the line before a label counts as eight."""
_STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": DIM,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.xmargin": 0.0,
    "figure.constrained_layout.use": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
    "savefig.dpi": 150,
    "svg.hashsalt": "sparring",
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": DIM,
    "ytick.color": DIM,
}


@dataclass(frozen=True)
class Bundle:
    """Curves of one group in one panel: its R runs and their mean."""

    runs: Sequence[Curve]
    mean: Curve


@dataclass(frozen=True)
class Panel:
    """Panel of one metric: a bundle per group, on a linear or a logarithmic axis."""

    metric: str
    bundles: Sequence[Bundle]
    log: bool = False


@dataclass(frozen=True)
class Axis:
    """Shared x axis of the panels: its name, and its unit."""

    name: str
    unit: float


ENV_STEPS, UPDATES = Axis("env steps (millions)", MILLION), Axis("updates", 1.0)


@dataclass(frozen=True)
class CurveChart:
    """Content of a figure: P panels of G groups named `labels`, vertical lines at `marks`, and a note below."""

    labels: Sequence[str]
    panels: Sequence[Panel]
    axis: Axis = ENV_STEPS
    marks: Sequence[PhaseMark] = ()
    title: str = ""
    note: str = ""


class _Plain(LogFormatter):
    """Formatter of log ticks: 0.02 rather than 2e-02, also between powers of ten if there is room."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


def draw(chart: CurveChart, form: str) -> bytes:
    """Return the picture as png or svg data, according to `form`."""
    with style.context(["default", _STYLE]):
        return picture(_figure(chart), form)


def open_gaps(curve: Curve, unit: float = MILLION) -> tuple[np.ndarray, np.ndarray]:
    """Return the curve's steps divided by `unit` and its values, both float64, with NaN at gaps."""
    steps = curve.steps / unit
    if len(steps) < 2:
        return steps, curve.values
    spacing = np.diff(steps)
    wide = np.flatnonzero(spacing > GAP * np.median(spacing)) + 1
    return np.insert(steps, wide, np.nan), np.insert(curve.values, wide, np.nan)


def _figure(chart: CurveChart) -> Figure:
    count = len(chart.panels)
    columns = _legend_columns(chart.labels)
    legend_height = _LABEL_HEIGHT * math.ceil(len(chart.labels) / columns)
    figure = Figure(figsize=(_WIDTH, 0.7 + legend_height + _PANEL_HEIGHT * count))
    column = figure.subplots(count, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(column, chart.panels, strict=True):
        _draw_panel(axes, panel, chart.axis.unit)
        _draw_marks(axes, chart.marks, chart.axis.unit)
    last = max(curve.steps[-1] for panel in chart.panels for bundle in panel.bundles for curve in bundle.runs)
    _name_phases(column[0], chart.marks, int(last), chart.axis.unit)
    column[-1].set_xlabel(chart.axis.name, color=INK)
    column[-1].set_xlim(0.0, 1.01 * last / chart.axis.unit)
    figure.supxlabel(chart.note, x=0.01, ha="left", fontsize=8, color=DIM)
    _add_legend(figure, chart, columns)
    return figure


def _legend_columns(labels: Sequence[str]) -> int:
    """Return the number of legend columns that fit, at least one."""
    room = _LEGEND_LETTERS // (8 + max(map(len, labels)))
    return max(1, min(len(labels), room))


def _add_legend(figure: Figure, chart: CurveChart, columns: int) -> None:
    """Add the legend above the panels, and the title above the legend."""
    handles = [Line2D([], [], linewidth=2.2, **_look(index)) for index in range(len(chart.labels))]
    figure.legend(
        handles,
        chart.labels,
        loc="outside upper left",
        ncols=columns,
        title=chart.title or None,
        title_fontsize=13,
        alignment="left",
    )


def _draw_panel(axes: Axes, panel: Panel, unit: float) -> None:
    axes.set_title(panel.metric, color=INK)
    if panel.log:
        axes.set_yscale("log", nonpositive="mask")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(_Plain(minor_thresholds=(2.0, 0.5)))
    for index, bundle in enumerate(panel.bundles):
        if len(bundle.runs) > 1:
            for curve in bundle.runs:
                _draw_line(axes, curve, index, unit, linewidth=0.7, alpha=0.45)
        _draw_line(axes, bundle.mean, index, unit, linewidth=1.8, zorder=3)
    axes.set_ylim(axes.get_ylim())  # the limits of the lines: a band of two runs is far wider
    for index, bundle in enumerate(panel.bundles):
        _draw_band(axes, bundle.mean, index, unit)


def _draw_line(axes: Axes, curve: Curve, index: int, unit: float, **how: Any) -> None:
    marker = "." if len(curve.steps) <= FEW else ""
    axes.plot(*open_gaps(curve, unit), marker=marker, **_look(index), **how)


def _draw_band(axes: Axes, curve: Curve, index: int, unit: float) -> None:
    if curve.half is not None and len(curve.steps):
        steps, low = open_gaps(Curve(curve.steps, curve.values - curve.half), unit)
        _, high = open_gaps(Curve(curve.steps, curve.values + curve.half), unit)
        axes.fill_between(steps, low, high, color=COLORS[index % len(COLORS)], alpha=0.15, linewidth=0)


def _look(index: int) -> dict[str, Any]:
    """Return the colour and line style of a group."""
    return {"color": COLORS[index % len(COLORS)], "linestyle": DASHES[index // len(COLORS) % len(DASHES)]}


def _draw_marks(axes: Axes, marks: Sequence[PhaseMark], unit: float) -> None:
    for mark in marks:
        dashes = "-" if mark.new_phase else ":"
        axes.axvline(mark.env_steps / unit, color=DIM, linewidth=0.7, linestyle=dashes, zorder=1)


def _name_phases(axes: Axes, marks: Sequence[PhaseMark], last: int, unit: float) -> None:
    """Add phase names above a panel that ends at `last`, each at its start; close names go in separate rows."""
    ends: list[float] = []
    for mark in marks:
        if mark.phase and mark.new_phase:
            row = next((row for row, end in enumerate(ends) if end < mark.env_steps), len(ends))
            ends[row : row + 1] = [mark.env_steps + last * (1 + len(mark.phase)) / _PANEL_LETTERS]
            _name_phase(axes, mark, unit, above=2 + _ROW * row)
    axes.set_title(axes.get_title(loc="left"), color=INK, pad=6 + _ROW * len(ends))


def _name_phase(axes: Axes, mark: PhaseMark, unit: float, *, above: int) -> None:
    axes.annotate(
        mark.phase,
        (mark.env_steps / unit, 1.0),
        xycoords=axes.get_xaxis_transform(),
        xytext=(2, above),
        textcoords="offset points",
        fontsize=8,
        color=DIM,
    )
