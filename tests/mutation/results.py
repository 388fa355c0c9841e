"""Results of trials in a file, one JSON object a line, so that a run that was cut short goes on where it stopped.

A fault that was caught is not tried again until its entry or the file that it changes is another one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.mutation.faults import Fault
from tests.mutation.trial import TrialResult


def key(fault: Fault, root: Path) -> str:
    """Return a digest of the fault and of the file that it changes."""
    text = json.dumps(asdict(fault) | {"equivalent": ""}) + (root / fault.file).read_text("utf-8")
    return hashlib.sha256(text.encode()).hexdigest()


def store(file: Path, result: TrialResult, root: Path) -> None:
    """Append a result."""
    row = {"key": key(result.fault, root), "outcome": result.outcome, "seconds": result.seconds}
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(row | {"noticed_by": result.noticed_by}) + "\n")


def stored(file: Path | None, faults: Sequence[Fault], root: Path) -> list[TrialResult]:
    """Return the results in `file` of those `faults` that were caught; all others are tried again."""
    if file is None or not file.exists():
        return []
    rows = {row.pop("key"): row for row in map(json.loads, file.read_text(encoding="utf-8").splitlines())}
    found = [(fault, rows.get(key(fault, root))) for fault in faults]
    return [result for result in (TrialResult(fault, **row) for fault, row in found if row) if result.caught]
