"""Query recorded runs: `python eval/runs.py --help` lists the commands; docs/runs_cli.md has examples.

Run folders, W&B offline files, TensorBoard events, trackio and the W&B cloud are read through one interface. Exit
codes: 0 done, 2 bad input, 3 no such run or metric, 4 damaged but partly read, 5 network, 130 stopped with Ctrl-C.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from runpy import run_path
from typing import Any

if not __package__:  # Run as a script, possibly before installation.
    run_path(str(Path(__file__).parents[1] / "configs" / "installed.py"))["check_installed"]("eval/runs.py")

import numpy as np
import typer

from sparring.configs.core.errors import InputError, as_called, choose
from sparring.configs.core.files import unusable_text
from sparring.configs.core.status import say
from sparring.eval.analysis import mcp_server, report_commands, run_commands
from sparring.eval.analysis.options import as_command
from sparring.eval.analysis.output import Answer, code_of, versioned
from sparring.eval.command import INTERRUPTED

NAME = "eval/runs.py"
CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]
"""Base class of Typer's usage errors: click's, or Typer's own copy since Typer 0.26."""
ANSWERS: dict[str, Callable[..., Answer]] = {
    "list": run_commands.list_runs,
    "search": run_commands.search,
    "get-run": run_commands.get_run,
    "get-metrics": run_commands.get_metrics,
    "get-artifacts": run_commands.get_artifacts,
    "get-cache-stats": run_commands.get_cache_stats,
    "health": run_commands.health,
    "analyze": report_commands.analyze,
    "league": report_commands.league,
    "compare": report_commands.compare,
    "analyze-sweep": report_commands.analyze_sweep,
}
"""Commands that return one object."""
ACTIONS: dict[str, Callable[..., int]] = {
    "export": run_commands.export,
    "watch": run_commands.watch,
    "register": report_commands.register_runs,
    "mcp": mcp_server.serve,
}
app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def commands() -> None:
    """Query recorded runs in run folders, W&B offline files, TensorBoard events, trackio and the W&B cloud."""


for name, answering in ANSWERS.items():
    kind = report_commands.ManyValuesCommand if name == "compare" else None
    app.command(name, cls=kind)(as_command(answering, answers=True))
for name, acting in ACTIONS.items():
    app.command(name)(as_command(acting))


def ask(command: str, names: Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object that a command prints as JSON; files are written and warnings go to stderr.

    A list repeats the option; None and False omit it. Raises `InputError`.
    """
    choose("command", command, ANSWERS)
    words = [command]
    for key, value in options.items():
        option = f"--{key.rstrip('_').replace('_', '-')}"
        for item in value if isinstance(value, list | tuple) else [value]:
            words += [] if item is None or item is False else [option] if item is True else [f"{option}={item}"]
    with np.errstate(all="ignore"):
        answer = call([*words, "--", *map(str, names)])
        assert isinstance(answer, Answer)
        answer.write()
        answer.say()
        return versioned(answer.data)


def call(arguments: Sequence[str]) -> object:
    """Run a command line and return its result. Raises `InputError` for bad input, including Typer's errors."""
    for text in arguments:
        if wrong := unusable_text(text):
            raise InputError(f"{text!r}: {wrong}")
    try:
        return typer.main.get_command(app).main(list(arguments), prog_name=as_called(NAME), standalone_mode=False)
    except CommandLineError as error:
        raise InputError(error.format_message()) from error  # type: ignore[attr-defined]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (`sys.argv` by default) and return the exit code; errors are one line on stderr."""
    try:
        # Values in a foreign run may overflow float64: sums are then infinite and shown as unknown.
        with np.errstate(all="ignore"):
            answer = call(sys.argv[1:] if arguments is None else arguments)
            code = answer.publish() if isinstance(answer, Answer) else answer
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except InputError as error:
        say(f"{NAME}: {error}")
        return code_of(error)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        sys.stderr.close()
        return 0
    return code if isinstance(code, int) else 0


def ask_runs(command: str, *names: str, **options: Any) -> dict[str, Any]:
    """Query recorded runs, as `python eval/runs.py COMMAND NAME ... --json` does; return the object that it prints.

    `command` is `list`, `search`, `get-run`, `get-metrics`, `get-artifacts`, `get-cache-stats`, `health`, `analyze`,
    `league`, `compare` or `analyze-sweep`. `names` are its arguments, such as runs; an option that may be repeated
    accepts a list, `metrics=["rollout/reward"]`. Warnings and damaged records are reported on stderr.

    Raises `InputError` for bad input and unknown runs, in one line.
    """
    answer: dict[str, Any] = ask(command, names, options)
    return answer


if __name__ == "__main__":
    sys.exit(main())
