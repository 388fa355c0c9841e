"""Commands that list runs and read them: list, search, get-run, get-artifacts, get-metrics, get-cache-stats, export."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.files import write_atomically
from sparring.eval.analysis.options import (
    Metrics,
    OutputOptions,
    RunChoice,
    SourceOptions,
    cache_figures,
    find_run,
    with_option_groups,
)
from sparring.eval.analysis.output import (
    OutputFormat,
    exit_code,
    print_json,
    print_rows,
    record_json,
    to_csv,
    to_json,
    warn,
    when,
)
from sparring.eval.analysis.record import (
    STATISTICS,
    X_AXES,
    History,
    RunRecord,
    RunSource,
    UnknownMetricError,
    history_rows,
    statistics,
    unknown_metric,
    wide_rows,
)
from sparring.eval.analysis.search import config_test, flatten, parse, unknown_conditions, unused_names
from sparring.eval.command import make_folders, write

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="runs shown at most")]
Tag = Annotated[list[str], typer.Option("--tag", help="runs with this tag; may be repeated")]
Config = Annotated[list[str], typer.Option("--config", help="runs whose option has this value, KEY=VALUE; repeatable")]


def add_commands(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("list")(with_option_groups(list_runs))
    app.command("search")(with_option_groups(search))
    app.command("get-run")(with_option_groups(get_run))
    app.command("get-artifacts")(with_option_groups(get_artifacts))
    app.command("get-metrics")(with_option_groups(get_metrics))
    app.command("get-cache-stats")(with_option_groups(get_cache_stats))
    app.command("export")(with_option_groups(export))


def list_runs(
    tag: Tag = [],  # noqa: B006, Typer needs a list
    limit: Limit = 100,
    *,
    where: SourceOptions,
    output: OutputOptions,
) -> int:
    """List runs, newest first."""
    sources = where.find()
    runs = [run for run in all_runs(sources) if set(tag) <= set(run.tags)]
    return _print_runs(runs[:limit], len(runs), sources, output.form)


def search(
    expression: Annotated[str, typer.Argument(help="such as: status = completed and config.seed < 3")] = "",
    config: Config = [],  # noqa: B006
    tag: Tag = [],  # noqa: B006
    limit: Limit = 100,
    *,
    where: SourceOptions,
    output: OutputOptions,
) -> int:
    """Select runs by configuration, tags and an expression; all conditions must hold."""
    tests = [parse(expression)] if expression else []
    tests += [config_test(text) for text in config]
    if not tests and not tag:
        raise InputError('nothing to search for: give an expression, --config "KEY=VALUE" or --tag TAG')
    sources = where.find()
    runs = all_runs(sources)
    hints = [unused_names(expression, runs), *unknown_conditions(config, tag, runs)] if runs else []
    for hint in filter(None, hints):
        warn(hint)
    matching = [run for run in runs if set(tag) <= set(run.tags) and all(test(run) for test in tests)]
    return _print_runs(matching[:limit], len(matching), sources, output.form)


def get_run(
    include_history: Annotated[bool, typer.Option("--include-history", help="with all rows of metrics")] = False,
    include_artifacts: Annotated[bool, typer.Option("--include-artifacts", help="with the list of files")] = False,
    *,
    chosen: RunChoice,
    where: SourceOptions,
    output: OutputOptions,
) -> int:
    """Show one run: state, configuration, last value of each metric, damage."""
    form = output.form
    sources = where.find()
    origin, run = find_run(chosen.name, sources)
    content: dict[str, Any] = record_json(run)
    damage, notes = list(run.damage), list(run.notes)
    if include_history:
        history = origin.history(run.id)
        damage += [line for line in history.damage if line not in damage]
        notes += [line for line in history.notes if line not in notes]
        content |= {"history": history_rows(history), "events": history.events}
    if include_artifacts:
        content["artifacts"] = origin.artifacts(run.id)
    if form is OutputFormat.JSON:
        print_json({**content, "damage": damage, **cache_figures(sources)})
    else:
        print_rows(["what", "value"], list(_facts(run, content)), form)
    return exit_code(damage, notes)


def get_artifacts(
    *,
    chosen: RunChoice,
    where: SourceOptions,
    output: OutputOptions,
) -> int:
    """List files of a run: checkpoints, evaluations, replays, logs."""
    form = output.form
    sources = where.find()
    origin, run = find_run(chosen.name, sources)
    artifacts = origin.artifacts(run.id)
    if form is OutputFormat.JSON:
        print_json({"run_id": run.id, "artifacts": artifacts, **cache_figures(sources)})
    else:
        keys = ("name", "kind", "bytes", "sha256")
        print_rows(keys, [[entry[key] for key in keys] for entry in artifacts], form)
    return 0


def all_runs(sources: Sequence[RunSource]) -> list[RunRecord]:
    """Return the runs of all sources, newest first."""
    return sorted((run for source in sources for run in source.runs()), key=lambda run: run.updated, reverse=True)


def _print_runs(runs: list[RunRecord], total: int, sources: Sequence[RunSource], form: OutputFormat) -> int:
    if form is OutputFormat.JSON:
        content = {"runs": [record_json(run) for run in runs], "count": len(runs), "total": total}
        print_json(content | cache_figures(sources))
    else:
        headings = ["run", "source", "status", "created", "updated", "env steps", "tags"]
        rows = [_row(run) for run in runs]
        print_rows(headings, rows, form)
    if total > len(runs):
        print(f"{len(runs)} of {total} runs; --limit {total} shows all", file=sys.stderr)
    return exit_code([line for run in runs for line in run.damage])


def _row(run: RunRecord) -> list[Any]:
    steps = run.summary.get("env_steps")
    return [run.id, run.source, run.status, when(run.created), when(run.updated), steps, " ".join(run.tags)]


def _facts(run: RunRecord, content: dict[str, Any]) -> list[list[Any]]:
    facts: list[list[Any]] = [["run", run.id], ["source", run.source], ["path", run.path], ["status", run.status]]
    facts += [["created", when(run.created)], ["updated", when(run.updated)], ["tags", " ".join(run.tags)]]
    facts += [[f"config.{key}", value] for key, value in flatten(run.config).items()]
    facts += [[f"summary.{key}", value] for key, value in flatten(run.summary).items()]
    facts += [["rows of history", len(content["history"])]] if "history" in content else []
    facts += [[f"artifact {entry['name']}", entry["kind"]] for entry in content.get("artifacts", ())]
    return facts


CACHE = "cache/"


def get_metrics(
    metrics: Metrics = [],  # noqa: B006, Typer needs a list
    x_axis: Annotated[str, typer.Option("--x-axis", help="_step, _timestamp or env_steps")] = "_step",
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="last values of each metric; 0: all")] = 0,
    *,
    chosen: RunChoice,
    where: SourceOptions,
    output: OutputOptions,
) -> int:
    """Show metrics of a run, without -m all: values over an axis as JSON or CSV, their statistics as a table."""
    form, axis = output.form, choose("--x-axis", x_axis.replace(" ", "_"), X_AXES)
    sources = where.find()
    origin, run = find_run(chosen.name, sources)
    history = origin.history(run.id)
    names = [name for name in dict.fromkeys(metrics) if name in history.columns] if metrics else sorted(history.columns)
    missing = {name: unknown_metric(name, history.columns) for name in metrics if name not in history.columns}
    if missing and not names:
        raise UnknownMetricError(next(iter(missing.values())))
    for text in missing.values():
        warn(text)
    if axis == "_timestamp" and len(history.step) and not (history.timestamp > 0).any():
        raise InputError(f"--x-axis {axis}: {run.id} has no times; use _step or env_steps")
    _print_series(run.id, history, names, axis, limit, form, {"missing": missing, **cache_figures(sources)})
    return exit_code(dict.fromkeys((*run.damage, *history.damage)), history.notes)


def get_cache_stats(
    *,
    chosen: RunChoice,
    where: SourceOptions,
    output: OutputOptions,
) -> int:
    """Show how well the prefix cache of a language model's run works."""
    form = output.form
    sources = where.find()
    origin, run = find_run(chosen.name, sources)
    history = origin.history(run.id)
    content = {"run_id": run.id, **cache_statistics(history)}
    if form is OutputFormat.JSON:
        print_json(content | cache_figures(sources))
    else:
        print_rows(["figure", "value"], [[key, value] for key, value in content.items()], form)
    return exit_code(dict.fromkeys((*run.damage, *history.damage)), history.notes)


def export(
    output: Annotated[Path, typer.Option("--output", "-o", help="file: .json for everything, .csv for the history")],
    include_history: Annotated[bool, typer.Option("--include-history/--no-history", help="with all rows")] = True,
    *,
    chosen: RunChoice,
    where: SourceOptions,
) -> int:
    """Write a run to one file: configuration, summary, history, events and list of files."""
    if output.suffix not in (".json", ".csv"):
        raise InputError(f"--output {output}: must end with .json or .csv")
    make_folders([], files=[output])
    origin, run = find_run(chosen.name, where.find())
    history = origin.history(run.id)
    if output.suffix == ".csv":
        keys = sorted(history.columns)
        axes = [history.step.tolist(), history.timestamp.tolist(), history.env_steps.tolist()]
        columns = [*axes, *(history.columns[key].tolist() for key in keys)]
        text = to_csv([*X_AXES, *keys], list(zip(*columns, strict=True)))
    else:
        content = {**record_json(run), "artifacts": origin.artifacts(run.id), "events": history.events}
        text = to_json(content | ({"history": history_rows(history)} if include_history else {})) + "\n"
    write(output, partial(write_atomically, data=text))
    print(f"Wrote {output}", file=sys.stderr)
    return exit_code(dict.fromkeys((*run.damage, *history.damage)), history.notes)


def cache_statistics(history: History) -> dict[str, Any]:
    """Return the figures of a run's prefix cache; tokens saved are the sum of hit rate times prompt tokens."""
    if not any(key.startswith(CACHE) for key in history.columns):
        return {
            "enabled": False,
            "hint": "the run has no cache/ metrics: it used no prefix cache, or no language model",
        }
    figures: dict[str, Any] = {"enabled": True}
    if f"{CACHE}hit_rate" in history.columns:
        rate = statistics(*history.series(f"{CACHE}hit_rate"))
        figures |= {f"hit_rate_{key}": rate[key] for key in ("first", "last", "mean", "min", "max")}
    for key in ("total_queries", "total_hits", "prompt_tokens", "batches"):
        if CACHE + key in history.columns:
            figures[key] = float(history.series(CACHE + key)[1].sum())
    if figures.get("total_queries"):
        figures["hit_rate_overall"] = figures.get("total_hits", 0.0) / figures["total_queries"]
    if {f"{CACHE}hit_rate", f"{CACHE}prompt_tokens"} <= set(history.columns):
        saved = history.columns[f"{CACHE}hit_rate"] * history.columns[f"{CACHE}prompt_tokens"]
        figures["tokens_saved"] = float(saved[saved == saved].sum())
    return figures


def _print_series(
    run: str, history: History, names: list[str], axis: str, limit: int, form: OutputFormat, extra: dict[str, Any]
) -> None:
    series = {name: history.series(name, axis) for name in names}
    figures = {name: statistics(x, y) for name, (x, y) in series.items() if len(y)}
    if form is OutputFormat.JSON:
        content = {
            name: {"x": x[-limit:], "y": y[-limit:], "statistics": figures.get(name)} for name, (x, y) in series.items()
        }
        print_json({"run_id": run, "x_axis": axis, "metrics": content, **extra})
    elif form is OutputFormat.CSV:
        print_rows([axis, *names], wide_rows(history, names, axis)[-limit:], form)
    else:
        rows = [[name, *(figure[key] for key in STATISTICS)] for name, figure in figures.items()]
        print_rows(["metric", *STATISTICS], rows, form)
