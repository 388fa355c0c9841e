"""Exit codes of `eval/runs.py`, and the errors that lead to them."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import typer

from sparring.configs.core.errors import InputError
from sparring.configs.core.paths import unusable_text
from sparring.configs.core.status import as_called, say
from sparring.eval.command import BAD_INPUT, INTERRUPTED
from sparring.eval.experiments.record import RunNetworkError, RunNotFoundError, UnknownMetricError

CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]
"""Base of Typer's errors about the command line, in click or, from Typer 0.26 on, in its own copy of it."""
NOT_FOUND, DAMAGED, NETWORK = 3, 4, 5


def run_app(name: str, app: typer.Typer, arguments: Sequence[str] | None) -> int:
    """Return the exit code of a Typer app; errors are one line on stderr. A command may return its own exit code."""
    try:
        code = call_app(name, app, sys.argv[1:] if arguments is None else arguments)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except InputError as error:
        return _say(name, str(error), code_of(error))
    except BrokenPipeError:  # the reader, such as `head`, has enough
        sys.stderr.close()
        return 0
    return code if isinstance(code, int) else 0


def call_app(name: str, app: typer.Typer, arguments: Sequence[str]) -> object:
    """Return what the command returns. Raises `InputError` for bad input, an error of Typer's among it."""
    for text in arguments:
        if wrong := unusable_text(text):
            raise InputError(f"{text!r}: {wrong}")
    try:
        # Numbers of a stranger's run may be near the end of float64: sums are then infinite, and shown as unknown.
        with np.errstate(all="ignore"):
            return typer.main.get_command(app).main(list(arguments), prog_name=as_called(name), standalone_mode=False)
    except CommandLineError as error:
        raise InputError(error.format_message()) from error  # type: ignore[attr-defined]


def code_of(error: InputError) -> int:
    """Return the exit code of an error."""
    if isinstance(error, RunNotFoundError | UnknownMetricError):
        return NOT_FOUND
    return NETWORK if isinstance(error, RunNetworkError) else BAD_INPUT


def _say(name: str, message: str, code: int) -> int:
    say(f"{name}: {message}")
    return code
