"""How every measurement here runs as a script: bad input, also that of a process it began, is one line and exit 2."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from sparring.eval.command import BAD_INPUT, INTERRUPTED, run_command


def run_script(main: Callable[[], int | None], name: str = "") -> int:
    """The exit code of `main()`; an `InputError` is a line that begins with `name`, the script's own unless given."""
    return run_command(name or f"benchmarks/{Path(sys.argv[0]).name}", lambda _: _with_children(main), [])


def _with_children(main: Callable[[], int | None]) -> int:
    """The exit code of `main()`, or of a child that refused its input or was interrupted, which has said so."""
    try:
        return main() or 0
    except subprocess.CalledProcessError as error:
        if error.returncode not in (BAD_INPUT, INTERRUPTED):
            raise
        for line in (error.stderr or "").splitlines()[-1:]:  # where what it said was caught
            print(line, file=sys.stderr)
        return error.returncode
