"""A report on the terminal: findings in colour, tables, and plots as lines of block characters."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sparring.configs.core.errors import one_line
from sparring.eval.experiments.reports.markdown import HEALTHY, evidence_lines
from sparring.eval.experiments.reports.report import Finding, LinePlot, ReportTable, RunReport, cell_text, number

STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
BLOCKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 40


def print_report(report: RunReport, console: Console) -> None:
    """Print a report. Texts from the run are printed as they are, never as markup."""
    console.print(_text(report.title, style="bold"))
    for line in report.remarks:
        console.print(_text(line, style="red"))
    if report.findings is not None:
        _title(console, "Findings")
        for found in report.findings:
            _print_finding(console, found)
        if not report.findings:
            console.print(_text(HEALTHY, style="green"))
    for section in report.sections:
        _title(console, section.title)
        for line in section.text:
            console.print(_text(line))
        for table in section.tables:
            console.print(_table(table))
        for plot in section.plots:
            _print_plot(console, plot)


def sparkline(values: tuple[float, ...]) -> str:
    """Return the values as at most `SPARK_WIDTH` block characters, the means of equal windows."""
    parts = [part.mean() for part in np.array_split(np.array(values), min(len(values), SPARK_WIDTH)) if len(part)]
    low, high = min(parts), max(parts)
    span = (high - low) or 1.0
    return "".join(BLOCKS[min(int((value - low) / span * len(BLOCKS)), len(BLOCKS) - 1)] for value in parts)


def _text(text: str, style: str = "") -> Text:
    return Text(one_line(text), style=style)


def _title(console: Console, text: str) -> None:
    console.print()
    console.print(_text(text, style="bold underline"))


def _print_finding(console: Console, found: Finding) -> None:
    head = _text(f"{found.severity}: {found.rule}", style=STYLES[found.severity])
    console.print(head.append(" ").append(_text(f"({found.pattern}) {found.text}", style="default")))
    for line in evidence_lines(found):
        console.print(Text("  ").append(_text(line, style="dim")))
    console.print(Text("  next: ").append(_text(found.next_step)))


def _table(table: ReportTable) -> Table:
    made = Table(title=_text(table.title) if table.title else None, title_justify="left", box=None, pad_edge=False)
    for name in table.columns:
        made.add_column(_text(name), overflow="fold")
    for row in table.rows:
        made.add_row(*(_text(cell_text(cell)) for cell in row))
    return made


def _print_plot(console: Console, plot: LinePlot) -> None:
    for entry in plot.lines:
        if len(entry.y) > 1 and not entry.thin and not entry.dots:
            name = plot.title if len(plot.lines) == 1 or not entry.label else f"{plot.title}, {entry.label}"
            ends = f"{number(entry.y[0])} to {number(entry.y[-1])}"
            console.print(_text(f"{sparkline(entry.y)}  {name}: {ends}"))
