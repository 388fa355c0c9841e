"""Parts of a GRPO training state: unfinished rollouts, the hash of the base model, and checkpoints of the league."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired

import numpy as np
import torch
from torch import Tensor
from typing_extensions import TypedDict

from sparring.agents.grpo.rollouts.rollout import RolloutJob, read_plan, write_plan
from sparring.agents.llm.models.adapters import AdapterError, identity_like, load_adapter
from sparring.agents.run.states import StateError, TrainingState
from sparring.configs.core.tensor_file import AnyTensor, TensorFileError, check_tensor, check_tensors, unpack
from sparring.configs.core.typed import ContentError, Count, NotNegative, Text, read, require, within
from sparring.configs.language import GRPOConfig
from sparring.curriculum.league.file import weights_path
from sparring.curriculum.league.league import League
from sparring.envs.text import RolloutPlan


class GRPOState(TypedDict):
    """`GRPOTrainer.state_dict`; `base` is not in older states."""

    done: Count
    decisions: Count
    years: NotNegative
    base: NotRequired[Text]
    learner: dict[str, Any]
    league: dict[str, Any]
    tasks: list[Any]
    overfit: NotRequired[Any]


class StoredJob(TypedDict):
    """A `RolloutJob`, its packed weights as a tensor of bytes."""

    plan: dict[str, Any]
    weights: AnyTensor


def write_jobs(jobs: Sequence[RolloutJob]) -> list[dict[str, Any]]:
    """Return unfinished plans and their weights as plain data and tensors."""
    return [{"plan": write_plan(job.plan), "weights": _bytes(job.weights)} for job in jobs]


def read_jobs(
    written: Any, *, grpo: GRPOConfig, seats: int, step: int, league: League, parameters: Mapping[str, Tensor]
) -> list[RolloutJob]:
    """Invert `write_jobs`: the plans of the next steps, the first of which is number `step`.

    Raises `ContentError` for a plan that a run with these options does not make, for players that are not in `league`,
    and for weights that are not those of `parameters`.
    """
    jobs = []
    for number, job in enumerate(read(list[StoredJob], written, "tasks")):
        with within(f"tasks.{number}.plan"):
            plan = read_plan(job["plan"], league)
            _check_plan(plan, grpo, seats, step + number, league.agents)
        jobs.append(RolloutJob(plan, _weights(job["weights"], parameters, f"tasks.{number}.weights")))
    return jobs


def _check_plan(plan: RolloutPlan, grpo: GRPOConfig, seats: int, step: int, known: Container[str]) -> None:
    for name, value, expected in (
        ("step", plan.step, step),
        ("samples", plan.samples, grpo.samples_per_group),
        ("groups", len(plan.groups), grpo.groups),
    ):
        require(value == expected, f"{name}={value}: must be {expected}")
    require(plan.policy_version <= step, f"policy_version={plan.policy_version}: must be at most {step}")
    longest = max(grpo.rollout_horizon_years, grpo.rollout_long_horizon_years)
    for number, group in enumerate(plan.groups):
        place = f"groups.{number}"
        require(len(group.players) == seats, f"{place}.players: {len(group.players)} of them; must be {seats}")
        unknown = [name for name in group.players if name not in known]
        require(not unknown, f"{place}.players: {''.join(unknown[:1])!r} is not in the league")
        others = (0, seats - 1)
        require(len(group.categories) in others, f"{place}.categories: must be {seats - 1} of them, or none")
        warmup = group.warmup_phases
        require(warmup <= grpo.rollout_warmup_phases, f"{place}.warmup_phases={warmup}: more than the configured most")
        require(group.years <= longest, f"{place}.years={group.years}: must be at most {longest}")


def _weights(written: Any, parameters: Mapping[str, Tensor], place: str) -> bytes:
    """Return packed weights, checked: they go to another process as they are."""
    size = written.numel() if isinstance(written, Tensor) else 0
    data: bytes = check_tensor(written, torch.empty(size, dtype=torch.uint8), place).numpy().tobytes()
    try:
        check_tensors(unpack(data), {name: value.detach().cpu() for name, value in parameters.items()}, place)
    except TensorFileError as error:
        raise ContentError(f"{place}: {error}") from error
    return data


def check_base(state: TrainingState, model: Any, name: str) -> None:
    """Raise `StateError` unless the state was trained on the base of `model`, called `name`.

    Older states that do not record their base model are not checked.
    """
    before = state.content.get("base")
    if before is not None and before != (now := identity_like(before, model)):
        raise StateError(
            f"{state.path}: was trained on the base model {before}, but model.name={name} is now {now}; "
            "put that model back, or begin a new run under another name="
        )


def lost_checkpoints(league: League, folder: Path, model: Any) -> dict[str, str]:
    """Return the checkpoints whose adapters are missing, damaged or of another base than `model`, with the reasons.

    Raises `AdapterError` for a file that the disk does not give: it may be whole.
    """
    lost = {}
    for agent in league.of_kind("checkpoint"):
        try:
            load_adapter(weights_path(folder, agent.path), model)
        except AdapterError as error:
            if isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, FileNotFoundError):
                raise
            lost[agent.name] = str(error)
    return lost


def meets(plan: RolloutPlan, names: Container[str]) -> bool:
    """Return whether one of `names` plays in a plan."""
    return any(name in names for group in plan.groups for name in group.players)


def _bytes(data: bytes) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())
