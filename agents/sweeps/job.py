"""One run of a sweep, in the process where Hydra's launcher starts it: train, and write the outcome."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from sparring.agents.sweeps.measured import measured, read_rows
from sparring.agents.sweeps.sweep_folder import DONE, SweepFolder
from sparring.agents.trainers import train
from sparring.configs.core.errors import InputError
from sparring.configs.core.paths import ROOT
from sparring.configs.schema import RunConfig
from sparring.configs.sweeps.file import parse_sweep


def job(config: Any) -> None:
    """Train the run `config.job` of the sweep in `config.folder` and write its outcome; errors are recorded."""
    folder, name = SweepFolder(Path(config.folder)), str(config.job)
    begin, before = time.monotonic(), folder.outcome(name).get("seconds", 0.0)
    with folder.log(name).open("a", encoding="utf-8", buffering=1) as log, redirect_stdout(log):
        outcome = _guarded(lambda: _trained(folder, name))
    folder.record(name, {**outcome, "seconds": round(before + time.monotonic() - begin, 1)})


def train_recorded(run: RunConfig, observe: Callable[[Mapping[str, float]], bool] | None = None) -> dict[str, Any]:
    """Train a run and return its outcome, updates and result; a failure is an outcome, too."""

    def trained() -> dict[str, Any]:
        train(run, observe=observe)
        return {"outcome": DONE}

    return _guarded(trained) | _result(run)


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


def _guarded(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what `work` returns, or how it failed; one failed run must not end the sweep."""
    try:
        return work()
    except SystemExit as stop:
        return {"outcome": f"stopped ({stop.code})"}
    except InputError as error:
        return {"outcome": f"failed: {error}"}
    except Exception as error:
        print(traceback.format_exc())
        return {"outcome": f"failed: {type(error).__name__}: {error}"}


def _result(run: RunConfig) -> dict[str, Any]:
    """Return the updates done, and the mean win rate or return of the run's last checkpoint."""
    from sparring.agents.policies.checkpoint import CheckpointError, load_checkpoint
    from sparring.agents.run.folder import RunFolder

    folder = RunFolder(ROOT / run.checkpoint_dir / run.name)
    updates = {"updates": len(rows)} if (rows := read_rows(folder.path)) else {}
    try:
        training = load_checkpoint(folder.final).training
    except (CheckpointError, OSError):
        return updates
    rates, recent = training.get("win_rates") or {}, training.get("recent_return")
    said = f"wins {sum(rates.values()) / len(rates):.0%}" if rates else ""
    return {**updates, "result": said if recent is None else f"return {recent:.1f}"}
