"""PPO: collect a rollout, estimate advantages, take clipped surrogate steps, under a schedule of opponents and physics.

Every use of randomness has its own generator, seeded from `config.seed`. Additional draws of one kind, such as an extra
evaluation, do not change the others. A training state holds network, optimizer and scaler, the position in the
schedule, every generator, and the task's state. On a CPU with the same number of torch threads a continued run is
identical bit for bit. With several processes, each trainer has its shard of the episodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from sparring.agents.distributed.processes import (
    ALONE,
    Processes,
    ShardedGenerator,
    derive_seeds,
    restore_generator,
)
from sparring.agents.policies.checkpoint import save_checkpoint
from sparring.agents.policies.networks import PolicyNetwork, build_network, shape_for
from sparring.agents.policies.styles import plain_network
from sparring.agents.ppo.learner import Autocast, PPOLearner
from sparring.agents.ppo.start import actor_critic_sha256, begin_from, estimate_seconds
from sparring.agents.ppo.tasks.task import make_task
from sparring.agents.run.fidelity import machine
from sparring.agents.run.fit import Trainer
from sparring.agents.run.progress import Timer, counted, forecast
from sparring.agents.run.session import RunSession
from sparring.agents.run.states import TrainingState
from sparring.configs.core.device import choose_device, keep_freed_memory, make_deterministic, set_threads
from sparring.configs.schema import EventConfig, PPORunConfig
from sparring.configs.serialization import to_plain
from sparring.curriculum.general_sum import general_sum_note
from sparring.curriculum.opponents import labelled_phases
from sparring.curriculum.schedule import Schedule, TrainingPlan
from sparring.envs.game import WIN_RATE, game_of, load

MOVES = {"rollout/itself/length": "{:.1f} moves a match", "train/entropy": "entropy {:.2f}"}
"""Figures of the progress line by their metrics, beside the task's: where no bot is played, all that moves."""
STYLES = "styles"
"""Folder of the final policy's styles, each as a separate policy."""
OF_EXPLOITERS = ("entropy", "approx_kl", "explained_variance")
"""Metrics of an exploiter's updates, separate from the learner's."""
EXPLOITABILITY = "eval/exploitability"
SEED_USES = ("network", "env", "actions", "opponents", "shuffle", "league", "checks")
"""Uses of randomness; `agents.ppo.tasks.task.SEEDS` are the task's."""


class PPOTrainer(Trainer):
    """Network, learner, rollout storage, task and schedule of one run.

    `plan` is the latest update's plan.
    """

    unit = "update"
    plan: TrainingPlan

    def __init__(self, config: PPORunConfig, processes: Processes = ALONE) -> None:
        self.config, self.processes = config, processes
        self.device = choose_device(config.device, processes.local_rank)
        self.threads = set_threads(config.threads, processes.local_size, halves=True)
        if config.deterministic:
            make_deterministic()
        keep_freed_memory()
        seeds = derive_seeds(config.seed, SEED_USES)
        self.schedule = Schedule(labelled_phases(config))
        self.updates = min(self.schedule.total_updates, config.max_updates or self.schedule.total_updates)
        self.updates_done, self.phase = 0, config.phases[0].name
        self.steps_per_update = config.ppo.rollout_steps * config.env.num_envs
        self.task = make_task(config, self.device, self.threads, seeds=seeds, processes=processes)
        self.cannot_save = self.task.env.unsaved
        self.game = game_of(config.env.id)
        self.randomizes = self.game is not None and bool(self.game.physics)
        """Whether this game has physics that a plan can randomize."""
        self.shard = processes.share(config.env.num_envs)
        self.network = build_network(shape_for(self.task.env.contract, config.network), seed=seeds["network"])
        self.network.to(self.device)
        self.autocast = Autocast(config.ppo.precision, self.device, warmup_updates=config.ppo.warmup_updates)
        self.learner = PPOLearner(
            self.network,
            config.ppo,
            self.autocast,
            seed=seeds["shuffle"],
            threads=self.threads,
            processes=processes,
        )
        self.rollout = self.learner.new_rollout(self.task.env, config.ppo.rollout_steps)
        self.actions = torch.Generator(self.device).manual_seed(seeds["actions"])
        self.noise = ShardedGenerator.of(self.shard, self.actions)
        self.exploiters: Any = None
        """`agents.population.exploiters.Exploiters`, if configured."""

    @property
    def exploiting(self) -> bool:
        """Whether the update is one of an exploiter."""
        return self.exploiters is not None and self.exploiters.active

    @property
    def released(self) -> PolicyNetwork:
        """The policy that is saved and evaluated."""
        if self.exploiters:
            network: PolicyNetwork = self.exploiters.released
            return network
        return self.learner.released if self.learner.average else self.network

    # ---- the interface of `fit`

    @property
    def over(self) -> bool:
        """True if the schedule has ended or `max_updates` are done."""
        return self.updates_done >= self.updates

    @property
    def env_steps(self) -> int:
        """Decisions of the learner over all episodes, up to the end of `plan`'s update."""
        return (self.plan.update + 1) * self.steps_per_update

    def restore_or_init(self, session: RunSession) -> None:
        """Open the task's files and the guard, and continue from the session's state, if any."""
        self.session = session
        self.task_files = self.task.open(
            session.folder, session.alert, lambda name, draw: session.film(self.env_steps, name, draw)
        )
        self.guard = session.open_guard(self.config.guard, self.learner, adaptive_kl=self.config.ppo.adaptive_kl)
        session.on_state_saved = self._sweep
        if self.config.self_play.exploiter_every:
            self.exploiters = load("sparring.agents.population.exploiters:open_exploiters")(self)
        if session.found:
            self.load_state_dict(session.found)
        else:
            if session.existed and self.task_files:  # of an earlier start
                self.task_files.reset()
            if self.config.init_from:
                session.say(begin_from(self.config, self.network, self.task.env, self.processes))
        update = self.updates_done - self.over  # the last finished one at the end
        self.plan = self.schedule.plan(update, self.task.status().win_rates)

    def nothing_left(self) -> str:
        """Return a message with the number of updates configured, and the option that allows more."""
        done, total, phases = self.updates_done, self.schedule.total_updates, self.config.phases
        line = f"nothing left to do: {counted(done, 'update')} done, {self.updates} asked for"
        if done < total:
            return f"{line} by max_updates; raise it, or set max_updates=0 for all {total} of the schedule"
        limit = self.config.max_updates
        needed = max(done + 1, limit) - total + phases[-1].updates
        short = f", which max_updates={limit} does not extend" if limit > total else ""
        return f"{line} by the schedule{short}; to continue, set phases.{len(phases) - 1}.updates={needed} or more"

    def describe(self) -> Iterator[str]:
        """Yield lines on sizes, the machine, and the estimated duration."""
        network, weights = self.config.network, sum(p.numel() for p in self.network.parameters())
        yield (
            f"{self.session.folder.path}: {counted(self.updates, 'update')}, "
            f"{self.updates * self.steps_per_update:,} env steps, network {network.hidden}h/{network.blocks}b "
            f"({weights:,} weights), {self.device}, {counted(self.threads, 'thread')}"
        )
        if self.autocast.note:
            yield self.autocast.note
        yield from self.task.env.notes
        if note := general_sum_note(self.config):
            yield note
        seconds = estimate_seconds(self.config, self.network, self.rollout, updates=self.updates, threads=self.threads)
        yield f"{forecast(seconds)}Ctrl-C stops it and keeps the policy"

    def update(self) -> dict[str, float]:
        """Set up opponents and physics, collect a rollout, learn from it, and record its results."""
        self.plan = self.schedule.plan(self.updates_done, self.task.status().win_rates)
        self._timer = Timer()
        self._prepare()
        with self._timer.part("rollout"):
            self._simulator_seconds = self._collect()
        with self._timer.part("update"):
            metrics = self._learn()
        if self.exploiting:
            metrics = {f"exploiter/{name}": metrics[f"train/{name}"] for name in OF_EXPLOITERS}
            return metrics | self.task.results(self.plan)
        return metrics | self._results()

    def evaluate(self) -> dict[str, float]:
        """Play the evaluations and save the checkpoints that are due, and measure the speed."""
        plan, folder = self.plan, self.session.folder
        metrics, improved = ({}, False) if self.exploiting else self.task.evaluate(plan, self.released)
        if metrics:
            self._report_evaluation(metrics)
        if (plan.update + 1) % self.config.checkpoint_every == 0:
            self._keep(folder.step(self.env_steps))
        if improved:
            self._keep(folder.best)
        speed = self._timer.metrics(steps=self.steps_per_update, simulator_seconds=self._simulator_seconds)
        quarantined = float(self.processes.add_up(self.task.env.quarantined.clone()))
        return metrics | speed | {"guard/quarantined_matches": quarantined}

    def advance(self) -> None:
        """Count the update as done."""
        self.phase, self.updates_done = self.plan.phase, self.plan.update + 1

    def headline(self, metrics: Mapping[str, float]) -> tuple[str, str]:
        """Return phase and physics, and the task's standing, what moves in any game, and the speed."""
        physics = f" ({self.plan.randomization})" if self.randomizes else ""
        parts = [self.task.status(self.plan).headline]
        parts += [form.format(metrics[key]) for key, form in MOVES.items() if key in metrics]
        parts.append(f"{metrics['time/steps_per_second']:,.0f} steps/s")
        return f"phase {self.plan.phase}{physics}", "; ".join(filter(None, parts))

    def save_policy(self, path: Path, *, interrupted: bool) -> None:
        """Write the policy after the last finished update."""
        # `plan` may already be the next update's, or the plan of an update that the guard reverted.
        plan = replace(self.plan, update=self.updates_done - 1, phase=self.phase)
        self.write_policy(path, plan, interrupted)
        for style in range(self.config.network.styles):
            alone = path.parent / STYLES / f"style_{style}.pt"
            alone.parent.mkdir(exist_ok=True)
            self.write_policy(alone, plan, interrupted, network=plain_network(self.released, style))

    def write_policy(
        self,
        path: Path,
        plan: TrainingPlan,
        interrupted: bool = False,
        *,
        done: bool = True,
        contract: dict[str, Any] | None = None,
        network: PolicyNetwork | None = None,
    ) -> None:
        """Write the policy after `plan`'s update, or before it if `done` is false.

        `contract` defaults to the task's, `network` to `released`.
        """
        updates = plan.update + done
        training = {
            "run": self.session.folder.name,
            "seed": self.config.seed,
            "update": updates,
            "env_steps": updates * self.steps_per_update,
            "phase": plan.phase,
            "randomization": str(plan.randomization),
            "interrupted": interrupted,
            "config": to_plain(self.config),
        }
        training |= self.task.status().summary
        save_checkpoint(path, network or self.released, contract=contract or self.task.env.contract, training=training)

    def state_dict(self) -> dict[str, Any]:
        """Return the state between two updates; without the episodes once another process is lost."""
        done, left = self.updates_done, self.updates_done < self.schedule.total_updates
        return {
            "updates": done,
            "position": dict.fromkeys(("update", "clock", "since"), done) if left else None,  # for earlier versions
            "learner": self.learner.state_dict(),
            "actions": self.actions.get_state(),
            **({"exploiters": self.exploiters.state_dict()} if self.exploiters else {}),
            **self.task.state_dict(episodes=not self.session.peer_lost),
        }

    def load_state_dict(self, state: TrainingState) -> None:
        """Continue from `state`; episodes restart if it stores none or a different number of them."""
        stored, about = state.content, state.summary
        self.learner.load_state_dict(self.learner.check(stored["learner"]))
        restore_generator(self.actions, stored["actions"], "actions")
        episodes = about["episodes"] and about["num_envs"] == self.config.env.num_envs
        self.task.load_state_dict(stored, episodes=episodes)
        if self.exploiters:
            self.exploiters.load_state_dict(stored["exploiters"], episodes=episodes)
        self.updates_done, self.phase = stored["updates"], about["phase"]

    def summary(self) -> dict[str, Any]:
        """Return plain data for the manifest of a state."""
        next_precision = self.autocast.context(self.updates_done)
        replay = partial(actor_critic_sha256, self.network, next_precision)
        return {
            "env_steps": self.updates_done * self.steps_per_update,
            "phase": self.phase,
            "num_envs": self.config.env.num_envs,
            "episodes": not self.session.peer_lost,
            "processes": self.processes.size,
            **machine(self.device, deterministic=self.config.deterministic, minibatch=replay),
            "pool": self.task_files.files() if self.task_files else [],
        }

    def close(self) -> None:
        """End all threads."""
        self.learner.close()
        self.task.env.close()

    # ---- the parts of an update

    def _prepare(self) -> None:
        """Apply the plan's events, then set up the game."""
        plan = self.plan
        if plan.bots and (plan.phase_update == 0 or plan.events):
            physics = f", physics {plan.randomization}" if self.randomizes else ""
            self.session.say(f"phase {plan.phase}, update {plan.update}: {', '.join(plan.bots)}{physics}")
        for event in plan.events:
            self._apply(event)
        if self.exploiters and (line := self.exploiters.turn(plan.update)):
            self.session.say(line)
        self.task.prepare(plan, self.network)

    def _apply(self, event: EventConfig) -> None:
        """Save a snapshot under its own name, then reset exploration."""
        if event.snapshot:
            self._keep(self.session.folder.named(event.snapshot), done=False)
        if event.log_std is not None:
            self.learner.reset_log_std(event.log_std)

    def _collect(self) -> float:
        """Play a rollout and compute its advantages; return the seconds spent in the simulator."""
        ppo = self.config.ppo
        self.task.env.simulator_seconds = 0.0
        hold = (ppo.gsde_every or ppo.rollout_steps) if self.config.network.gsde else 0
        with self.autocast.context(self.plan.update):
            self.rollout.collect(self.task.env, self.network, self.noise, hold=hold)
        self.rollout.finish(partial(self.learner.judge, number=self.plan.update), ppo.gamma, ppo.gae_lambda)
        return self.task.env.simulator_seconds

    def _learn(self) -> dict[str, float]:
        """Train the policy on the rollout and run the guard; both coefficients are annealed over the run."""
        ppo, done = self.config.ppo, self.plan.update / max(self.schedule.total_updates - 1, 1)
        final = 1.0 if ppo.adaptive_kl > 0 else ppo.final_learning_rate_fraction
        learning_rate = anneal(ppo.learning_rate, final, done) * self.guard.rate_scale
        falling = max(done - ppo.entropy_falls_from, 0.0) / (1.0 - ppo.entropy_falls_from)
        if self.exploiting:
            learning_rate, falling = ppo.learning_rate * self.guard.rate_scale, 1.0
        entropy_coefficient = anneal(ppo.entropy_coefficient, ppo.final_entropy_fraction, falling)
        self.guard.before(self.plan.update)
        metrics = self.learner.update(
            self.rollout.flat(),
            number=self.plan.update,
            learning_rate=learning_rate,
            entropy_coefficient=entropy_coefficient,
            key=None if self.shard.whole else self.rollout.key(self.shard),
        )
        self.guard.after(self.plan.update, metrics)
        return metrics | {"train/learning_rate": learning_rate, "train/entropy_coefficient": entropy_coefficient}

    def _results(self) -> dict[str, float]:
        """Record the results of the rollout's episodes, as metrics."""
        reward, actions = map(self.rollout.complete, (self.rollout.reward, self.rollout.actions))
        metrics = {"rollout/reward": float(reward.mean())}
        if self.network.continuous:
            metrics["rollout/action_size"] = float(actions[:, : self.network.continuous].abs().mean())
        count = reward.numel()
        weight = count / self.processes.means([count])[0]  # of seats that decide in turn, processes have unlike numbers
        means = self.processes.means([weight * value for value in metrics.values()])
        metrics = dict(zip(metrics, means, strict=True))
        return metrics | self.task.results(self.plan)

    def _report_evaluation(self, metrics: Mapping[str, float]) -> None:
        """Print and log the win rates against the bots, and the exploitability, if they were measured."""
        plan = self.plan
        rates = {bot: metrics[key] for bot in plan.bots if (key := f"eval/{bot}/win_rate") in metrics}
        if not rates:
            return
        win = self.game.win if self.game else WIN_RATE
        parts = [f"{win}: {', '.join(f'{bot} {rate:.0%}' for bot, rate in rates.items())}"]
        if EXPLOITABILITY in metrics:
            parts.append(f"exploitability {metrics[EXPLOITABILITY]:.3f}")
        self.session.say(f"check after update {plan.update}, {'; '.join(parts)}")

    def _keep(self, path: Path, *, done: bool = True) -> None:
        self.session.keep(path, lambda: self.write_policy(path, self.plan, done=done))

    def _sweep(self) -> None:
        """Delete the task's files that no kept state needs."""
        if self.task_files:
            self.task_files.delete_unused(name for state in self.session.states.summaries() for name in state["pool"])


def anneal(start: float, final_fraction: float, done: float) -> float:
    """Interpolate a coefficient from `start` to `final_fraction` of it, linearly in `done` in [0, 1]."""
    return start * (1.0 - done * (1.0 - final_fraction))
