"""One part in its own process with a time limit; a failing part does not stop the next one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

PASSED, FAILED, SKIPPED, CRASHED, TIMED_OUT, NOT_RUN = "passed", "failed", "skipped", "crashed", "timed out", "not run"
BROKEN = (FAILED, CRASHED, TIMED_OUT, NOT_RUN)
LAST_LINES = 25
"""Lines of a process's output that are kept after a failure."""
GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""


@dataclass
class Outcome:
    """Outcome of a part: status, findings if it finished, and the end of its output if it failed."""

    name: str
    status: str
    seconds: float = 0.0
    limit: float = 0.0
    command: list[str] = field(default_factory=list)
    found: dict[str, Any] = field(default_factory=dict)
    why: str = ""
    output: str = ""

    def plain(self) -> dict[str, Any]:
        """Return all of it as data for JSON."""
        return asdict(self)


def run_part(name: str, command: Sequence[str], *, limit: float) -> Outcome:
    """Run `command`, which writes its findings to the file named by its last argument; it has `limit` seconds."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "found.json", Path(folder) / "log"
        whole = [*command, str(result)]
        code = _run(whole, log, limit)
        outcome = Outcome(name, CRASHED, limit=limit, command=whole[:-1])
        outcome.seconds = time.monotonic() - started
        _judge(outcome, code, result)
        if outcome.status in BROKEN:
            outcome.output = _end_of(log)
    return outcome


def _run(command: Sequence[str], log: Path, limit: float) -> int | None:
    """Return the exit code, or None after a timeout, when the whole process group has been ended."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children: SIGTERM, then SIGKILL."""
    for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing is left of the group
            os.killpg(process.pid, number)
        try:
            process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            continue


def _judge(outcome: Outcome, code: int | None, result: Path) -> None:
    """Set the status from the exit code (None for a timeout) and from the findings."""
    if code is None:
        outcome.status, outcome.why = TIMED_OUT, f"not done after {outcome.limit:.0f} s"
        return
    try:
        outcome.found = json.loads(result.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        outcome.why = f"ended by signal {-code}" if code < 0 else f"exit code {code} and no result"
        return
    broken = [name for name, holds in outcome.found["checks"].items() if not holds]
    if broken:
        outcome.status, outcome.why = FAILED, f"does not hold: {'; '.join(broken)}"
    elif outcome.found["skipped"]:
        outcome.status, outcome.why = SKIPPED, outcome.found["skipped"]
    else:
        outcome.status = PASSED


def _end_of(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-LAST_LINES:])
