"""The plots of a report as one picture, drawn with matplotlib, which is imported only here."""

from __future__ import annotations

import io

from sparring.configs.core.errors import choose
from sparring.eval.experiments.reports.report import LinePlot, RunReport
from sparring.eval.experiments.reports.svg import COLORS
from sparring.eval.plots import check_matplotlib

COLUMNS = 2


def draw_figure(report: RunReport, suffix: str) -> bytes:
    """Return all plots of the report as png or svg data. Raises `InputError` for another suffix, or no matplotlib."""
    form = choose("ending of --plot", suffix.lstrip("."), ("png", "svg"))
    check_matplotlib()
    from matplotlib.figure import Figure

    plots = [plot for section in report.sections for plot in section.plots]
    rows = max(1, -(-len(plots) // COLUMNS))
    figure = Figure(figsize=(10, 2.8 * rows), layout="constrained")
    axes = figure.subplots(rows, COLUMNS, squeeze=False).flatten()
    for axis, plot in zip(axes, plots, strict=False):
        _draw(axis, plot)
    for axis in axes[len(plots) :]:
        axis.set_axis_off()
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, metadata={"Date": None} if form == "svg" else {"Software": None})
    return buffer.getvalue()


def _draw(axis: object, plot: LinePlot) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axis, Axes)
    for entry in plot.lines:
        style = (
            {"linestyle": "", "marker": ".", "alpha": 0.5} if entry.dots else {"linewidth": 0.6 if entry.thin else 1.6}
        )
        name = entry.label if entry.label and not entry.thin else "_"
        name = name.replace("$", r"\$")  # no formula
        axis.plot(entry.x, entry.y, color=COLORS[entry.group % len(COLORS)], label=name, **style)
    if plot.log:
        axis.set_xscale("log")
        axis.set_yscale("log")
    for mark in plot.marks:
        axis.axvline(mark, color="#70767E", linestyle=":", linewidth=0.8)
    axis.set_title(plot.title, fontsize=9, loc="left", parse_math=False)
    axis.set_xlabel(plot.x_label, fontsize=8)
    if len({entry.label for entry in plot.lines if entry.label and not entry.thin}) > 1:
        axis.legend(fontsize=7, frameon=False)
