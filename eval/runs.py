"""Ask recorded runs: `python eval/runs.py --help` lists the commands; docs/runs_cli.md has examples.

Run folders, W&B offline files, TensorBoard events and the W&B cloud are read through one interface. Exit codes: 0 done,
2 bad input, 3 no such run or metric, 4 damaged but partly read, 5 network, 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from runpy import run_path

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/runs.py")

import typer

from sparring.eval.analysis import report_commands, run_commands, watch_commands
from sparring.eval.analysis.output import call_app, run_app

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def commands() -> None:
    """Ask recorded runs, in run folders, W&B offline files, TensorBoard events and the W&B cloud."""


for group in (run_commands, watch_commands, report_commands):
    group.add_commands(app)


def call(arguments: Sequence[str]) -> object:
    """Run a command line and return what its command does. Raises `InputError` for bad input."""
    return call_app("eval/runs.py", app, arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code."""
    return run_app("eval/runs.py", app, arguments)


if __name__ == "__main__":
    sys.exit(main())
