"""The task interface of PPO: an environment to step, and the game's part of an update.

The trainer handles updates, tensors and files. A task handles its game: the opponents under a plan, metrics from
results, evaluation, and its part of a training state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from sparring.agents.distributed.processes import ALONE, Processes
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.ppo.rollout import BatchEnv
from sparring.agents.ppo.self_play import SelfPlay
from sparring.agents.run.folder import RunFolder
from sparring.configs.core.errors import ConfigError
from sparring.configs.schema import PPORunConfig
from sparring.curriculum.schedule import TrainingPlan
from sparring.envs.game import game_of, load

SEEDS = ("env", "opponents", "league", "checks")
"""Uses of randomness; a task is created with a seed in [0, 2^31) for each."""
VIDEO = "eval/video"
"""Name of the videos of evaluation matches in TensorBoard and W&B."""
VIDEO_EVERY = 5
"""Evaluations between videos: a video takes as long as a few matches, and TensorBoard shows the last ten."""
Film = Callable[[str, Callable[[], bytes]], None]
"""Logs a video under a name, at the env steps of the latest update: the animated GIF that the function returns, which a
thread calls beside training."""


class TrainingEnv(BatchEnv, Protocol):
    """The episodes that this process steps together."""

    num_envs: int
    simulator_seconds: float
    """Time spent in the game's steps; the trainer sets it to 0 before a rollout."""
    unsaved: str
    """The part of the episodes that training states lack, as a phrase; empty if states are complete."""
    quarantined: Tensor
    """Number of episodes ended so far because of a value that was not finite, int64 []."""

    @property
    def longest_episode(self) -> int:
        """Maximum number of steps of an episode."""

    @property
    def notes(self) -> Sequence[str]:
        """Lines to say at the start."""

    @property
    def contract(self) -> dict[str, Any]:
        """Properties that a policy must match to act here; stored in every checkpoint."""

    def adopt(self, contract: Mapping[str, Any]) -> None:
        """Continue the statistics of observations in the contract of the policy that a run begins with."""

    def rehearse(self) -> None:
        """Assign a mixture of all opponents, for a trial of speed."""

    def close(self) -> None:
        """End all threads."""


@dataclass(frozen=True)
class TaskStatus:
    """The learner's standing in its game."""

    headline: str
    """A few words for the progress bar."""
    win_rates: dict[str, float]
    """Recent win rate per bot with enough games, which may control the schedule."""
    summary: dict[str, Any]
    """Entries of a checkpoint's training summary."""


class PPOTask(Protocol):
    """A game and its opponents. With several processes, each has a task; only the first keeps records."""

    @property
    def env(self) -> TrainingEnv:
        """The environment that the rollout steps."""

    def open(self, folder: RunFolder, alert: Callable[[str], None], film: Film) -> SelfPlay | None:
        """Open the files in `folder`, once before the first `prepare`; report problems to `alert`, videos to `film`."""

    def prepare(self, plan: TrainingPlan, network: PolicyNetwork) -> None:
        """Set up the game according to `plan`; `network` is the current learner."""

    def results(self, plan: TrainingPlan) -> dict[str, float]:
        """Record the results of the last rollout's episodes and return their metrics."""

    def evaluate(self, plan: TrainingPlan, network: PolicyNetwork) -> tuple[dict[str, float], bool]:
        """Return metrics of the evaluations due after `plan`'s update, and whether they are the best so far."""

    def status(self, plan: TrainingPlan | None = None) -> TaskStatus:
        """Return the learner's standing; the headline describes the opponents of `plan`, and is empty without one."""

    def state_dict(self, *, episodes: bool = True) -> dict[str, Any]:
        """Return the game's full state, plain data and tensors, with all processes' episodes or none."""

    def load_state_dict(self, state: Mapping[str, Any], *, episodes: bool) -> None:
        """Continue from a `state_dict`; without `episodes` (their number differs), episodes restart."""


def make_task(
    config: PPORunConfig, device: torch.device, threads: int, *, seeds: Mapping[str, int], processes: Processes = ALONE
) -> PPOTask:
    """Create the task named by `config.env.id`, with a seed for each of `SEEDS`; raise `InputError` on failure."""
    game = game_of(config.env.id)
    path = config.ppo_task or (game.ppo_task if game else "")
    if not path:
        raise ConfigError(f"env.id={config.env.id}: PPO cannot train on {game.title if game else 'it'}")
    return cast(PPOTask, load(path)(config, device, threads, seeds=seeds, processes=processes))
