"""Parts of a GRPO training state: unfinished rollouts, and the hash of the base model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sparring.agents.grpo.rollouts.plan_io import read_plan, write_plan
from sparring.agents.grpo.rollouts.worker import RolloutJob
from sparring.agents.llm.models.identity import identity_like
from sparring.agents.run.states import StateError, TrainingState
from sparring.curriculum.league.league import League


def write_jobs(jobs: Sequence[RolloutJob]) -> list[dict[str, Any]]:
    """Return unfinished plans and their weights as plain data and tensors."""
    return [{"plan": write_plan(job.plan), "weights": _bytes(job.weights)} for job in jobs]


def read_jobs(written: Sequence[dict[str, Any]], league: League) -> list[RolloutJob]:
    """Invert `write_jobs`; `league` is that of the same state, with the players of the plans."""
    return [RolloutJob(read_plan(job["plan"], league), job["weights"].numpy().tobytes()) for job in written]


def check_base(found: TrainingState, model: Any, name: str) -> None:
    """Raise `StateError` unless the state was trained on the base of `model`, called `name`.

    Older states that do not record their base model are not checked.
    """
    before = found.content.get("base")
    if before is not None and before != (now := identity_like(before, model)):
        raise StateError(
            f"{found.path}: was trained on the base model {before}, but model.name={name} is now {now}; "
            "put that model back, or begin a new run under another name="
        )


def _bytes(data: bytes) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())
