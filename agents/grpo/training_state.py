"""What a GRPO run is between two steps, as plain data and tensors, and a run set back to that moment.

The learner, the league, what the guard knows, and the plans under way with the weights that they are played with. All
of it means nothing on another base model, so a state knows its own by a hash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sparring.agents.grpo.rollouts.plan_io import read_plan, write_plan
from sparring.agents.grpo.rollouts.worker import RolloutJob
from sparring.agents.llm.models.identity import identity_like
from sparring.agents.run.resume_fidelity import machine
from sparring.agents.run.states import StateError, TrainingState
from sparring.curriculum.league.serialization import read_league, write_league

if TYPE_CHECKING:
    from sparring.agents.grpo.run import GRPORun


def capture(run: GRPORun) -> dict[str, Any]:
    """The state of `run` between two steps, for `configs.core.tensor_file.pack`."""
    return {
        "done": run.done,
        "decisions": run.decisions,
        "years": run.years,
        "base": run.base,
        "learner": run.learner.state_dict(),
        "guard": run.guard.state_dict(),
        "league": write_league(run.league),
        "tasks": [{"plan": write_plan(task.plan), "weights": _bytes(task.weights)} for task in run.players.tasks],
    }


def restore(run: GRPORun, state: dict[str, Any]) -> None:
    """Set `run`, whose players have nothing to do yet, back to `state`."""
    run.done, run.decisions, run.years = state["done"], state["decisions"], state["years"]
    run.learner.load_state_dict(state["learner"])
    run.guard.load_state_dict(state["guard"])
    run.league = read_league(state["league"])
    run.league_file.restore(run.league)
    for task in state["tasks"]:
        run.players.submit(RolloutJob(read_plan(task["plan"]), task["weights"].numpy().tobytes()))


def summary(run: GRPORun) -> dict[str, Any]:
    """What a state's manifest says of it, for people and for whoever tidies up."""
    return {"env_steps": run.decisions, "pool": [], **machine(run.device)}


def check_base(found: TrainingState, model: Any, name: str) -> None:
    """Raise `StateError` unless the state was trained on the base of `model`, which `name` means.

    States written before they knew their base model are taken at their word.
    """
    before = found.content.get("base")
    if before is not None and before != (now := identity_like(before, model)):
        raise StateError(
            f"{found.path}: was trained on the base model {before}, but model.name={name} is now {now}; "
            "put that model back, or begin a new run under another name="
        )


def _bytes(data: bytes) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())
