"""A report as Markdown, JSON, CSV, one HTML page that loads nothing, one picture, and text on the terminal.

The plots of the page are SVG text: no matplotlib, no script, no network; the same plot gives the same text. matplotlib
is imported for the picture only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sparring.configs.core.errors import choose, one_line
from sparring.eval.analysis import output
from sparring.eval.analysis.output import html_text, markdown_text
from sparring.eval.analysis.reports.report import (
    DAMAGED,
    Cell,
    Finding,
    LinePlot,
    PlotLine,
    ReportSection,
    ReportTable,
    RunReport,
    cell_text,
    number,
)
from sparring.eval.command import LOOK
from sparring.eval.plots import COLORS, DIM, check_matplotlib, picture
from sparring.eval.stats.aggregate import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 520, 220
LEFT, RIGHT, TOP, BOTTOM = 62, 10, 24, 34  # margins in pixels
INKS = (*COLORS[:-1], "currentColor")  # of groups of lines; black is the colour of text, which a dark page inverts


class PlotScale:
    """Linear or logarithmic map from values to pixels."""

    def __init__(self, values: list[float], start: float, end: float, *, log: bool) -> None:
        self.log = log
        positive = [value for value in values if not log or value > 0] or [1.0]
        low, high = min(positive), max(positive)
        if low == high:
            low, high = (low / 2, high * 2) if log else (low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2)
        self.low, self.high, self._start, self._end = low, high, start, end

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high, at = (np.log(part) if self.log else part for part in (self.low, self.high, value))
        return float(self._start + (at - low) / (high - low) * (self._end - self._start))

    def ticks(self) -> list[float]:
        """Return about four round values inside the range."""
        if self.log:
            span = np.log10(self.high / self.low)
            if span > 1:
                powers = np.arange(np.ceil(np.log10(self.low) - 1e-9), np.floor(np.log10(self.high) + 1e-9) + 1)
                return [float(10.0**power) for power in powers[:: max(1, len(powers) // 5)]]
        step = 10.0 ** np.floor(np.log10((self.high - self.low) / 3))
        step *= next(times for times in (1, 2, 5, 10) if (self.high - self.low) / (step * times) <= 5)
        first = np.ceil(self.low / step - 1e-9)
        return [float(tick * step) + 0.0 for tick in np.arange(first, np.floor(self.high / step + 1e-9) + 1)]


def draw_svg(plot: LinePlot) -> str:
    """Return one plot as an `<svg>` element."""
    lines = [_positive(entry) if plot.log else entry for entry in plot.lines]
    x = PlotScale([v for entry in lines for v in entry.x], LEFT, WIDTH - RIGHT, log=plot.log)
    y = PlotScale([v for entry in lines for v in entry.y], HEIGHT - BOTTOM, TOP, log=plot.log)
    parts = [f'<text x="{LEFT}" y="14" class="title">{html_text(plot.title)}</text>']
    parts += [_x_tick(x(tick), tick) for tick in x.ticks()] + [_y_tick(y(tick), tick) for tick in y.ticks()]
    upright = f'y1="{TOP}" y2="{HEIGHT - BOTTOM}"'
    marks = [f"{x(at):.1f}" for at in plot.marks if x.low <= at <= x.high]
    parts += [f'<line class="mark" x1="{at}" x2="{at}" {upright}/>' for at in marks]
    parts += [_curve(entry, x, y) for entry in lines]
    parts.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 4}" text-anchor="end">{html_text(plot.x_label)}</text>')
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return f'<svg {size} role="img" aria-label="{html_text(plot.title)}">{"".join(parts)}</svg>{_legend(lines)}'


def _positive(entry: PlotLine) -> PlotLine:
    points = [(x, y) for x, y in zip(entry.x, entry.y, strict=True) if x > 0 and y > 0]
    x, y = ([pair[side] for pair in points] for side in (0, 1))
    return PlotLine(entry.label, tuple(x), tuple(y), entry.group, entry.thin, entry.dots)


def _curve(entry: PlotLine, x: PlotScale, y: PlotScale) -> str:
    color, points = INKS[entry.group % len(INKS)], [(x(a), y(b)) for a, b in zip(entry.x, entry.y, strict=True)]
    if entry.dots or len(points) == 1:
        return "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2" fill="{color}" opacity="0.5"/>' for a, b in points)
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    style = 'stroke-width="0.8" opacity="0.5"' if entry.thin else 'stroke-width="1.6"'
    return f'<polyline points="{path}" fill="none" stroke="{color}" {style}/>'


def _x_tick(at: float, value: float) -> str:
    ends = f'x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"'
    return (
        f'<line class="grid" {ends}/><text x="{at:.1f}" y="{HEIGHT - 19}" text-anchor="middle">{_short(value)}</text>'
    )


def _y_tick(at: float, value: float) -> str:
    ends = f'x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"'
    return f'<line class="grid" {ends}/><text x="{LEFT - 5}" y="{at + 3:.1f}" text-anchor="end">{_short(value)}</text>'


def _legend(lines: list[PlotLine]) -> str:
    """Return the names of the lines under the plot, unless there is one; thin lines belong to a thick one."""
    named = {entry.label: entry.group for entry in lines if entry.label and not entry.thin}
    if len(named) < 2:
        return ""
    square = '<span><span style="color:{}">&#9632;</span> {}</span>'
    keys = (square.format(INKS[group % len(INKS)], html_text(name)) for name, group in named.items())
    return f'<p class="legend">{" ".join(keys)}</p>'


def _short(value: float) -> str:
    size = abs(value)
    unit, name = next(((u, n) for u, n in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if u <= size < u * 1e3), (1.0, ""))
    return f"{value / unit:.3g}{name}"


_CSS = """
body{max-width:1120px}
table{border-collapse:collapse;margin:.6em 0;font-size:14px;display:block;overflow-x:auto}
th,td{padding:.2em .8em .2em 0;text-align:left;border-bottom:1px solid var(--rule);vertical-align:top}
.finding{border-left:4px solid #E69F00;padding:.2em 1em;margin:.8em 0;background:var(--panel)}
.critical{border-color:#D55E00}.info{border-color:#56B4E9}
.plots{display:flex;flex-wrap:wrap;gap:1em}.plots>div{max-width:min(100%,520px)}svg{max-width:100%;height:auto}
svg text{font:11px system-ui,sans-serif;fill:var(--dim)}
svg text.title{font-size:13px;fill:var(--text)}.grid{stroke:var(--rule);stroke-width:.6}
.mark{stroke:var(--dim);stroke-dasharray:3}.legend{font-size:12px;margin:0 0 0 62px}body{margin:2em auto;padding:0 1em}
@media(max-width:600px){body{margin:1em auto;padding:0 .7em}h1{font-size:1.4em;overflow-wrap:anywhere}
table{font-size:12px}th,td{padding:.2em .3em .2em 0}svg text,svg text.title{font-size:15px}
td:first-child{overflow-wrap:anywhere}.legend{margin:0}th:first-child,td:first-child{position:sticky;left:0;background:var(--page)}}
"""


def to_markdown(report: RunReport) -> str:
    """Return the report as Markdown, without plots."""
    parts = [f"# {markdown_text(report.title)}"]
    parts += [f"> {markdown_text(line)}" for line in report.remarks]
    if report.findings is not None:
        parts += ["## Findings", *([_finding_md(finding) for finding in report.findings] or [report.healthy])]
    for section in report.sections:
        parts += [
            f"## {markdown_text(section.title)}",
            *map(markdown_text, section.text),
            *map(_table_md, section.tables),
        ]
    return "\n\n".join(parts) + "\n"


def to_html(report: RunReport) -> str:
    """Return the report as one page; texts from the run are escaped, and a policy forbids every request and script."""
    findings = ""
    if report.findings is not None:
        items = "".join(map(_finding_html, report.findings)) or f"<p>{report.healthy}</p>"
        findings = f"<h2>Findings</h2>{items}"
    head_lines = "".join(f"<p>{html_text(line)}</p>" for line in report.remarks)
    body = "".join(map(_section_html, report.sections))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{html_text(report.title)}</title><style>{LOOK.read_text('utf-8')}{_CSS}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body><main><h1>{html_text(report.title)}</h1>'
        f"{head_lines}{findings}{body}</main></body></html>\n"
    )


def to_csv(report: RunReport) -> str:
    """Return the cells of all tables as rows of section, name of the row, column, value, and the ends of an interval.

    Numbers have full precision; unknown ones are empty.
    """
    rows = [
        (section.title, row[0], column, *_csv_cells(cell))
        for section in report.sections
        for table in section.tables
        for row in table.rows
        for column, cell in list(zip(table.columns, row, strict=True))[1:]
    ]
    return output.to_csv(("section", "row", "column", "value", "low", "high"), rows)


def evidence_lines(finding: Finding) -> list[str]:
    """Return one line of text for each piece of evidence, with its points as update: value."""
    return [
        f"{item.metric}: {item.text}"
        + (
            f" ({', '.join(f'{step}: {value:.3g}' for step, value in zip(item.steps, item.values, strict=True))})"
            * bool(item.steps)
        )
        for item in finding.evidence
    ]


def _finding_md(finding: Finding) -> str:
    rule, text = markdown_text(finding.rule), markdown_text(finding.text)
    lines = [f"**{finding.severity}: {rule}** ({finding.pattern}). {text}", ""]
    lines += [f"- {markdown_text(line)}" for line in evidence_lines(finding)]
    return "\n".join([*lines, f"- Next: {markdown_text(finding.next_step)}"])


def _finding_html(finding: Finding) -> str:
    items = "".join(f"<li>{html_text(line)}</li>" for line in evidence_lines(finding))
    rule, text, next_step = map(html_text, (finding.rule, finding.text, finding.next_step))
    return (
        f'<div class="finding {finding.severity}"><b>{finding.severity}: {rule}</b> ({finding.pattern}). '
        f"{text}<ul>{items}</ul><b>Next:</b> {next_step}</div>"
    )


def _section_html(section: ReportSection) -> str:
    text = "".join(f"<p>{html_text(line)}</p>" for line in section.text)
    tables = "".join(map(_table_html, section.tables))
    plots = "".join(f"<div>{draw_svg(plot)}</div>" for plot in section.plots)
    return f'<h2>{html_text(section.title)}</h2>{text}{tables}<div class="plots">{plots}</div>'


def _table_md(table: ReportTable) -> str:
    text = output.markdown_table(table.columns, [[*map(cell_text, row)] for row in table.rows])
    return f"{markdown_text(table.title)}\n\n{text}" if table.title else text


def _table_html(table: ReportTable) -> str:
    head, *body = (
        f"<tr>{''.join(f'<{tag}>{html_text(cell_text(cell))}</{tag}>' for cell in row)}</tr>"
        for tag, row in [("th", table.columns), *(("td", row) for row in table.rows)]
    )
    title = f"<p><b>{html_text(table.title)}</b></p>" if table.title else ""
    return f"{title}<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>"


def _csv_cells(cell: Cell) -> tuple[str | float | None, ...]:
    if isinstance(cell, Estimate):
        return cell.value, *cell.interval
    return (cell_text(cell) if isinstance(cell, tuple) else cell, None, None)


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
        _draw_axis(axis, plot)
    for axis in axes[len(plots) :]:
        axis.set_axis_off()
    return picture(figure, form)


def _draw_axis(axis: Axes, plot: LinePlot) -> None:
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
        axis.axvline(mark, color=DIM, linestyle=":", linewidth=0.8)
    axis.set_title(plot.title, fontsize=9, loc="left", parse_math=False)
    axis.set_xlabel(plot.x_label, fontsize=8)
    if len({entry.label for entry in plot.lines if entry.label and not entry.thin}) > 1:
        axis.legend(fontsize=7, frameon=False)


STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}
BLOCKS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 40


def show(report: RunReport, form: output.OutputFormat) -> None:
    """Print a report as CSV, as Markdown, or as a table for the terminal."""
    if form is output.OutputFormat.TABLE:
        print_report(report, output.console())
    else:
        print((to_csv if form is output.OutputFormat.CSV else to_markdown)(report).rstrip("\n"))


def print_report(report: RunReport, console: Console) -> None:
    """Print a report. Texts from the run are printed as they are, never as markup."""
    console.print(_text(report.title, style="bold"))
    for line in report.remarks:
        console.print(_text(line, style="red" if line.startswith(DAMAGED) else ""))
    if report.findings is not None:
        _title(console, "Findings")
        for finding in report.findings:
            _print_finding(console, finding)
        if not report.findings:
            console.print(_text(report.healthy, style="green" if report.rules[0] else "yellow"))
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


def _print_finding(console: Console, finding: Finding) -> None:
    head = _text(f"{finding.severity}: {finding.rule}", style=STYLES[finding.severity])
    console.print(head.append(" ").append(_text(f"({finding.pattern}) {finding.text}", style="default")))
    for line in evidence_lines(finding):
        console.print(Text("  ").append(_text(line, style="dim")))
    console.print(Text("  next: ").append(_text(finding.next_step)))


def _table(table: ReportTable) -> Table:
    result = Table(title=_text(table.title) if table.title else None, title_justify="left", box=None, pad_edge=False)
    for name in table.columns:
        result.add_column(_text(name), overflow="fold")
    for row in table.rows:
        result.add_row(*(_text(cell_text(cell)) for cell in row))
    return result


def _print_plot(console: Console, plot: LinePlot) -> None:
    for entry in plot.lines:
        if len(entry.y) > 1 and not entry.thin and not entry.dots:
            name = plot.title if len(plot.lines) == 1 or not entry.label else f"{plot.title}, {entry.label}"
            ends = f"{number(entry.y[0])} to {number(entry.y[-1])}"
            console.print(_text(f"{sparkline(entry.y)}  {name}: {ends}"))
