"""What a run is at the end of an update, as plain data and tensors, and a run set back to that moment.

Network, optimizer and scaler, the place in the schedule, every match in the simulator, opponents and their weights,
records and ratings, every random generator, and how far the logs had come. On a CPU with the same number of torch
threads, a run continued from its state goes on bit for bit as if it had never stopped.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch

from curriculum.schedule import Position

if TYPE_CHECKING:
    from agents.ppo.run import Run


def capture(run: Run) -> dict[str, Any]:
    """The state of `run` between two updates, for `curriculum.tensor_file.pack`."""
    return {
        "updates": run.updates_done,
        "position": asdict(run.position) if run.position else None,
        "learner": run.learner.state_dict(),
        "actions": run.actions.get_state(),
        "duel": run.duel.state_dict(),
        "league": run.league.state_dict(),
        "checks": run.checks.state_dict(),
        "guard": run.guard.state_dict(),
        "logger": run.logger.state_dict(),
    }


def restore(run: Run, state: dict[str, Any], *, matches: bool = True, guard: bool = True) -> None:
    """Set `run` back to `state`; without `matches` (their number differs) those begin anew."""
    run.updates_done = state["updates"]
    run.position = Position(**state["position"]) if state["position"] else None
    run.learner.load_state_dict(state["learner"])
    run.actions.set_state(state["actions"].cpu())
    run.league.load_state_dict(state["league"])
    run.checks.load_state_dict(state["checks"])
    if guard:
        run.guard.load_state_dict(state["guard"])
    if matches:
        run.duel.load_state_dict(state["duel"])
    else:
        run.league.slots = [""] * run.duel.slots  # drawn anew with the next deal


def summary(run: Run) -> dict[str, Any]:
    """What a state's manifest says of it, for people and for whoever tidies up."""
    return {
        "run": run.folder.name,
        "update": run.updates_done,
        "env_steps": run.updates_done * run.steps_per_update,
        "phase": run.phase,
        "config_sha256": run.fingerprint,
        "num_envs": run.batch.num_envs,
        "device": str(run.device),
        "torch_threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "pool": [snapshot.name for snapshot in run.league.pool.snapshots],
    }


def inexact(found: dict[str, Any], run: Run) -> list[str]:
    """Why a run continued from a state with the summary `found` will not go on bit for bit; empty where it will."""
    now = summary(run)
    keys = [key for key in ("num_envs", "device", "torch_threads", "torch") if found.get(key) != now[key]]
    reasons = [f"{key} was {found.get(key)} and is {now[key]}" for key in keys]
    if not keys and run.device.type != "cpu":
        reasons.append("sums on an accelerator have no fixed order")
    return reasons
