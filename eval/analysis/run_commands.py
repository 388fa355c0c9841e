"""Commands on runs: list, search, get-run, get-metrics, get-artifacts, get-cache-stats, health, watch and export."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sparring.configs.core.errors import InputError, choose
from sparring.configs.core.files import write_atomically
from sparring.eval.analysis.options import Metrics, OutputOptions, RunOptions, SourceOptions, cache_figures, find_run
from sparring.eval.analysis.output import (
    NOT_FOUND,
    Answer,
    OutputFormat,
    code_of,
    exit_code,
    print_rows,
    print_table,
    record_json,
    to_csv,
    to_json,
    warn,
    when,
)
from sparring.eval.analysis.record import (
    STATISTICS,
    X_AXES,
    AmbiguousRunError,
    History,
    RunNotFoundError,
    RunRecord,
    RunSource,
    UnknownMetricError,
    flatten,
    history_rows,
    statistics,
    unknown_metric,
    wide_rows,
)
from sparring.eval.analysis.reports.rules import apply_rules, load_rules
from sparring.eval.analysis.search import config_test, parse, unknown_conditions, unused_names
from sparring.eval.analysis.sources import trackio_files
from sparring.eval.command import make_folders, write

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="maximum number of runs")]
Tag = Annotated[list[str], typer.Option("--tag", help="runs with this tag; may be repeated")]
CACHE = "cache/"
STILL = ("policy_does_not_move", "policy_equals_reference")
SILENT = 600.0
"""Seconds without a new row after which a running run is reported as silent."""
COUNTERS = ("guard/rollbacks", "guard/restored_updates", "guard/quarantined_matches", "rollout/failed_count")


def list_runs(
    tag: Tag = [],  # noqa: B006, Typer needs a list
    limit: Limit = 100,
    *,
    where: SourceOptions,
) -> Answer:
    """List runs, newest first."""
    sources = where.find()
    return _listed([run for run in all_runs(sources) if set(tag) <= set(run.tags)], limit, sources)


def search(
    expression: Annotated[str, typer.Argument(help="such as: status = completed and config.seed < 3")] = "",
    config: Annotated[
        list[str], typer.Option("--config", help="runs whose option has this value, KEY=VALUE; repeatable")
    ] = [],  # noqa: B006
    tag: Tag = [],  # noqa: B006
    limit: Limit = 100,
    *,
    where: SourceOptions,
) -> Answer:
    """Select runs by configuration, tags and an expression; all conditions must hold."""
    tests = [parse(expression)] if expression else []
    tests += [config_test(text) for text in config]
    if not tests and not tag:
        raise InputError('nothing to search for: pass an expression, --config "KEY=VALUE" or --tag TAG')
    sources = where.find()
    runs = all_runs(sources)
    hints = [expression and unused_names(expression, runs), *unknown_conditions(config, tag, runs)] if runs else []
    matching = [run for run in runs if set(tag) <= set(run.tags) and all(test(run) for test in tests)]
    return _listed(matching, limit, sources, filter(None, hints))


def all_runs(sources: Sequence[RunSource]) -> list[RunRecord]:
    """Return the runs of all sources, newest first."""
    return sorted((run for source in sources for run in source.runs()), key=lambda run: run.updated, reverse=True)


def _listed(matching: list[RunRecord], limit: int, sources: Sequence[RunSource], hints: Iterable[str] = ()) -> Answer:
    runs, total = matching[:limit], len(matching)
    headings = ["run", "source", "status", "created", "updated", "env steps", "tags"]
    rows = [
        [run.id, run.source, run.status, when(run.created), when(run.updated), run.summary.get("env_steps"), tags]
        for run in runs
        for tags in [" ".join(run.tags)]
    ]
    return Answer(
        {"runs": [record_json(run) for run in runs], "count": len(runs), "total": total} | cache_figures(sources),
        partial(print_rows, headings, rows),
        warnings=hints,
        remark=f"{len(runs)} of {total} runs; --limit {total} shows all" if total > len(runs) else "",
        damage=[line for run in runs for line in run.damage],
    )


def get_run(
    include_history: Annotated[bool, typer.Option("--include-history", help="include all metric rows")] = False,
    include_artifacts: Annotated[bool, typer.Option("--include-artifacts", help="include the list of files")] = False,
    *,
    options: RunOptions,
) -> Answer:
    """Show one run: state, configuration, last value of each metric, damage."""
    run = options.find_run()
    record, damage, notes = run.record, run.record.damage, run.record.notes
    content: dict[str, Any] = record_json(record)
    if include_history:
        damage, notes = run.damage, tuple(dict.fromkeys((*notes, *run.history.notes)))
        content |= {"history": history_rows(run.history), "events": run.history.events}
    if include_artifacts:
        content["artifacts"] = run.artifacts()
    facts: list[list[Any]] = [
        ["run", record.id],
        ["source", record.source],
        ["path", record.path],
        ["status", record.status],
    ]
    facts += [["created", when(record.created)], ["updated", when(record.updated)], ["tags", " ".join(record.tags)]]
    facts += [[f"config.{key}", value] for key, value in flatten(record.config).items()]
    facts += [[f"summary.{key}", value] for key, value in flatten(record.summary).items()]
    facts += [["rows of history", len(content["history"])]] if "history" in content else []
    facts += [[f"artifact {entry['name']}", entry["kind"]] for entry in content.get("artifacts", ())]
    return Answer(
        {**content, "damage": damage, **cache_figures(run.sources)},
        partial(print_rows, ["what", "value"], facts),
        warnings=notes,
        damage=damage,
    )


def get_artifacts(*, options: RunOptions) -> Answer:
    """List files of a run: checkpoints, evaluations, replays, logs."""
    run = options.find_run()
    artifacts, keys = run.artifacts(), ("name", "kind", "bytes", "sha256")
    return Answer(
        {"run_id": run.id, "artifacts": artifacts, **cache_figures(run.sources)},
        partial(print_rows, keys, [[entry[key] for key in keys] for entry in artifacts]),
    )


def get_metrics(
    metrics: Metrics = [],  # noqa: B006, Typer needs a list
    x_axis: Annotated[str, typer.Option("--x-axis", help="_step, _timestamp or env_steps")] = "_step",
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="last values of each metric; 0: all")] = 0,
    *,
    options: RunOptions,
) -> Answer:
    """Show metrics of a run (default: all): values over an axis as JSON or CSV, statistics as a table."""
    axis = choose("--x-axis", x_axis.replace(" ", "_"), X_AXES)
    run = options.find_run()
    history = run.history
    names = [name for name in dict.fromkeys(metrics) if name in history.columns] if metrics else sorted(history.columns)
    missing = {name: unknown_metric(name, history.columns) for name in metrics if name not in history.columns}
    if missing and not names:
        raise UnknownMetricError(next(iter(missing.values())))
    if axis == "_timestamp" and len(history.step) and not (history.timestamp > 0).any():
        raise InputError(f"--x-axis {axis}: {run.id} has no times; use _step or env_steps")
    series = {name: history.series(name, axis) for name in names}
    figures = {name: statistics(x, y) for name, (x, y) in series.items() if len(y)}
    content = {
        name: {"x": x[-limit:], "y": y[-limit:], "statistics": figures.get(name)} for name, (x, y) in series.items()
    }

    def show(form: OutputFormat) -> None:
        if form is OutputFormat.CSV:
            print_rows([axis, *names], wide_rows(history, names, axis)[-limit:], form)
        else:
            rows = [[name, *(figure[key] for key in STATISTICS)] for name, figure in figures.items()]
            print_rows(["metric", *STATISTICS], rows, form)

    return Answer(
        {"run_id": run.id, "x_axis": axis, "metrics": content, "missing": missing, **cache_figures(run.sources)},
        show,
        warnings=(*missing.values(), *history.notes),
        damage=run.damage,
    )


def get_cache_stats(*, options: RunOptions) -> Answer:
    """Show statistics of the prefix cache of a language model's run."""
    run = options.find_run()
    content = {"run_id": run.id, **cache_statistics(run.history)}
    return Answer(
        content | cache_figures(run.sources),
        partial(print_rows, ["figure", "value"], list(content.items())),
        warnings=run.history.notes,
        damage=run.damage,
    )


def cache_statistics(history: History) -> dict[str, Any]:
    """Return statistics of a run's prefix cache; tokens saved are the sum of hit rate times prompt tokens."""
    if not any(key.startswith(CACHE) for key in history.columns):
        return {
            "enabled": False,
            "hint": "the run has no cache/ metrics: it did not use a prefix cache or a language model",
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


def export(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="file: .json for all, .csv for the history, .db for trackio")
    ],
    include_history: Annotated[bool, typer.Option("--include-history/--no-history", help="include all rows")] = True,
    *,
    options: RunOptions,
) -> int:
    """Write a run to one file: configuration, summary, history, events and list of files."""
    if output.suffix not in (".json", ".csv", trackio_files.SUFFIX):
        raise InputError(f"--output {output}: must end with .json, .csv or .db")
    make_folders([], files=[output])
    run = options.find_run()
    history = run.history
    if output.suffix == trackio_files.SUFFIX:
        trackio_files.append_run(output, run.record, history)
        print(f"Wrote {output}", file=sys.stderr)
        return exit_code(run.damage, history.notes)
    if output.suffix == ".csv":
        keys = sorted(history.columns)
        columns = [axis.tolist() for axis in (*history.axes.values(), *(history.columns[key] for key in keys))]
        text = to_csv([*X_AXES, *keys], list(zip(*columns, strict=True)))
    else:
        content = {**record_json(run.record), "artifacts": run.artifacts(), "events": history.events}
        text = to_json(content | ({"history": history_rows(history)} if include_history else {})) + "\n"
    write(output, partial(write_atomically, data=text))
    print(f"Wrote {output}", file=sys.stderr)
    return exit_code(run.damage, history.notes)


def health(
    runs: Annotated[list[str] | None, typer.Argument(help="runs (default: all)")] = None,
    run_id: Annotated[list[str] | None, typer.Option("--run-id", "-r", help="the same; may be repeated")] = None,
    *,
    where: SourceOptions,
) -> Answer:
    """Check whether runs make progress and their logs are readable: ok, warning or bad, with reasons."""
    sources, checks, missing = where.find(), list[dict[str, Any]](), list[InputError]()
    names = list(dict.fromkeys([*(runs or []), *(run_id or [])]))
    for name in names:
        try:
            origin, run = find_run(name, sources)
        except (RunNotFoundError, AmbiguousRunError) as error:
            missing.append(error)
        else:
            checks.append(check(run, origin.history(run.id)))
    if missing and not checks:
        raise missing[0]
    if not names:
        checks = [check(run, None) for run in all_runs(sources)]
    headings = ["run", "source", "status", "updated", "health", "reasons"]
    keys = ("run_id", "source", "status", "updated", "health", "reasons")
    cells = [entry | {"updated": when(entry["updated"]), "reasons": "; ".join(entry["reasons"])} for entry in checks]
    return Answer(
        {"runs": checks, **cache_figures(sources)},
        partial(print_rows, headings, [[cell[key] for key in keys] for cell in cells]),
        warnings=map(str, missing),
        damage=[line for entry in checks for line in entry["damage"]],
        code=code_of(missing[0]) if missing else 0,
    )


def check(run: RunRecord, history: History | None) -> dict[str, Any]:
    """Return the health of a run as plain data; alerts are counted if its history is given."""
    bad, warnings = [], []
    damage = list(dict.fromkeys((*run.damage, *(history.damage if history else ()))))
    notes = dict.fromkeys((*run.notes, *(history.notes if history else ())))
    if run.status in ("failed", "killed"):
        bad.append(f"the run was {run.status}" if run.status == "killed" else "the run failed")
    if run.status == "empty":
        warnings.append("no metrics yet")
    age = time.time() - run.updated
    if run.status == "running" and age > SILENT:
        warnings.append(f"running, but no output for {age / 60:.0f} minutes")
    if damage:
        bad.append(f"{len(damage)} places cannot be read")
    counts = {key: run.summary.get(key) for key in COUNTERS}
    warnings += [f"{key} is {count:g}" for key, count in counts.items() if isinstance(count, int | float) and count]
    warnings += notes
    alerts = [event for event in history.events if event.get("kind") == "alert"] if history else []
    if alerts:
        warnings.append(f"{len(alerts)} alerts, the last: {alerts[-1]['event']}")
    if history:
        found = apply_rules([rule for rule in load_rules() if rule.name in STILL], history, run.config)
        warnings += [f"{finding.rule}: {finding.text}" for finding in found]
    state = "bad" if bad else "warning" if warnings else "ok"
    facts = {"run_id": run.id, "source": run.source, "status": run.status, "updated": run.updated}
    return facts | {"health": state, "reasons": bad + warnings, "damage": damage}


def watch(
    metrics: Metrics = [],  # noqa: B006, Typer needs a list
    interval: Annotated[float, typer.Option("--interval", min=0.1, help="seconds between updates of the table")] = 5.0,
    looks: Annotated[int, typer.Option("--looks", min=0, help="number of updates; 0: until the run ends")] = 0,
    *,
    options: RunOptions,
    output: OutputOptions,
) -> int:
    """Follow a run until it ends: a table of the last values, or a line of JSON or CSV per new row."""
    form, printed, count, warned = output.form, 0, 0, set[str]()
    while True:
        run = options.find_run()
        history, status = run.history, run.record.status
        missing = [name for name in metrics if name not in history.columns] if len(history.step) else []
        for name in set(missing) - warned:
            warn(unknown_metric(name, history.columns))
        warned |= set(missing)
        if metrics:
            history = replace(history, columns={name: history.columns[name] for name in metrics if name not in missing})
        if len(history.step) < printed:  # rolled back to an earlier state
            printed = len(history.step)
        _show(run.record, history, printed, list(metrics), form, first=count == 0)
        printed, count = len(history.step), count + 1
        sys.stdout.flush()
        if status != "running" or count == looks:
            if missing and len(missing) == len(set(metrics)):
                return NOT_FOUND
            return exit_code(() if status == "running" else run.damage, history.notes)
        time.sleep(interval)


def _show(run: RunRecord, history: History, printed: int, names: list[str], form: OutputFormat, *, first: bool) -> None:
    """Print the rows after the first `printed`; as a table only the last values."""
    rows = history_rows(history)[printed:]
    if form is OutputFormat.JSON:
        for row in rows:
            print(to_json({"run_id": run.id, "status": run.status, **row}, indent=None))
    elif form is OutputFormat.CSV:
        keys = ["_step", "env_steps", *(names or sorted(history.columns))]
        text = to_csv(keys, [[row.get(key) for key in keys] for row in rows])
        print(text if first else text.partition("\n")[2], end="")
    elif rows or first:
        last = rows[-1] if rows else {}
        title = f"{run.id}: {run.status}, {when(run.updated)}"
        last |= {"_timestamp": when(last["_timestamp"])} if "_timestamp" in last else {}
        print_table(["metric", "last"], [[key, value] for key, value in last.items()], title)
