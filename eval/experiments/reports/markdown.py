"""A report as Markdown, JSON, CSV, and as one HTML page with inline plots that loads nothing."""

from __future__ import annotations

from collections.abc import Iterable

from sparring.eval.experiments import output
from sparring.eval.experiments.output import html_text, markdown_text
from sparring.eval.experiments.reports.report import Cell, Finding, ReportSection, ReportTable, RunReport, cell_text
from sparring.eval.experiments.reports.svg import draw_svg
from sparring.eval.stats.aggregate import Estimate

HEALTHY = "No rule fired."
_CSS = """
body{font:15px/1.5 system-ui,sans-serif;color:#1E2228;max-width:1120px;margin:2em auto;padding:0 1em}
table{border-collapse:collapse;margin:.6em 0;font-size:14px;display:block;overflow-x:auto}
th,td{padding:.2em .8em .2em 0;text-align:left;border-bottom:1px solid #DEE1E5;vertical-align:top}
.finding{border-left:4px solid #E69F00;padding:.2em 1em;margin:.8em 0;background:#FAFAFA}
.critical{border-color:#D55E00}.info{border-color:#56B4E9}
.plots{display:flex;flex-wrap:wrap;gap:1em}.plots>div{max-width:100%}svg{max-width:100%;height:auto}
svg text{font:11px system-ui,sans-serif;fill:#70767E}
svg text.title{font-size:13px;fill:#1E2228}.grid{stroke:#DEE1E5;stroke-width:.6}
.mark{stroke:#70767E;stroke-dasharray:3 3}.legend{font-size:12px;margin:0 0 0 62px}
"""


def to_markdown(report: RunReport) -> str:
    """Return the report as Markdown, without plots."""
    parts = [f"# {markdown_text(report.title)}"]
    parts += [f"> {markdown_text(line)}" for line in report.remarks]
    if report.findings is not None:
        parts += ["## Findings", *([_finding_md(found) for found in report.findings] or [HEALTHY])]
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
        found = "".join(map(_finding_html, report.findings)) or f"<p>{HEALTHY}</p>"
        findings = f"<h2>Findings</h2>{found}"
    head_lines = "".join(f"<p>{html_text(line)}</p>" for line in report.remarks)
    body = "".join(map(_section_html, report.sections))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f"<title>{html_text(report.title)}</title><style>{_CSS}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head><body><h1>{html_text(report.title)}</h1>'
        f"{head_lines}{findings}{body}</body></html>\n"
    )


def to_json(report: RunReport) -> str:
    """Return the report as JSON, without plots."""
    return output.to_json(report.as_data())


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


def evidence_lines(found: Finding) -> list[str]:
    """Return one line of text for each piece of evidence, with its points as update: value."""
    return [
        f"{seen.metric}: {seen.text}"
        + (
            f" ({', '.join(f'{step}: {value:.3g}' for step, value in zip(seen.steps, seen.values, strict=True))})"
            * bool(seen.steps)
        )
        for seen in found.evidence
    ]


def _finding_md(found: Finding) -> str:
    lines = [f"**{found.severity}: {markdown_text(found.rule)}** ({found.pattern}). {markdown_text(found.text)}", ""]
    lines += [f"- {markdown_text(line)}" for line in evidence_lines(found)]
    return "\n".join([*lines, f"- Next: {markdown_text(found.next_step)}"])


def _finding_html(found: Finding) -> str:
    items = "".join(f"<li>{html_text(line)}</li>" for line in evidence_lines(found))
    return (
        f'<div class="finding {found.severity}"><b>{found.severity}: {html_text(found.rule)}</b> ({found.pattern}). '
        f"{html_text(found.text)}<ul>{items}</ul><b>Next:</b> {html_text(found.next_step)}</div>"
    )


def _section_html(section: ReportSection) -> str:
    text = "".join(f"<p>{html_text(line)}</p>" for line in section.text)
    tables = "".join(map(_table_html, section.tables))
    plots = "".join(f"<div>{draw_svg(plot)}</div>" for plot in section.plots)
    return f'<h2>{html_text(section.title)}</h2>{text}{tables}<div class="plots">{plots}</div>'


def _table_md(table: ReportTable) -> str:
    head, *body = (
        f"| {' | '.join(map(markdown_text, row))} |"
        for row in [table.columns, *(map(cell_text, row) for row in table.rows)]
    )
    text = "\n".join([head, f"| {' | '.join(['---'] * len(table.columns))} |", *body])
    return f"{markdown_text(table.title)}\n\n{text}" if table.title else text


def _table_html(table: ReportTable) -> str:
    head, *body = (_row_html(row, tag) for row, tag in _tagged(table))
    title = f"<p><b>{html_text(table.title)}</b></p>" if table.title else ""
    return f"{title}<table><thead>{head}</thead><tbody>{''.join(body)}</tbody></table>"


def _tagged(table: ReportTable) -> Iterable[tuple[tuple[Cell, ...], str]]:
    return [(table.columns, "th"), *((row, "td") for row in table.rows)]


def _row_html(row: tuple[Cell, ...], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{html_text(cell_text(cell))}</{tag}>' for cell in row)}</tr>"


def _csv_cells(cell: Cell) -> tuple[str | float | None, ...]:
    if isinstance(cell, Estimate):
        return cell.value, *cell.interval
    return (cell_text(cell) if isinstance(cell, tuple) else cell, None, None)
