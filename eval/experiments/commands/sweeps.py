"""Commands on sweeps and on the register of experiments."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from sparring.agents.sweeps.sweep_folder import SUFFIX
from sparring.configs.core.paths import CHECKPOINTS
from sparring.eval.experiments.options import (
    ComputeOptions,
    OutputOptions,
    Project,
    Source,
    SourceName,
    find_sources,
    with_option_groups,
)
from sparring.eval.experiments.output import OutputFormat, to_csv, to_json
from sparring.eval.experiments.record import RunNotFoundError
from sparring.eval.experiments.register import PAGE, register
from sparring.eval.experiments.sources.run_folders import RunFolders
from sparring.eval.experiments.sweep_analysis import ChosenRuns, SweepAnalysis, analyze_chosen, choose_runs, find_sweep
from sparring.eval.experiments.sweep_analysis import analyze_sweep as analysis_of
from sparring.eval.experiments.sweep_compute import ComputeChoice, sweep_compute
from sparring.eval.experiments.sweep_report import (
    search_cells,
    search_markdown,
    search_plain,
    sweep_cells,
    sweep_markdown,
    sweep_plain,
)

SweepRoot = Annotated[Path, typer.Option("--dir", "--checkpoint-dir", help="folder of the runs")]


def add_commands(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("analyze-sweep")(with_option_groups(analyze_sweep))
    app.command("register")(register_runs)


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
