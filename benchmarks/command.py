"""Entry point of all measurement scripts: invalid input, also of a child process, gives one line and exit code 2."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from sparring.eval.command import BAD_INPUT, INTERRUPTED, run_command


def run_script(main: Callable[[], int | None], name: str = "") -> int:
    """Return the exit code of `main()`; an `InputError` prints one line, prefixed by `name` (default: the script's)."""
    return run_command(name or f"benchmarks/{Path(sys.argv[0]).name}", lambda _: _with_children(main), [])


def _with_children(main: Callable[[], int | None]) -> int:
    """Return the exit code of `main()`, or of a child that printed its own error or was interrupted."""
    try:
        return main() or 0
    except subprocess.CalledProcessError as error:
        if error.returncode not in (BAD_INPUT, INTERRUPTED):
            raise
        for line in (error.stderr or "").splitlines()[-1:]:  # where what it said was caught
            print(line, file=sys.stderr)
        return error.returncode
