"""Commands that report: analyze, compare, analyze-sweep, and the register of experiments."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from sparring.agents.sweeps.sweep_folder import SUFFIX
from sparring.configs.core.files import CHECKPOINTS
from sparring.eval.analysis.options import (
    ComputeOptions,
    OutputOptions,
    Project,
    RunChoice,
    Source,
    SourceName,
    SourceOptions,
    find_run,
    find_sources,
    with_option_groups,
)
from sparring.eval.analysis.output import DAMAGED, OutputFormat, console, to_csv, to_json
from sparring.eval.analysis.record import RunNotFoundError
from sparring.eval.analysis.register import PAGE, register
from sparring.eval.analysis.reports import rendering
from sparring.eval.analysis.reports.comparison import ComparisonOptions, load_compared
from sparring.eval.analysis.reports.comparison_report import compare_runs
from sparring.eval.analysis.reports.report import RunReport
from sparring.eval.analysis.reports.rules import RULES
from sparring.eval.analysis.reports.run_report import AnalysisOptions, analyze_run
from sparring.eval.analysis.sources.run_folders import RunFolders
from sparring.eval.analysis.sweep_analysis import ChosenRuns, SweepAnalysis, analyze_chosen, choose_runs, find_sweep
from sparring.eval.analysis.sweep_analysis import analyze_sweep as analysis_of
from sparring.eval.analysis.sweep_report import (
    ComputeChoice,
    search_cells,
    search_markdown,
    search_plain,
    sweep_cells,
    sweep_compute,
    sweep_markdown,
    sweep_plain,
)
from sparring.eval.command import make_folders, publish


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
    app.command("analyze-sweep")(with_option_groups(analyze_sweep))
    app.command("register")(register_runs)


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
    options = ComparisonOptions(tuple(metrics or ()), equal, computed.reward, computed.weights(), computed.machine())
    names = list(dict.fromkeys([*(runs or []), *(run_ids or [])]))
    compared = load_compared(names, where.find(), options)
    report = compare_runs(compared, options)
    if plot is not None:
        publish("", {plot: rendering.draw_figure(report, plot.suffix)}, quiet=True)
    return _show(report, ReportFormat.JSON if as_json else output_format, markdown, html)


def _show(report: RunReport, form: ReportFormat, markdown: Path | None, html: Path | None) -> int:
    """Print a report, write its files, and return the exit code."""
    make_folders([], files=[markdown, html])
    for path, text in ((markdown, rendering.to_markdown), (html, rendering.to_html)):
        if path is not None:
            publish("", {path: text(report)}, quiet=True)
    if form is ReportFormat.TABLE:
        rendering.print_report(report, console())
    else:
        texts = {
            ReportFormat.CSV: rendering.to_csv,
            ReportFormat.MARKDOWN: rendering.to_markdown,
            ReportFormat.JSON: rendering.to_json,
        }
        print(texts[form](report).rstrip("\n"))
    return DAMAGED if report.damage else 0


SweepRoot = Annotated[Path, typer.Option("--dir", "--checkpoint-dir", help="folder of the runs")]


def analyze_sweep(
    sweep: Annotated[
        list[str],
        typer.Argument(help="a sweep, as in +sweep=NAME or its name=; or runs: names, prefixes, tags, W&B groups"),
    ],
    root: SweepRoot = CHECKPOINTS,
    source: Source = SourceName.AUTO,
    project: Project = "",
    *,
    computed: ComputeOptions,
    output: OutputOptions,
) -> int:
    """Print a sweep's table, its ranking beside the expected one, which criteria hold, what it cost, and power laws."""
    choice = ComputeChoice(computed.reward, computed.machine(), computed.weights())
    try:
        chosen = None if (root / f"{sweep[0]}{SUFFIX}").is_dir() else _chosen(sweep, root, project, source)
    except RunNotFoundError:
        if len(sweep) > 1:
            raise
        chosen = None
    if chosen is None:  # A sweep of its own, or an error that names the nearest.
        print(sweep_text(sweep[0], output.form, root, choice), end="")
        return 0
    analysis = analyze_chosen(chosen, " ".join(sweep))
    print(_analysis_text(analysis, chosen, output.form, choice), end="")
    return 0


def _chosen(names: list[str], root: Path, project: str, source: SourceName) -> ChosenRuns:
    """Return the runs of all sources; a group stands in W&B files alone, also of runs that have better logs."""
    try:
        return choose_runs(names, find_sources(root, project, source, offline=False))
    except RunNotFoundError:
        if source is SourceName.AUTO:
            with suppress(RunNotFoundError):
                return choose_runs(names, find_sources(root, project, SourceName.OFFLINE, offline=False))
        raise


def register_runs(
    names: Annotated[list[str] | None, typer.Argument(help="runs and sweeps to record; all without any")] = None,
    none: Annotated[bool, typer.Option("--none", help="record no run; write the page again")] = False,
    root: SweepRoot = CHECKPOINTS,
) -> int:
    """Record runs in docs/experiments/runs.jsonl and write docs/experiments/README.md from it."""
    counts = register([] if none else names, root, all_runs=not names and not none)
    print(f"{PAGE}: {', '.join(f'{count} {name}' for name, count in counts.items())}")
    return 0


def sweep_text(name: str, form: OutputFormat, root: Path, choice: ComputeChoice) -> str:
    """Return the analysis of a sweep or a search as table, JSON or CSV. Raises `InputError` if there is none."""
    folder = find_sweep(name, root)
    if "search" in folder.content():
        if form is OutputFormat.TABLE:
            return search_markdown(folder)
        return to_json(search_plain(folder)) + "\n" if form is OutputFormat.JSON else to_csv(*search_cells(folder))
    return _analysis_text(analysis_of(folder), RunFolders(root), form, choice)


def _analysis_text(
    analysis: SweepAnalysis, runs: RunFolders | ChosenRuns, form: OutputFormat, choice: ComputeChoice
) -> str:
    if form is OutputFormat.CSV:
        return to_csv(*sweep_cells(analysis))
    compute = sweep_compute(analysis, runs, choice)
    return (
        sweep_markdown(analysis, compute)
        if form is OutputFormat.TABLE
        else to_json(sweep_plain(analysis, compute)) + "\n"
    )
