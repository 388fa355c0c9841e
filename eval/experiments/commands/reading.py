"""Commands that read metrics: get-metrics, get-cache-stats, export."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.files import write_atomically
from sparring.eval.command import make_folders, write
from sparring.eval.experiments.find import find_run
from sparring.eval.experiments.options import (
    Metrics,
    OutputOptions,
    RunChoice,
    SourceOptions,
    cache_figures,
    with_option_groups,
)
from sparring.eval.experiments.output import (
    OutputFormat,
    exit_code,
    print_json,
    print_rows,
    record_json,
    to_csv,
    to_json,
    warn,
)
from sparring.eval.experiments.record import X_AXES, History, UnknownMetricError, unknown_metric
from sparring.eval.experiments.rows import STATISTICS, history_rows, statistics, wide_rows

CACHE = "cache/"


def add_commands(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("get-metrics")(with_option_groups(get_metrics))
    app.command("get-cache-stats")(with_option_groups(get_cache_stats))
    app.command("export")(with_option_groups(export))


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
