"""One run of a sweep, in the process where Hydra's launcher starts it: train, and write the outcome."""

from __future__ import annotations

import os
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from sparring.agents.sweeps.measured import measured, read_rows
from sparring.agents.sweeps.sweep_folder import STOPPED, SweepFolder
from sparring.agents.sweeps.training import guarded, train_recorded
from sparring.configs.sweeps.file import parse_sweep


def job(config: Any) -> None:
    """Train the run `config.job` of the sweep in `config.folder` and write its outcome; errors are recorded."""
    folder, name = SweepFolder(Path(config.folder)), str(config.job)
    begin, before = time.monotonic(), folder.outcome(name).get("seconds", 0.0)
    with folder.log(name).open("a", encoding="utf-8", buffering=1) as log, redirect_stdout(log):
        outcome = guarded(lambda: _trained(folder, name))
    folder.record(name, {**outcome, "seconds": round(before + time.monotonic() - begin, 1)})
    if outcome["outcome"].startswith(STOPPED) and os.getpid() == config.launcher:
        raise KeyboardInterrupt  # one after the other in this process: the signal means all of them


def _trained(folder: SweepFolder, name: str) -> dict[str, Any]:
    content = folder.content()
    file = parse_sweep(folder.name, content, folder.path) if content else None
    if file and file.search:
        from sparring.agents.sweeps.search import run_trial

        return run_trial(folder, name, file)
    run = folder.config(name)
    outcome = train_recorded(run)
    if file:
        primary = file.primary.measure
        outcome["result"] = f"{primary} {measured(read_rows(folder.run_folder(name)), primary):.4g}"
    return outcome
