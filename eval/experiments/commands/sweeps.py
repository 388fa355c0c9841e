"""Commands on sweeps and on the register of experiments."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sparring.configs.core.errors import choose
from sparring.configs.core.paths import CHECKPOINTS
from sparring.eval.experiments.register import PAGE, register
from sparring.eval.experiments.sweep_analysis import analyze_sweep as analysis_of
from sparring.eval.experiments.sweep_analysis import find_sweep
from sparring.eval.experiments.sweep_report import (
    search_cells,
    search_markdown,
    search_plain,
    sweep_cells,
    sweep_markdown,
    sweep_plain,
)

FORMATS = ("table", "json", "csv")
Checkpoints = Annotated[Path, typer.Option("--checkpoint-dir", help="Folder of the run folders.")]


def add_commands(app: typer.Typer) -> None:
    """Add the commands to `app`."""

    @app.command("analyze-sweep")
    def analyze_sweep(
        sweep: Annotated[str, typer.Argument(help="Name of a sweep, as in +sweep=NAME or its name=.")],
        output_format: Annotated[str, typer.Option(help=f"One of {', '.join(FORMATS)}.")] = "table",
        as_json: Annotated[bool, typer.Option("--json", help="The same as --output-format json.")] = False,
        checkpoint_dir: Checkpoints = CHECKPOINTS,
    ) -> None:
        """Print a sweep's table, its ranking beside the expected one, and which criteria hold."""
        shape = "json" if as_json else choose("--output-format", output_format, FORMATS)
        print(sweep_text(sweep, shape, checkpoint_dir), end="")

    @app.command("register")
    def register_runs(
        names: Annotated[list[str] | None, typer.Argument(help="Runs and sweeps to record; all without any.")] = None,
        none: Annotated[bool, typer.Option("--none", help="Record no run; write the page again.")] = False,
        checkpoint_dir: Checkpoints = CHECKPOINTS,
    ) -> None:
        """Record runs in docs/experiments/runs.jsonl and write docs/experiments/README.md from it."""
        counts = register([] if none else names, checkpoint_dir, all_runs=not names and not none)
        print(f"{PAGE}: {', '.join(f'{count} {name}' for name, count in counts.items())}")


def sweep_text(name: str, shape: str, checkpoint_dir: Path) -> str:
    """Return the analysis of a sweep or a search as table, json or csv. Raises `InputError` if there is none."""
    folder = find_sweep(name, checkpoint_dir)
    if "search" in folder.content():
        if shape == "table":
            return search_markdown(folder)
        return _json(search_plain(folder)) if shape == "json" else _csv(*search_cells(folder))
    analysis = analysis_of(folder)
    if shape == "table":
        return sweep_markdown(analysis)
    return _json(sweep_plain(analysis)) if shape == "json" else _csv(*sweep_cells(analysis))


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _csv(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([headings, *rows])
    return text.getvalue()
