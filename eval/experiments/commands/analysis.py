"""Commands `analyze` and `compare`: reports on one run and on several."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from sparring.eval.command import make_folders, publish
from sparring.eval.experiments.analysis.rules import RULES
from sparring.eval.experiments.exit_codes import DAMAGED
from sparring.eval.experiments.find import find_run
from sparring.eval.experiments.options import ComputeOptions, RunChoice, SourceOptions, with_option_groups
from sparring.eval.experiments.output import console
from sparring.eval.experiments.reports.report import RunReport


class ReportFormat(StrEnum):
    """Forms of a report on standard output."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


class ManyValuesCommand(TyperCommand):
    """A command whose `--run-ids` and `--metrics` take several values in a row, up to the next option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each of its values."""
        repeated: list[str] = []
        current = ""
        for word in args:
            if word.startswith("-"):
                current = word if word in ("--run-ids", "--metrics") else ""
                repeated += [] if current else [word]
            else:
                repeated += [current, word] if current else [word]
        return super().parse_args(ctx, repeated)


FORMAT = typer.Option("--output-format", help="table, json, csv, or markdown.")
JSON = typer.Option("--json", help="Short for --output-format json.")
MARKDOWN = typer.Option(help="Write the report as Markdown to this file.")
HTML = typer.Option(help="Write the report as one HTML page with plots to this file; it loads nothing.")


def add_commands(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("analyze")(with_option_groups(analyze))
    app.command("compare", cls=ManyValuesCommand)(with_option_groups(compare))


def analyze(
    output_format: Annotated[ReportFormat, FORMAT] = ReportFormat.TABLE,
    as_json: Annotated[bool, JSON] = False,
    markdown: Annotated[Path | None, MARKDOWN] = None,
    html: Annotated[Path | None, HTML] = None,
    rules: Annotated[Path, typer.Option(help="File with rules, instead of those of the package.")] = RULES,
    *,
    chosen: RunChoice,
    computed: ComputeOptions,
    where: SourceOptions,
) -> int:
    """Report on one run: training, performance, extraction, cache, power law, league, evaluation, and what is wrong."""
    from sparring.eval.experiments.analysis.run_report import AnalysisOptions, analyze_run

    options = AnalysisOptions(rules, computed.reward, computed.weights(), computed.machine())
    origin, record = find_run(chosen.name, where.find())
    report = analyze_run(record, origin.history(record.id), origin.artifacts(record.id), options)
    return _show(report, ReportFormat.JSON if as_json else output_format, markdown, html)


def compare(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Names or folders of runs; the first is the baseline.")
    ] = None,
    run_ids: Annotated[list[str] | None, typer.Option("--run-ids", help="The same; may be repeated.")] = None,
    metrics: Annotated[list[str] | None, typer.Option("--metrics", "-m", help="Metric; may be repeated.")] = None,
    equal: Annotated[
        str, typer.Option(help="Compare at equal steps, seconds, or updates; by default steps, else updates.")
    ] = "",
    output_format: Annotated[ReportFormat, FORMAT] = ReportFormat.TABLE,
    as_json: Annotated[bool, JSON] = False,
    markdown: Annotated[Path | None, MARKDOWN] = None,
    html: Annotated[Path | None, HTML] = None,
    plot: Annotated[Path | None, typer.Option(help="Also draw the curves with matplotlib, as .png or .svg.")] = None,
    *,
    computed: ComputeOptions,
    where: SourceOptions,
) -> int:
    """Compare runs: differences of configuration, metrics at equal compute, seeds grouped, paired differences."""
    from sparring.eval.experiments.analysis.comparison import ComparisonOptions, load_compared
    from sparring.eval.experiments.analysis.comparison_report import compare_runs

    options = ComparisonOptions(tuple(metrics or ()), equal, computed.reward, computed.weights(), computed.machine())
    names = list(dict.fromkeys([*(runs or []), *(run_ids or [])]))
    compared = load_compared(names, where.find(), options)
    report = compare_runs(compared, options)
    if plot is not None:
        from sparring.eval.experiments.reports.figure import draw_figure

        publish("", {plot: draw_figure(report, plot.suffix)}, quiet=True)
    return _show(report, ReportFormat.JSON if as_json else output_format, markdown, html)


def _show(report: RunReport, form: ReportFormat, markdown: Path | None, html: Path | None) -> int:
    """Print a report, write its files, and return the exit code."""
    from sparring.eval.experiments.reports.markdown import to_csv, to_html, to_json, to_markdown
    from sparring.eval.experiments.reports.terminal import print_report

    make_folders([], files=[markdown, html])
    for path, text in ((markdown, to_markdown), (html, to_html)):
        if path is not None:
            publish("", {path: text(report)}, quiet=True)
    if form is ReportFormat.TABLE:
        print_report(report, console())
    else:
        texts = {ReportFormat.CSV: to_csv, ReportFormat.MARKDOWN: to_markdown, ReportFormat.JSON: to_json}
        print(texts[form](report).rstrip("\n"))
    return DAMAGED if report.damage else 0
