"""Recorded runs for a language model: an MCP server with the queries of `eval/runs.py`, started by `runs mcp`.

All tools are read-only. An answer is one JSON object of limited size: entries per list or object, characters per text,
and total bytes are bounded; `shortened` lists what was omitted. An error is one line, marked as a tool error. The
package mcp is imported when the server is built.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from sparring.configs.core.errors import InputError, one_line
from sparring.eval.analysis import report_commands, run_commands
from sparring.eval.analysis.options import ComputeOptions, ReportFiles, RunOptions, SourceOptions
from sparring.eval.analysis.output import Answer, to_json, versioned
from sparring.eval.analysis.record import RunSource
from sparring.eval.analysis.sources.reading import is_run_folder
from sparring.eval.analysis.sources.run_folders import RunFolders
from sparring.eval.analysis.sources.tensorboard_files import holds_events

MOST_ENTRIES, LONGEST_TEXT = 500, 2000
"""Most entries of one list or object, and most characters of one text, in an answer."""
MOST_BYTES = 100_000
LEAST_ENTRIES = 5
"""An answer that is still too long with this many entries per list is rejected."""
INSTRUCTIONS = """Recorded training runs: begin with list_runs, then analyze a run or compare several. Metrics are
named group/name, such as rollout/reward. Answers are JSON and bounded; ask for fewer metrics
or points if one is shortened."""


class _Served:
    """Sources in the served folder, without runs that a link reaches elsewhere."""

    def find(self) -> list[RunSource]:
        sources: list[RunSource] = super().find()  # type: ignore[misc]
        return [
            RunFolders(source.root, links=False) if isinstance(source, RunFolders) else source for source in sources
        ]


@dataclass(frozen=True)
class ServedOptions(_Served, SourceOptions):
    """Where a server looks for runs."""


@dataclass(frozen=True)
class ServedRun(_Served, RunOptions):
    """The run of a query to a server."""


def serve(
    most_bytes: Annotated[int, typer.Option("--bytes", min=2000, help="largest answer in bytes")] = MOST_BYTES,
    *,
    where: SourceOptions,
) -> int:
    """Serve queries about runs to a language model: a read-only MCP server on standard input and output."""
    where.find()  # reject a wrong folder before a client waits
    build_server(where, most_bytes=most_bytes).run("stdio")
    return 0


def build_server(where: SourceOptions, *, most_bytes: int = MOST_BYTES) -> Any:
    """Return the `mcp.server.MCPServer` whose tools read the sources of `where`.

    Raises `InputError` if the package mcp is missing or older than version 2.
    """
    module = mcp_module("mcp.server.mcpserver")
    hints = mcp_module("mcp_types").ToolAnnotations(readOnlyHint=True, openWorldHint=False)
    server = module.MCPServer(
        "sparring-runs", instructions=INSTRUCTIONS, version=version("sparring"), log_level="WARNING"
    )
    where = ServedOptions(**vars(where))
    error = importlib.import_module("mcp.server.mcpserver.exceptions").ToolError
    for tool in run_tools(where):
        server.tool(annotations=hints, structured_output=False)(_answering(tool, error, most_bytes))
    return server


def mcp_module(name: str) -> Any:
    """Import a module of the package mcp, version 2. Raises `InputError` if it is missing or older."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"mcp: {name} is needed, of mcp 2 or later ({error}): `sparring install mcp`") from error


def run_tools(where: SourceOptions) -> list[Callable[..., Answer]]:
    """Return the tools; a client sees their names, parameters and docstrings."""

    def list_runs(expression: str = "", limit: int = 50) -> Answer:
        """List runs, newest first. `expression` selects, such as status = completed and config.seed < 3."""
        limit = _between("limit", limit, 1, MOST_ENTRIES)
        if expression:
            return run_commands.search(expression, limit=limit, where=where)
        return run_commands.list_runs(limit=limit, where=where)

    def get_run(run: str) -> Answer:
        """Show one run: status, configuration, last value of each metric, files, unreadable parts."""
        return run_commands.get_run(include_artifacts=True, options=_one(run, where))

    def get_metrics(run: str, metrics: list[str], x_axis: str = "_step", points: int = 50) -> Answer:
        """Show values of metrics over x_axis (_step, _timestamp, env_steps), thinned to `points`, with statistics."""
        points = _between("points", points, 2, MOST_ENTRIES)
        if not metrics:
            raise InputError(
                "metrics=[]: name at least one, such as rollout/reward; get_run lists the metrics of a run"
            )
        answer = run_commands.get_metrics(metrics, x_axis, options=_one(run, where))
        thinned = {key: _thinned(series, points) for key, series in answer.data["metrics"].items()}
        return replace(answer, data={**answer.data, "metrics": thinned})

    def analyze(run: str) -> Answer:
        """Report on one run: findings with the next thing to try, training, curriculum, performance, league."""
        return report_commands.analyze(files=ReportFiles(), computed=ComputeOptions(), options=_one(run, where))

    def compare(runs: list[str], metrics: list[str] = [], equal: str = "") -> Answer:  # noqa: B006, its JSON schema
        """Compare runs with the first, the baseline, at equal steps, seconds or updates; seeds are grouped."""
        names = [_inside(run, where) for run in runs]
        files, computed = ReportFiles(), ComputeOptions()
        return report_commands.compare(names, metrics=metrics, equal=equal, files=files, computed=computed, where=where)

    return [list_runs, get_run, get_metrics, analyze, compare]


def _answering(tool: Callable[..., Answer], error_type: type[Exception], most_bytes: int) -> Callable[..., str]:
    """Return the tool as a function that returns bounded JSON; bad input raises `error_type` with one line."""

    @wraps(tool)
    def answer(**arguments: Any) -> str:
        try:
            with np.errstate(all="ignore"):  # as on the command line: a run's values may overflow float64
                return bounded_json(_content(tool(**arguments)), most_bytes=most_bytes)
        except InputError as error:
            raise error_type(one_line(str(error))) from error

    # The package reads the signature; the function returns JSON text.
    answer.__annotations__ = {**tool.__annotations__, "return": "str"}
    return answer


def _content(answer: Answer) -> dict[str, Any]:
    """Return the object of an answer, with what the command line prints on stderr under warnings and damage."""
    warnings = [one_line(line) for line in (*answer.warnings, answer.remark) if line]
    extra = {"warnings": warnings, "damage": [one_line(line) for line in answer.damage]}
    return {**answer.data, **{key: lines for key, lines in extra.items() if lines}}


def _one(run: str, where: SourceOptions) -> RunOptions:
    return ServedRun(**vars(where), run=_inside(run, where))


def _inside(run: str, where: SourceOptions) -> str:
    """Return a run's name; a path of a run, which the command line reads too, must be in the served folder."""
    path = Path(run)
    if (is_run_folder(path) or holds_events(path)) and not path.resolve().is_relative_to(where.root.resolve()):
        raise InputError(f"run={run!r}: lies outside {where.root}; name a run of list_runs")
    return run


def _between(name: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise InputError(f"{name}={value}: must be between {low} and {high}")
    return value


def _thinned(series: Mapping[str, Any], points: int) -> dict[str, Any]:
    """Return a series with at most `points` of its values, evenly spaced, the first and the last among them."""
    x, y = np.asarray(series["x"]), np.asarray(series["y"])
    if not len(x):
        return dict(series)
    chosen = np.unique(np.linspace(0, len(x) - 1, min(points, len(x))).round().astype(int))
    return {**series, "x": x[chosen], "y": y[chosen], "values": len(x)}


def bounded_json(content: Mapping[str, Any], *, entries: int = MOST_ENTRIES, most_bytes: int = MOST_BYTES) -> str:
    """Return an object as JSON of at most `most_bytes` bytes, its lists and objects cut until it fits.

    `shortened` names what was cut. Raises `InputError` if lists of `LEAST_ENTRIES` are still too long.
    """
    data = versioned(content)
    while True:
        cuts: list[str] = []
        short = {key: _shortened(value, key, entries, cuts) for key, value in data.items()}
        text = to_json(short | ({"shortened": cuts[:LEAST_ENTRIES]} if cuts else {}), indent=None)
        size = len(text.encode())
        if size <= most_bytes:
            return text
        if entries <= LEAST_ENTRIES:
            raise InputError(f"the answer has {size} bytes, more than {most_bytes}: ask for fewer runs or metrics")
        entries = max(entries // 2, LEAST_ENTRIES)


def _shortened(value: Any, name: str, entries: int, cuts: list[str]) -> Any:
    """Return plain data with at most `entries` in each list or object, and texts of at most `LONGEST_TEXT`."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        cuts.append(f"{name}: {LONGEST_TEXT} of {len(value)} characters")
        return value[:LONGEST_TEXT]
    if not isinstance(value, dict | list):
        return value
    if len(value) > entries:
        cuts.append(f"{name}: {entries} of {len(value)} entries")
    if isinstance(value, list):
        return [_shortened(item, name, entries, cuts) for item in value[:entries]]
    return {key: _shortened(item, f"{name}.{key}", entries, cuts) for key, item in list(value.items())[:entries]}
