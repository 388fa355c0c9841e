"""Content of a report, independent of how it is shown: sections of sentences, tables and plots, and findings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sparring.eval.analysis.reports.series import window_means
from sparring.eval.stats.aggregate import Estimate

SEVERITIES = ("critical", "warning", "info")
LARGEST = 1e300
"""Size of a number that is plotted at most: differences and sums of a few stay within float64."""
MOST_PLOTTED = 300
"""Points of a line in a plot; longer lines are averaged in windows of equal length."""
Cell = str | float | Estimate | tuple[int, ...] | None
"""Content of a table: text, a number, a number with its interval, row numbers, or None for an unknown number."""


DAMAGED = "damaged: "
"""Begins a remark about what could not be read."""


@dataclass(frozen=True)
class Evidence:
    """What was seen: P points of a metric (row numbers and values), and one sentence with the threshold."""

    metric: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    text: str


@dataclass(frozen=True)
class Finding:
    """A rule that fired: what it means, what was seen, and what to do next."""

    rule: str
    pattern: str
    severity: str
    text: str
    next_step: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class ReportTable:
    """Table: C columns and rows of C cells."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""


@dataclass(frozen=True)
class PlotLine:
    """Line or points of a plot: x and y [P], finite; `group` chooses the colour; a thin line is one of several runs."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    group: int = 0
    thin: bool = False
    dots: bool = False


@dataclass(frozen=True)
class LinePlot:
    """Plot of lines over a shared x axis; `log` makes both axes logarithmic, `marks` are x positions of events."""

    title: str
    x_label: str
    lines: tuple[PlotLine, ...]
    log: bool = False
    marks: tuple[float, ...] = ()


@dataclass(frozen=True)
class ReportSection:
    """Section: sentences, then tables, then plots."""

    title: str
    text: tuple[str, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    plots: tuple[LinePlot, ...] = ()


@dataclass(frozen=True)
class RunReport:
    """Report on one run, or on several: findings first, then sections."""

    title: str
    sections: tuple[ReportSection, ...]
    findings: tuple[Finding, ...] | None = None
    """None in a report without rules, such as a comparison."""
    damage: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rules: tuple[int, int] = (0, 0)
    """Rules that could be looked at in the run, and all."""

    @property
    def healthy(self) -> str:
        """What an empty list of findings means."""
        tried, total = self.rules
        if not tried:
            return f"No rule could be looked at: the run lacks metrics or enough values for each of the {total}."
        return f"No rule fired; {tried} of {total} could be looked at."

    @property
    def remarks(self) -> tuple[str, ...]:
        """Damage and notes, as lines before the findings."""
        return (*(f"{DAMAGED}{line}" for line in self.damage), *(f"note: {line}" for line in self.notes))

    def as_data(self) -> dict[str, Any]:
        """Return the report as plain data for JSON, without plots; an estimate has the keys value and interval."""
        sections = [
            {"title": part.title, "text": list(part.text), "tables": [asdict(table) for table in part.tables]}
            for part in self.sections
        ]
        findings = None if self.findings is None else [asdict(finding) for finding in self.findings]
        return {
            "title": self.title,
            "findings": findings,
            **({} if findings is None else {"rules": dict(zip(("looked_at", "all"), self.rules, strict=True))}),
            "sections": sections,
            "damage": list(self.damage),
            "notes": list(self.notes),
        }


def cell_text(cell: Cell) -> str:
    """Return a cell as people read it: numbers in four digits, an estimate with its interval in brackets."""
    if isinstance(cell, Estimate):
        return f"{number(cell.value)} [{', '.join(map(number, cell.interval))}]"
    if isinstance(cell, tuple):
        return ", ".join(map(str, cell))
    return cell if isinstance(cell, str) else number(cell)


def number(value: float | None) -> str:
    """Return a number in four digits, with separators from ten thousand on; a dash for an unknown one."""
    if value is None or not math.isfinite(value):
        return "-"
    if abs(value) < 1e10 and (value == int(value) or abs(value) >= 1e4):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def line(
    label: str, x: np.ndarray, y: np.ndarray, *, group: int = 0, thin: bool = False, dots: bool = False
) -> PlotLine:
    """Return a line with at most `MOST_PLOTTED` points of the finite values."""
    plottable = (np.abs(x) < LARGEST) & (np.abs(y) < LARGEST)
    x, y = (window_means(part[plottable], MOST_PLOTTED) for part in (x, y))
    return PlotLine(label, tuple(map(float, x)), tuple(map(float, y)), group, thin, dots)


def plots_with_lines(plots: Sequence[LinePlot]) -> tuple[LinePlot, ...]:
    """Return the plots in which some line has at least two points."""
    return tuple(plot for plot in plots if any(len(entry.x) > 1 for entry in plot.lines))
