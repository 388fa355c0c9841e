"""Commands that report: analyze, league, compare, analyze-sweep, and the register of experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from sparring.configs.core.errors import printable_lines
from sparring.configs.core.files import CHECKPOINTS
from sparring.eval.analysis import sweep_report
from sparring.eval.analysis.options import (
    ComputeOptions,
    ReportFiles,
    Root,
    RunOptions,
    SourceName,
    SourceOptions,
)
from sparring.eval.analysis.output import DAMAGED, Answer, OutputFormat, to_csv
from sparring.eval.analysis.record import RunNotFoundError
from sparring.eval.analysis.register import PAGE, register
from sparring.eval.analysis.reports import rendering
from sparring.eval.analysis.reports.comparison import ComparisonOptions, compare_runs, load_compared
from sparring.eval.analysis.reports.league_report import league_report
from sparring.eval.analysis.reports.power_law import ComputeChoice
from sparring.eval.analysis.reports.report import RunReport
from sparring.eval.analysis.reports.rules import RULES
from sparring.eval.analysis.reports.run_report import analyze_run
from sparring.eval.analysis.sources.run_folders import RunFolders
from sparring.eval.analysis.sweep_analysis import ChosenRuns, SweepAnalysis, analyze_chosen, choose_runs, find_sweep
from sparring.eval.analysis.sweep_analysis import analyze_sweep as analysis_of
from sparring.eval.analysis.sweeps.sweep_folder import SUFFIX


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


def analyze(
    rules: Annotated[Path, typer.Option(help="File with rules, instead of the package's own.")] = RULES,
    *,
    files: ReportFiles,
    computed: ComputeOptions,
    options: RunOptions,
) -> Answer:
    """Report on one run: training, performance, extraction, cache, power law, league, evaluation, and what is wrong."""
    choice, run = computed.choice(), options.find_run()
    return _reported(analyze_run(run.record, run.history, run.artifacts(), choice, rules), files)


def league(*, files: ReportFiles, options: RunOptions) -> Answer:
    """Show a run's league over time: ratings with intervals, results of pairs, which checkpoints joined."""
    run = options.find_run()
    return _reported(league_report(run.record, run.history), files)


def compare(
    runs: Annotated[
        list[str] | None, typer.Argument(help="Names or folders of runs; the first is the baseline.")
    ] = None,
    run_ids: Annotated[list[str] | None, typer.Option("--run-ids", help="The same; may be repeated.")] = None,
    metrics: Annotated[list[str] | None, typer.Option("--metrics", "-m", help="Metric; may be repeated.")] = None,
    equal: Annotated[
        str, typer.Option(help="Compare at equal steps, seconds, or updates; by default steps, else updates.")
    ] = "",
    plot: Annotated[Path | None, typer.Option(help="Also draw the curves with matplotlib, as .png or .svg.")] = None,
    *,
    files: ReportFiles,
    computed: ComputeOptions,
    where: SourceOptions,
) -> Answer:
    """Compare runs: differences of configuration, metrics at equal compute, seeds grouped, paired differences."""
    options = ComparisonOptions(tuple(metrics or ()), equal, computed.choice())
    names = list(dict.fromkeys([*(runs or []), *(run_ids or [])]))
    report = compare_runs(load_compared(names, where.find(), options), options)
    return _reported(report, files, {plot: rendering.draw_figure(report, plot.suffix)} if plot else {})


def _reported(report: RunReport, outputs: ReportFiles, files: Mapping[Path, str | bytes] = {}) -> Answer:
    """Return a report as an answer; its damage is told in the report itself."""
    texts = ((outputs.markdown, rendering.to_markdown), (outputs.html, rendering.to_html))
    return Answer(
        report.as_data(),
        partial(rendering.show, report),
        code=DAMAGED if report.damage else 0,
        files={**files, **{path: text(report) for path, text in texts if path}},
    )


def analyze_sweep(
    sweep: Annotated[
        list[str],
        typer.Argument(help="a sweep, as in +sweep=NAME or its name=; or runs: names, prefixes, tags, W&B groups"),
    ],
    *,
    where: SourceOptions,
    computed: ComputeOptions,
) -> Answer:
    """Print a sweep's table, its ranking beside the expected one, which criteria hold, what it cost, and power laws."""
    choice = computed.choice()
    if not (where.root / f"{sweep[0]}{SUFFIX}").is_dir():
        try:
            chosen = _chosen(sweep, where)
            return _analysed(analyze_chosen(chosen, " ".join(sweep)), chosen, choice)
        except RunNotFoundError:
            if len(sweep) > 1:
                raise
    folder = find_sweep(sweep[0], where.root)  # or an error that names the nearest
    if "search" in folder.content():
        return _swept(
            sweep_report.search_plain(folder), sweep_report.search_markdown(folder), sweep_report.search_cells(folder)
        )
    return _analysed(analysis_of(folder), RunFolders(where.root), choice)


def _chosen(names: list[str], where: SourceOptions) -> ChosenRuns:
    """Return the runs of all sources; a group stands in W&B files alone, also of runs that have better logs."""
    try:
        return choose_runs(names, where.find())
    except RunNotFoundError:
        if where.source is SourceName.AUTO:
            with suppress(RunNotFoundError):
                return choose_runs(names, replace(where, source=SourceName.OFFLINE).find())
        raise


def register_runs(
    names: Annotated[list[str] | None, typer.Argument(help="runs and sweeps to record; all without any")] = None,
    none: Annotated[bool, typer.Option("--none", help="record no run; write the page again")] = False,
    root: Root = CHECKPOINTS,
) -> int:
    """Record runs in docs/experiments/runs.jsonl and write docs/experiments/README.md from it."""
    counts = register([] if none else names, root, all_runs=not names and not none)
    print(f"{PAGE}: {', '.join(f'{count} {name}' for name, count in counts.items())}")
    return 0


def _analysed(analysis: SweepAnalysis, runs: RunFolders | ChosenRuns, choice: ComputeChoice) -> Answer:
    compute = sweep_report.sweep_compute(analysis, runs, choice)
    return _swept(
        sweep_report.sweep_plain(analysis, compute),
        sweep_report.sweep_markdown(analysis, compute),
        sweep_report.sweep_cells(analysis),
    )


def _swept(data: dict[str, Any], text: str, cells: tuple[Sequence[str], Sequence[Sequence[Any]]]) -> Answer:
    return Answer(
        data, lambda form: print(to_csv(*cells) if form is OutputFormat.CSV else printable_lines(text), end="")
    )
