"""Commands that list and describe runs: list, search, get-run, get-artifacts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from sparring.configs.core.errors import InputError
from sparring.eval.experiments.find import find_run
from sparring.eval.experiments.options import OutputOptions, RunChoice, SourceOptions, cache_figures, with_option_groups
from sparring.eval.experiments.output import OutputFormat, exit_code, print_json, print_rows, record_json, warn, when
from sparring.eval.experiments.record import RunRecord, RunSource
from sparring.eval.experiments.rows import history_rows
from sparring.eval.experiments.search import config_test, flatten, parse, unknown_conditions, unused_names

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="runs shown at most")]
Tag = Annotated[list[str], typer.Option("--tag", help="runs with this tag; may be repeated")]
Config = Annotated[list[str], typer.Option("--config", help="runs whose option has this value, KEY=VALUE; repeatable")]


def add_commands(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command("list")(with_option_groups(list_runs))
    app.command("search")(with_option_groups(search))
    app.command("get-run")(with_option_groups(get_run))
    app.command("get-artifacts")(with_option_groups(get_artifacts))


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
    found = [run for run in runs if set(tag) <= set(run.tags) and all(test(run) for test in tests)]
    return _print_runs(found[:limit], len(found), sources, output.form)


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
    found = origin.artifacts(run.id)
    if form is OutputFormat.JSON:
        print_json({"run_id": run.id, "artifacts": found, **cache_figures(sources)})
    else:
        keys = ("name", "kind", "bytes", "sha256")
        print_rows(keys, [[entry[key] for key in keys] for entry in found], form)
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
