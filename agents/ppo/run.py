"""Everything one training run holds, built from its configuration or set back to where it was last saved.

`loop.py` says what is done with it. A run whose folder exists goes on from the newest good training state there.
Every use of chance has a generator of its own, begun by a number derived from `config.seed`, so that drawing more of
one kind (an extra check, say) leaves all the others as they were.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sparring.agents.distributed.processes import ALONE, Processes
from sparring.agents.distributed.shards import ShardedGenerator
from sparring.agents.distributed.threads import keep_freed_memory, make_deterministic, set_threads
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import CheckpointError, save_checkpoint
from sparring.agents.policies.networks import build_network, shape_for
from sparring.agents.ppo.learner import PPOLearner
from sparring.agents.ppo.precision import Autocast
from sparring.agents.ppo.rollout import Rollout
from sparring.agents.ppo.tasks.task import PPOTask, make_task
from sparring.agents.ppo.training_state import capture, has_episodes, inexact_reasons, restore, summary
from sparring.agents.run.folder import RunFolder
from sparring.agents.run.guard import Guard
from sparring.agents.run.lock import RunLock
from sparring.agents.run.logger import open_logger, silent_logger
from sparring.agents.run.progress import Progress
from sparring.agents.run.session import begins_anew, open_home
from sparring.agents.run.states import TrainingState
from sparring.configs.core.device import choose_device
from sparring.configs.schema import RunConfig
from sparring.configs.serialization import to_plain
from sparring.curriculum.schedule import Schedule, SchedulePosition, TrainingPlan
from sparring.envs.game import game_of

SEED_USES = ("network", "env", "actions", "opponents", "shuffle", "league", "checks")
"""Of these, `agents.ppo.tasks.task.SEEDS` are the task's."""


class PPORun:
    """The parts of a run. Making one creates its folder or continues what is in it; `close` ends what it opened.

    `position` is the next update's place in the schedule, None at its end; `updates_done` counts finished updates and
    `plan` is the latest one's. Of several `processes`, only the first touches the folder and has something to say.
    """

    def __init__(self, config: RunConfig, processes: Processes = ALONE) -> None:
        self.config, self.processes = config, processes
        self.device = choose_device(config.device, processes.local_rank)
        self.threads = set_threads(config.threads, processes.local_size)
        if config.deterministic:
            make_deterministic()
        keep_freed_memory()
        seeds = derive_seeds(config.seed)
        self.schedule = Schedule(config.phases)
        self.updates = min(self.schedule.total_updates, config.max_updates or self.schedule.total_updates)
        self.position: SchedulePosition | None = self.schedule.start()
        self.updates_done = 0
        self.plan: TrainingPlan | None = None
        self.lock: RunLock | None = None
        self.fingerprint = ""
        self.phase = config.phases[0].name
        self.steps_per_update = config.ppo.rollout_steps * config.env.num_envs
        self.task = make_task(config, self.device, self.threads, seeds=seeds, processes=processes)
        share = processes.share(config.env.num_envs)
        self.game = game_of(config.env.id)
        shape = shape_for(self.task.env.contract, config.network)
        self.network = build_network(shape, seed=seeds["network"]).to(self.device)
        self.autocast = Autocast(config.ppo.precision, self.device, warmup_updates=config.ppo.warmup_updates)
        self.learner = PPOLearner(
            self.network,
            config.ppo,
            self.autocast,
            seed=seeds["shuffle"],
            threads=self.threads,
            processes=processes,
            share=share,
        )
        self.rollout = make_rollout(config, self.task, self.network)
        self.actions = torch.Generator(self.device).manual_seed(seeds["actions"])
        self.noise = ShardedGenerator.of(share, self.actions)
        try:
            self._open()
        except BaseException:
            self._let_go()
            raise

    def _open(self) -> None:
        """Make or open the folder and what writes into it, once nothing else can be refused any more."""
        config, first = self.config, self.processes.first
        self.folder, existing, found, changed, alerts = self.processes.led(self._open_home)
        self.task_files = self.task.open(self.folder, self.alert)
        logs = found.content["logger"] if found else None
        self.logger = silent_logger()
        if first:
            self.logger = open_logger(config.logger, self.folder.path, self.folder.name, to_plain(config), logs)
        physics = self.game is not None and self.game.randomized
        self.progress = Progress(self.updates, shown=config.logger.progress and first, physics=physics)
        for text in alerts:
            self.alert(text)
        self.guard = Guard(config.guard, self.learner, adaptive_kl=config.ppo.adaptive_kl, alert=self.alert)
        self._saved_at = time.monotonic()
        if first:
            self.states.alert = self.alert
        if existing:
            self._resume(found, changed)

    def _open_home(
        self,
    ) -> tuple[RunFolder, bool, TrainingState | None, dict[str, tuple[Any, Any]], list[str]]:
        """The folder, whether it existed, its newest state, the options that have changed, and alerts."""
        home = open_home(self.config)
        self.lock, self.states, self.fingerprint = home.lock, home.states, home.fingerprint
        return home.folder, home.existed, home.found, home.changed, home.alerts

    def _resume(self, found: TrainingState | None, changed: dict[str, tuple[Any, Any]]) -> None:
        """Go back to the state that was `found`, and say what is different from then."""
        if found is None:
            if self.task_files:
                self.task_files.reset()
            self.say(begins_anew(changed))
            return
        reasons = inexact_reasons(found.summary, self)
        same = found.summary["num_envs"] == self.config.env.num_envs
        restore(self, found.content, episodes=same and has_episodes(found.summary))
        self.phase = found.summary["phase"]
        self.progress.skip(self.updates_done)
        self.say(f"resumed after update {self.updates_done} from {found.path.name}")
        for key, (before, now) in changed.items():
            self.say(f"option changed: {key} was {before} and is {now}")
        if reasons:
            self.say(f"inexact resume: {'; '.join(reasons)}")

    def say(self, text: str) -> None:
        """Tell the person at the terminal, and the log."""
        if not self.processes.first:
            return
        self.progress.say(text)
        self.logger.event(text)

    def alert(self, text: str) -> None:
        """Say that something is wrong although training goes on."""
        if not self.processes.first:
            return
        self.progress.say(f"alert: {text}")
        self.logger.event(text, kind="alert")

    def env_steps(self, plan: TrainingPlan) -> int:
        """Decisions of the learner up to the end of the update that `plan` is for, over all matches."""
        return (plan.update + 1) * self.steps_per_update

    def save(
        self,
        path: Path,
        plan: TrainingPlan,
        *,
        done: bool = True,
        interrupted: bool = False,
        leads: bool | None = None,
        contract: dict[str, Any] | None = None,
    ) -> None:
        """Write the policy to `path`, as it is after `plan`'s update, or before it where `done` is false.

        Only the process that `leads` does, by default the first; the others have the same policy. `contract` defaults
        to the task's.
        """
        if not (self.processes.first if leads is None else leads):
            return
        updates = plan.update + done
        training = {
            "run": self.folder.name,
            "seed": self.config.seed,
            "update": updates,
            "env_steps": updates * self.steps_per_update,
            "phase": plan.phase,
            "randomization": str(plan.randomization),
            "interrupted": interrupted,
            "config": to_plain(self.config),
        }
        training |= self.task.status().summary
        save_checkpoint(path, self.network, contract=contract or self.task.env.contract, training=training)

    def keep(self, path: Path, plan: TrainingPlan, *, done: bool = True, interrupted: bool = False) -> None:
        """Save the policy if that is possible; a full or vanished disk or a damaged manifest is an alert and no end."""
        try:
            self.save(path, plan, done=done, interrupted=interrupted)
        except OSError as error:
            self.alert(f"{path.name} is not saved ({error.strerror}); training goes on")
        except CheckpointError as error:
            self.alert(f"{path.name} is not saved ({error}); training goes on")

    def save_state(self, *, episodes: bool = True) -> None:
        """Publish the training state, and drop files that no kept state needs; where that fails, training goes on.

        Without `episodes`, which need all processes, a state of this update that is there already stays.
        """
        self._saved_at = time.monotonic()
        content = capture(self, episodes=episodes)
        if not self.processes.first or (not episodes and self.states.has(self.updates_done)):
            return
        try:
            self.states.publish(self.updates_done, content, summary(self, episodes=episodes))
            if self.task_files:
                self.task_files.delete_unused(name for state in self.states.summaries() for name in state["pool"])
        except OSError as error:
            self.alert(f"no training state is saved ({error.strerror}); training goes on, earlier states are whole")

    def roll_back(self) -> bool:
        """Go back to the newest good state but keep what the guard learned; False where there is none."""
        found = self.processes.led(lambda: self.states.latest())
        if found is None:
            return False
        restore(self, found.content, episodes=has_episodes(found.summary), guard=False)
        self.phase = found.summary["phase"]
        self.logger.rewind(found.content["logger"])
        self.progress.skip(self.updates_done)
        self.alert(f"rolled back to {found.path.name}")
        return True

    def state_is_due(self) -> bool:
        """Whether enough updates or minutes have passed for another training state, and the last update was sound."""
        minutes = self.config.checkpoint_minutes
        late = minutes > 0 and time.monotonic() - self._saved_at >= 60.0 * minutes
        due = late or self.updates_done % self.config.checkpoint_every == 0
        return self.guard.sound and self.processes.same(due)

    def close(self) -> None:
        """End the logs, the bar and all threads, and let another trainer in."""
        self.progress.close()
        self.logger.close()
        self._let_go()

    def _let_go(self) -> None:
        self.learner.close()
        self.task.env.close()
        if self.lock:
            self.lock.release()


def derive_seeds(seed: int) -> dict[str, int]:
    """One number in [0, 2^31) for each of `SEED_USES`."""
    words = np.random.SeedSequence(seed).generate_state(len(SEED_USES))
    return dict(zip(SEED_USES, (words >> 1).tolist(), strict=True))


def make_rollout(config: RunConfig, task: PPOTask, network: ActorCritic, steps: int = 0) -> Rollout:
    """Storage for `steps` of every episode in progress, by default for a whole update's."""
    steps = steps or config.ppo.rollout_steps
    truncations = -(-steps // task.env.longest_episode)
    sizes = (steps, task.env.num_envs, network.obs_dim, network.action_size)
    return Rollout(*sizes, device=network.log_std.device, max_truncations=truncations)
