"""What PPO trains on: an environment to step, and the game's share of an update.

The trainer knows updates, tensors and files. A task knows its game: the opponents under a plan, metrics from results,
evaluation, and what of all this belongs into a training state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from sparring.agents.distributed.processes import ALONE, Processes
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.rollout import BatchEnv
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import PPORunConfig
from sparring.curriculum.schedule import TrainingPlan
from sparring.envs.game import game_of, load

SEEDS = ("env", "opponents", "league", "checks")
"""A task is made with one number in [0, 2^31) for each of these uses of chance."""
GYMNASIUM = "sparring.agents.ppo.tasks.gymnasium:GymnasiumTask"
"""The task of environments that are no game of the project."""


class TrainingEnv(BatchEnv, Protocol):
    """The episodes that this process steps at once."""

    num_envs: int
    simulator_seconds: float
    """Time spent in the game's steps; the trainer sets it to 0 before a rollout."""
    unsaved: str
    """What of the episodes no training state holds, as a phrase; empty where a state is complete."""
    quarantined: Tensor
    """Episodes so far that ended because a number in them was not finite, int64 []."""

    @property
    def longest_episode(self) -> int:
        """The most steps an episode can take."""

    @property
    def contract(self) -> dict[str, Any]:
        """What a policy must agree with to act here; stored in every checkpoint."""

    def rehearse(self) -> None:
        """Assign a bit of everything, for a trial of speed."""

    def close(self) -> None:
        """End all threads."""


class TaskFiles(Protocol):
    """Files of a task in the run's folder."""

    def files(self) -> list[str]:
        """Names of the files that the present state needs."""

    def delete_unused(self, names: Iterable[str]) -> None:
        """Follow the state just saved: write what lies beside it, delete files that no kept state (`names`) needs."""

    def reset(self) -> None:
        """Forget what the folder holds: there is no state to continue from."""


@dataclass(frozen=True)
class TaskStatus:
    """The learner's standing in its game."""

    headline: str
    """A few words for the progress bar."""
    win_rates: dict[str, float]
    """Recent win rate per bot met often enough, which may steer the schedule."""
    summary: dict[str, Any]
    """Entries of a checkpoint's training summary."""


class PPOTask(Protocol):
    """One game and its opponents. Of several processes each has a task; only the first keeps records."""

    @property
    def env(self) -> TrainingEnv:
        """What the rollout steps."""

    def open(self, folder: RunFolder, alert: Callable[[str], None]) -> TaskFiles | None:
        """Open the files in `folder`, once before the first `prepare`, and report problems to `alert`."""

    def prepare(self, plan: TrainingPlan, network: ActorCritic) -> None:
        """Set the game up as `plan` says; `network` is the learner as it is now."""

    def results(self, plan: TrainingPlan) -> dict[str, float]:
        """Record how the episodes of the last rollout ended, and return their metrics."""

    def evaluate(self, plan: TrainingPlan, network: ActorCritic) -> tuple[dict[str, float], bool]:
        """Metrics of the evaluations due after `plan`'s update, and whether they are the best so far."""

    def status(self, plan: TrainingPlan | None = None) -> TaskStatus:
        """The learner's standing; the headline is about the opponents of `plan`, and empty without one."""

    def state_dict(self, *, episodes: bool = True) -> dict[str, Any]:
        """Everything that decides the course of the game, plain data and tensors; all processes' episodes or none."""

    def load_state_dict(self, state: Mapping[str, Any], *, episodes: bool) -> None:
        """Continue from a `state_dict`; without `episodes` (their number differs) those restart."""


def make_task(
    config: PPORunConfig, device: torch.device, threads: int, *, seeds: Mapping[str, int], processes: Processes = ALONE
) -> PPOTask:
    """The task that `config.env.id` names; `InputError` where it cannot be made. `seeds` has a number per `SEEDS`."""
    game = game_of(config.env.id)
    if game and not game.ppo_task:
        raise ConfigError(f"env.id={config.env.id}: PPO cannot train on {game.title}")
    task = load(game.ppo_task if game else GYMNASIUM)
    return cast(PPOTask, task(config, device, threads, seeds=seeds, processes=processes))


def bots_headline(plan: TrainingPlan | None, rates: Mapping[str, float]) -> str:
    """The plan's bots, each with its win rate where it is known."""
    bots = plan.bots if plan else {}
    return " ".join(f"{bot} {rates[bot]:.0%}" if bot in rates else bot for bot in bots)
