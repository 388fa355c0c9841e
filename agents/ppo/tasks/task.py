"""What is trained on, as the loop sees it: something to step, and everything that is known about it alone.

The loop knows updates, tensors and files. A task knows its game: whom to meet under a plan, how results become
metrics, what a check is, and what of all this belongs into a training state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import torch

from sparring.agents.distributed.processes import ALONE, Processes
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.ppo.rollout import BatchEnv
from sparring.agents.run.folder import RunFolder
from sparring.configs.schema import DIPLOMACY, RunConfig
from sparring.curriculum.schedule import TrainingPlan
from sparring.envs.dogfight.rules import ENV_ID

SEEDS = ("env", "opponents", "league", "checks")
"""A task is made with one number in [0, 2^31) for each of these uses of chance."""


class PPOTask(Protocol):
    """One game and whatever the learner meets in it. `open` is called once, before anything but `rehearse`.

    Of several processes each has a task; the others than the first keep no records and have nothing to say.
    """

    num_envs: int
    """Episodes stepped at once by this process."""
    longest_episode: int
    """The most steps an episode can take."""
    network_shape: dict[str, Any]
    """What `build_network` builds the learner from."""
    cannot_save: str
    """What of the task no training state holds, as a phrase; empty where a state is complete."""
    physics: bool
    """Whether the randomization of a plan means anything here."""
    win: str
    """What its win rates are shares of, in a few words; empty where nothing is won."""
    simulator_seconds: float
    """Time spent in the game's steps; the loop sets it to 0 before a rollout."""

    @property
    def env(self) -> BatchEnv:
        """What the rollout steps."""

    @property
    def contract(self) -> dict[str, Any]:
        """What a policy must agree with to act here; stored in every checkpoint."""

    def open(self, folder: RunFolder, alert: Callable[[str], None]) -> None:
        """Use `folder` for files of its own, and tell `alert` about what goes wrong."""

    def rehearse(self) -> None:
        """Meet a bit of everything, for a trial of speed."""

    def prepare(self, plan: TrainingPlan, network: ActorCritic) -> None:
        """Set the game up as `plan` wants it; `network` is the learner as it is now."""

    def results(self, plan: TrainingPlan) -> dict[str, float]:
        """Take in how the episodes of the last rollout ended, and say it in numbers."""

    def check(self, plan: TrainingPlan, network: ActorCritic) -> tuple[dict[str, float], bool]:
        """Metrics of the checks due after `plan`'s update, and whether the learner did better than ever in them."""

    def win_rates(self) -> dict[str, float]:
        """The learner's recent win rate per bot, which may steer the schedule."""

    def headline(self, plan: TrainingPlan) -> str:
        """How it stands, in a few words for the progress bar."""

    def standing(self) -> dict[str, Any]:
        """What a checkpoint's training summary says of the learner in this game."""

    def broken(self) -> int:
        """Episodes so far that were ended because a number in them was not finite."""

    def files(self) -> list[str]:
        """Names of the task's own files that the present state needs."""

    def sweep(self, names: Iterable[str]) -> None:
        """Follow the state just saved: delete files of the task that neither it nor a kept state, `names`, needs."""

    def state_dict(self, *, episodes: bool = True) -> dict[str, Any]:
        """Everything that decides how the game goes on, as plain data and tensors; all processes' episodes or none."""

    def load_state_dict(self, state: Mapping[str, Any], *, episodes: bool) -> None:
        """Continue from a `state_dict`; without `episodes` (their number differs) those begin anew."""

    def begin_anew(self) -> None:
        """There is a folder but no state to continue from: forget what the folder holds."""

    def close(self) -> None:
        """End all threads and processes."""


def make_task(
    config: RunConfig, device: torch.device, threads: int, *, seeds: Mapping[str, int], processes: Processes = ALONE
) -> PPOTask:
    """The task that `config.env.id` names; `InputError` where it cannot be made. `seeds` has a number per `SEEDS`."""
    if config.env.id == ENV_ID:
        from sparring.agents.ppo.tasks.dogfight import DogfightTask

        return DogfightTask(config, device, threads, seeds=seeds, processes=processes)
    if config.env.id == DIPLOMACY:
        from sparring.agents.ppo.tasks.diplomacy import DiplomacyTask

        return DiplomacyTask(config, device, threads, seeds=seeds, processes=processes)
    from sparring.agents.ppo.tasks.gymnasium import GymnasiumTask

    return GymnasiumTask(config, device, seeds=seeds, processes=processes)
