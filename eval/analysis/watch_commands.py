"""Commands about runs that train: health and watch."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import Annotated, Any

import typer

from sparring.configs.core.errors import InputError
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
    NOT_FOUND,
    OutputFormat,
    code_of,
    exit_code,
    print_json,
    print_rows,
    print_table,
    to_csv,
    to_json,
    warn,
    when,
)
from sparring.eval.analysis.record import (
    AmbiguousRunError,
    History,
    RunNotFoundError,
    RunRecord,
    history_rows,
    unknown_metric,
)
from sparring.eval.analysis.run_commands import all_runs

SILENT = 600.0
"""Seconds without a new row after which a running run is called silent."""
COUNTERS = ("guard/rollbacks", "guard/restored_updates", "guard/quarantined_matches", "rollout/failed_count")


def add_commands(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("health")(with_option_groups(health))
    app.command("watch")(with_option_groups(watch))


def health(
    runs: Annotated[list[str] | None, typer.Argument(help="runs, by default all of them")] = None,
    run_id: Annotated[list[str] | None, typer.Option("--run-id", "-r", help="the same; may be repeated")] = None,
    *,
    where: SourceOptions,
    output: OutputOptions,
) -> int:
    """Show whether runs train and whether their logs can be read: ok, warning or bad, with the reasons."""
    form, sources = output.form, where.find()
    names = list(dict.fromkeys([*(runs or []), *(run_id or [])]))
    checks, missing = [], list[InputError]()
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
    if form is OutputFormat.JSON:
        print_json({"runs": checks, **cache_figures(sources)})
    else:
        headings = ["run", "source", "status", "updated", "health", "reasons"]
        rows = [[*(one[key] for key in ("run_id", "source", "status")), when(one["updated"])] for one in checks]
        rest = [[one["health"], "; ".join(one["reasons"])] for one in checks]
        print_rows(headings, [row + end for row, end in zip(rows, rest, strict=True)], form)
    for one in missing:
        warn(str(one))
    code = exit_code([line for one in checks for line in one["damage"]])
    return code_of(missing[0]) if missing else code


def check(run: RunRecord, history: History | None) -> dict[str, Any]:
    """Return the health of a run as plain data; alerts are counted where its history is given."""
    bad, warnings = [], []
    damage = list(dict.fromkeys((*run.damage, *(history.damage if history else ()))))
    notes = dict.fromkeys((*run.notes, *(history.notes if history else ())))
    if run.status in ("failed", "killed"):
        bad.append(f"the run was {run.status}" if run.status == "killed" else "the run failed")
    if run.status == "empty":
        warnings.append("no row of metrics yet")
    age = time.time() - run.updated
    if run.status == "running" and age > SILENT:
        warnings.append(f"running, but nothing was written for {age / 60:.0f} minutes")
    if damage:
        bad.append(f"{len(damage)} places cannot be read")
    counts = {key: run.summary.get(key) for key in COUNTERS}
    warnings += [f"{key} is {count:g}" for key, count in counts.items() if isinstance(count, int | float) and count]
    warnings += notes
    alerts = [event for event in history.events if event.get("kind") == "alert"] if history else []
    if alerts:
        warnings.append(f"{len(alerts)} alerts, the last: {alerts[-1]['event']}")
    state = "bad" if bad else "warning" if warnings else "ok"
    facts = {"run_id": run.id, "source": run.source, "status": run.status, "updated": run.updated}
    return facts | {"health": state, "reasons": bad + warnings, "damage": damage}


def watch(
    metrics: Metrics = [],  # noqa: B006, Typer needs a list
    interval: Annotated[float, typer.Option("--interval", min=0.1, help="seconds between two looks")] = 5.0,
    looks: Annotated[
        int, typer.Option("--looks", min=0, help="looks until the command ends; 0: until the run ends")
    ] = 0,
    *,
    chosen: RunChoice,
    where: SourceOptions,
    output: OutputOptions,
) -> int:
    """Follow a run until it ends: a table of the last values, or a line of JSON or CSV per new row."""
    form, shown, count, warned = output.form, 0, 0, set[str]()
    while True:
        origin, run = find_run(chosen.name, where.find())
        history = origin.history(run.id)
        missing = [name for name in metrics if name not in history.columns] if len(history.step) else []
        for name in set(missing) - warned:
            warn(unknown_metric(name, history.columns))
        warned |= set(missing)
        if metrics:
            history = replace(history, columns={name: history.columns[name] for name in metrics if name not in missing})
        if len(history.step) < shown:  # rolled back to an earlier state
            shown = len(history.step)
        _show(run, history, shown, list(metrics), form, first=count == 0)
        shown, count = len(history.step), count + 1
        sys.stdout.flush()
        if run.status != "running" or count == looks:
            if missing and len(missing) == len(set(metrics)):
                return NOT_FOUND
            damage = dict.fromkeys((*run.damage, *history.damage)) if run.status != "running" else ()
            return exit_code(damage, history.notes)
        time.sleep(interval)


def _show(run: RunRecord, history: History, shown: int, names: list[str], form: OutputFormat, *, first: bool) -> None:
    """Print the rows after the first `shown`; as a table only the last values."""
    rows = history_rows(history)[shown:]
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
