"""Training of one run with its outcome: done, stopped or failed, the updates done, and a result."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

from sparring.agents.callbacks import Callback
from sparring.agents.run.folder import RunFolder
from sparring.agents.trainers import train
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import ROOT
from sparring.configs.schema import RunConfig
from sparring.eval.analysis.sweeps.sweep_folder import DONE, STOPPED, Row, read_rows


def train_recorded(run: RunConfig, callbacks: Sequence[Callback] = ()) -> dict[str, Any]:
    """Train a run and return its outcome, updates and result; a failure is an outcome, too."""

    def trained() -> dict[str, Any]:
        train(run, callbacks=callbacks)
        return {"outcome": DONE}

    return guarded(trained) | _result(run)


def guarded(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what `work` returns, or how it failed; one failed run must not end the sweep."""
    try:
        return work()
    except SystemExit as stop:
        return {"outcome": f"{STOPPED} ({stop.code})"}
    except InputError as error:
        return {"outcome": f"failed: {error}"}
    except Exception as error:
        print(traceback.format_exc())
        return {"outcome": f"failed: {type(error).__name__}: {error}"}


def _result(run: RunConfig) -> dict[str, Any]:
    """Return the updates done, and the mean win rate or return of the run's last checkpoint."""
    from sparring.agents.policies.checkpoint import CheckpointError, load_checkpoint

    folder = RunFolder(ROOT / run.checkpoint_dir / run.name)
    updates = {"updates": len(rows)} if (rows := read_rows(folder.path)) else {}
    try:
        training = load_checkpoint(folder.final).training
    except (CheckpointError, OSError):
        return updates
    rates, recent = training.get("win_rates") or {}, training.get("recent_return")
    summary = f"wins {sum(rates.values()) / len(rates):.0%}{_against(list(rates), rows)}" if rates else ""
    return {**updates, "result": summary if recent is None else f"return {recent:.1f}"}


def _against(opponents: Sequence[str], rows: Sequence[Row]) -> str:
    """Return the opponents of a win rate, and the training matches that it comes from, recent ones counting most."""
    matches = round(sum(row.get("rollout/matches") or 0.0 for row in rows))
    return f", mean over {' '.join(opponents)}" + (f" in {matches:,} training matches" if matches else "")
