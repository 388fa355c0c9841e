"""GRPO: play groups of games, compare their rewards within groups, and take policy gradient steps on the decisions.

Step t plans the games of step t + `grpo.buffer_depth` before it trains, with the current weights and league, so a run
is a function of its seed. A training state holds all of this, including the unfinished plans and their weights.

Of several processes (`torchrun`) each has the model, the league and all plans. It plays some of the batches and learns
from a part of every minibatch; process 0 evaluates and writes the files. So a run does not depend on their number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from sparring.agents.distributed.processes import ALONE, Processes, ProcessLostError, watching_exchanges
from sparring.agents.language.decoding.forward import check_finite
from sparring.agents.language.grpo import step as steps
from sparring.agents.language.grpo.inheritance import inherit
from sparring.agents.language.grpo.learner import GRPOLearner
from sparring.agents.language.grpo.matchmaking import draw_opponents, is_due
from sparring.agents.language.grpo.objective.loss import DisagreementError
from sparring.agents.language.grpo.overfit import OverfitCheck
from sparring.agents.language.grpo.rollouts import rollout
from sparring.agents.language.grpo.rollouts.workers import InProcess, SharedRollouts, Workers
from sparring.agents.language.grpo.sources import check_sources
from sparring.agents.language.models import adapters
from sparring.agents.language.models.load import load_model
from sparring.agents.run.fidelity import machine
from sparring.agents.run.fit import Trainer, save
from sparring.agents.run.fit import fit as common_fit
from sparring.agents.run.guard import GuardVerdict
from sparring.agents.run.progress import counted
from sparring.agents.run.session import RunSession
from sparring.agents.run.states import TrainingState
from sparring.configs.core.device import choose_device, keep_freed_memory, make_deterministic, set_threads
from sparring.configs.core.errors import ConfigError, InputError
from sparring.configs.core.tensor_file import pack, unpack
from sparring.configs.language.runs import GRPORunConfig, moving_shares
from sparring.curriculum.league.file import LeagueFile, read_league, write_league
from sparring.curriculum.league.league import League, enter_checkpoint, leave, new_league, record
from sparring.envs.game import game_with_id, plain_bot
from sparring.envs.text import RolloutPlan, text_game


class GRPOTrainer(Trainer):
    """Trainer of one run: the model with its adapters, the learner, the league and the rollout workers."""

    unit, cannot_save = "step", ""

    def __init__(self, config: GRPORunConfig, processes: Processes = ALONE) -> None:
        self.config, self.grpo, self.game = config, config.grpo, game_with_id(config.game_id)
        self.seats = config.check_game()
        self.processes, self.divided = processes, config.grpo.shard_model
        if config.overfit.enabled and not processes.alone:
            raise ConfigError("overfit.enabled=true: requires a single process; start it without torchrun")
        if config.grpo.shard_model and processes.alone:
            raise ConfigError(
                "grpo.shard_model=true: divides the model among processes; start it with torchrun, or set it to false"
            )
        self.device = choose_device(config.device, processes.local_rank)
        self.threads = set_threads(config.threads, processes.local_size)
        if config.deterministic:
            make_deterministic()
        keep_freed_memory()
        self.updates = min(self.grpo.steps, config.max_updates or self.grpo.steps)
        self.updates_done, self.decisions, self.years = 0, 0, 0.0
        self.slowest, self.slowest_reload = 0.0, 0.0
        """Seconds of the slowest rollout, and of the slowest change of its weights, since this process started."""
        model, tokenizer = load_model(config.model, device=str(self.device))
        self.adapters = adapters.Adapters(model, adapters.LoraShape.of(config.model), seed=config.seed)
        self._start_from(Path(config.model.adapter))
        check_finite(self.adapters.model)
        self.base = adapters.base_identity(self.adapters.model)
        self.evaluation = steps.ReferenceEvaluation(config, self.adapters, tokenizer, threads=self.threads)
        self.learner = GRPOLearner(
            self.adapters.model,
            self.adapters.parameters(),
            config,
            base=self.base,
            without_adapters=lambda: self.adapters.playing(adapters.BASE),
            seed=config.seed,
            processes=processes,
            divided=self.divided,
            seats=self.seats,
        )
        if self.divided:
            self.adapters.divide(self.device)
        self.overfit = OverfitCheck(config, self.adapters, tokenizer) if config.overfit.enabled else None
        self.players: InProcess | Workers | SharedRollouts | None = None

    def _start_from(self, path: Path) -> None:
        """Load the learner's adapter from a file, if there is one: it is of no use to a run with a training state."""
        adapter = self.processes.run_on_rank0(
            lambda: adapters.load_adapter(path.resolve(), self.adapters.model) if path.is_file() else None
        )
        if adapter is None:
            return
        try:
            self.adapters.restore(adapter.weights, adapter.shape)
        except adapters.AdapterError as error:
            raise adapters.AdapterError(f"model.adapter={path}: {error}") from error

    # ---- interface of `fit`

    @property
    def env_steps(self) -> int:
        """Number of decisions played."""
        return self.decisions

    def restore_or_init(self, session: RunSession) -> None:
        """Open the guard, the league and the workers, and load the training state that was found, if any."""
        self.session = session
        self._check_folder()
        self.guard = session.open_guard(self.config.guard, self.learner)
        self.league_file = LeagueFile(session.folder.path)
        session.on_state_saved = self._save_league
        if "grpo.steps" in session.changed:
            session.hint += f" grpo.steps={self.grpo.steps}"
        if session.found:
            self.load_state_dict(session.found)
        else:
            self.processes.run_on_rank0(lambda: check_sources(self.config))
            self.league = self.processes.run_on_rank0(self._first_league)
            self._open_players()
            if self.overfit:
                self.overfit.begin(self._plan(0))

    def nothing_left(self) -> str:
        """Return why no step is left, and which option allows more."""
        line = f"nothing left to do: {counted(self.updates_done, 'step')} done, {self.updates} asked for"
        if self.updates_done < self.grpo.steps:
            return f"{line} by max_updates, and grpo.steps={self.grpo.steps} allows more"
        moving = moving_shares(self.config.league)
        if moving:
            return (
                f"{line} by grpo.steps, at which {moving[0]} is reached; to train on, start another run with "
                f"model.adapter={self.final}"
            )
        return f"{line} by grpo.steps, regardless of max_updates; set grpo.steps=N to continue"

    def describe(self) -> Iterator[str]:
        """Yield one line with the sizes, the model and the machine."""
        trained = sum(parameter.numel() for parameter in self.learner.parameters.values())
        yield (
            f"{self.session.folder.path}: {counted(self.updates, 'step')} of {self.grpo.groups} groups x "
            f"{self.grpo.samples_per_group} games, {self.config.model.name} with {trained:,} trained weights, "
            f"{self.device}, {counted(self.threads, 'thread')}"
        )
        if self.overfit:
            yield from self.overfit.banner()

    def update(self) -> dict[str, float]:
        """Learn from the oldest batch, and record its results in the league.

        Raises `LearningFailed` if trainer and sampler disagree.
        """
        assert self.players is not None
        self._plan_ahead()
        job = self.players.tasks[0]
        try:
            with watching_exchanges():
                return self._step(job)
        except ProcessLostError:
            if self.players.tasks[:1] != [job]:  # the state that is saved now is from before this step
                self.players.tasks.insert(0, job)
            raise

    def _step(self, job: rollout.RolloutJob) -> dict[str, float]:
        """Play and learn from the batch of `job`."""
        assert self.players is not None
        started = time.perf_counter()
        batch = self.players.next()
        waited = time.perf_counter() - started
        for text in batch.alerts:
            self.session.alert(text)
        steps.check_batch(batch, step=self.updates_done, version=self.learner.version, depth=self.grpo.buffer_depth)
        self.guard.before(self.updates_done)
        started = time.perf_counter()
        metrics = self._learn(job, batch)
        metrics["benchmark/training_time_s"] = time.perf_counter() - started
        self.guard.after(self.updates_done, metrics)
        metrics |= self._results(batch)
        metrics["benchmark/pipeline_overlap_s"] = max(batch.seconds - waited, 0.0)
        if self.overfit:
            metrics |= self.overfit.add(batch.plan, batch, metrics)
        self.updates_done += 1
        return metrics

    def evaluate(self) -> dict[str, float]:
        """Evaluate against the fixed opponents, if due; an `InputError` becomes an alert."""
        self._evaluation: steps.ReferenceResult | None = None
        if self.guard.verdict is GuardVerdict.GO_ON and self.evaluation.is_due(self.updates_done):
            with watching_exchanges():
                # All processes together make a pass through a divided model, so all of them play.
                self._evaluation = self._check() if self.divided else self.processes.run_on_rank0(self._check)
        return self._evaluation.metrics if self._evaluation else {}

    def _check(self) -> steps.ReferenceResult | None:
        try:
            return self.evaluation.check()
        except InputError as error:
            self.session.alert(f"no check after step {self.updates_done}: {error}")
            return None

    def advance(self) -> None:
        """Enter the learner into the league, if due, and log and print the evaluation's table."""
        league = self.config.league
        if self.seats > 1 and is_due(self.updates_done, league.checkpoint_every, league.checkpoint_schedule):
            self._join_league()
        if self.overfit:
            self.session.progress.say(self.overfit.last_line())
        if self._evaluation and self.session.leads:
            self.session.logger.event(self._evaluation.table, kind="eval/summary_table")
            for line in self._evaluation.table.splitlines():
                self.session.progress.say(line)

    def headline(self, metrics: Mapping[str, float]) -> tuple[str, str]:
        """Return the trainer's name and a line with reward, the game's own numbers and KL."""
        figures = {"mean reward": ("benchmark/reward_mean", ".2f")}
        figures |= {f"mean {name}": (key, ".1f") for name, key in text_game(self.game.id).headline.items()}
        figures["mean KL"] = ("kl/mean", ".4f")
        parts = [f"{name} {metrics[key]:{form}}" for name, (key, form) in figures.items() if key in metrics]
        return "grpo", "; ".join(parts)

    def save_policy(self, path: Path, *, interrupted: bool = False) -> None:
        """Write the adapter; equal adapters give equal bytes, whether interrupted or not."""
        origin = {"run": self.session.folder.name, "seed": self.config.seed}
        origin |= {"step": self.updates_done, "decisions": self.decisions}
        adapters.save_adapter(path, self.adapters.model, self.adapters.shape, self.adapters.weights(), training=origin)

    def state_dict(self) -> dict[str, Any]:
        """Return the state between two steps."""
        return {
            "done": self.updates_done,
            "decisions": self.decisions,
            "years": self.years,
            "base": self.base,
            "learner": self.learner.state_dict(),
            "league": write_league(self.league),
            "tasks": rollout.write_jobs(self.players.tasks if self.players else []),
            **({"overfit": self.overfit.state_dict()} if self.overfit else {}),
        }

    def load_state_dict(self, state: TrainingState) -> None:
        """Continue from `state` with new workers; a league file that cannot be read is put aside and replaced.

        Checkpoints of the league whose files are lost leave it.
        """
        stored = state.content
        steps.check_base(state, self.adapters.model, self.config.model.name)
        damaged = self.processes.run_on_rank0(self.league_file.put_aside_damaged)
        if damaged:
            self.session.alert(f"{damaged}, and the league of {state.path.name} is used")
        self.learner.load_state_dict(self.learner.check(stored["learner"]))
        if self.overfit:
            self.overfit.load_state_dict(stored["overfit"])
        self.league = read_league(stored["league"])
        jobs = rollout.read_jobs(stored["tasks"], self.league)
        self.updates_done, self.decisions, self.years = stored["done"], stored["decisions"], stored["years"]
        lost = self.processes.run_on_rank0(
            lambda: steps.lost_checkpoints(self.league, self.session.folder.path, self.adapters.model)
        )
        for name, reason in lost.items():
            self.session.alert(f"{reason}; {name} leaves the league, and training continues without it")
        self.league = leave(self.league, lost)
        self.processes.run_on_rank0(lambda: self.league_file.restore(self.league))
        players = self._open_players()
        for job in jobs:
            if any(name in lost for group in job.plan.groups for name in group.players):  # with other opponents
                plan = replace(self._plan(job.plan.step), policy_version=job.plan.policy_version)
                job = replace(job, plan=plan)
            players.submit(job)

    def summary(self) -> dict[str, Any]:
        """Return plain data for the manifest of a state."""
        minibatch = partial(adapters.language_model_sha256, self.adapters.model, self.learner.parameters.values())
        deterministic = self.config.deterministic
        described = machine(self.device, deterministic=deterministic, minibatch=None if self.divided else minibatch)
        several = {} if self.processes.alone else {"processes": self.processes.size}
        return {"env_steps": self.decisions, "pool": [], **several, **described}

    def close(self) -> None:
        """Stop the workers."""
        if self.players:
            self.players.close()
        if self.overfit:
            self.overfit.close()

    # ---- the parts of a step

    def _open_players(self) -> InProcess | Workers | SharedRollouts:
        """Start idle workers in place of the present ones."""
        if self.players:
            self.players.close()
        self.players = self._new_players()
        return self.players

    def _new_players(self) -> InProcess | Workers | SharedRollouts:
        make = partial(rollout.AdapterRolloutWorker, folder=self.session.folder.path)
        config = self.config
        if not self.processes.alone:  # its own device and its part of the cores
            config = replace(config, device=str(self.device), threads=torch.get_num_threads())

        def open_players(alert: Callable[[str], None]) -> InProcess | Workers:
            return Workers(config, make, alert) if self.grpo.buffer_depth else InProcess(config, make)

        return (
            open_players(self.session.alert) if self.processes.alone else SharedRollouts(self.processes, open_players)
        )

    def _plan_ahead(self) -> None:
        """Submit the plans of all steps up to `buffer_depth` ahead that are not submitted yet."""
        assert self.players is not None
        planned = self.updates_done + len(self.players.tasks)
        for step in range(planned, min(self.updates_done + self.grpo.buffer_depth + 1, self.grpo.steps)):
            self.players.submit(rollout.RolloutJob(self._plan(step), pack(self.adapters.weights())))

    def _plan(self, step: int) -> RolloutPlan:
        """Return the plan of a step; in an overfit check every step has the groups of the first."""
        league, options, first = self.league, self.config.league, 0 if self.overfit else step
        plan = rollout.draw_plan(
            self.grpo,
            seats=self.seats,
            step=first,
            policy_version=self.learner.version,
            seed=self.config.seed,
            draw=lambda rng: draw_opponents(
                league, options, step=first, steps=self.grpo.steps, rng=rng, seats=self.seats - 1
            ),
            league=league,
        )
        return replace(plan, step=step)

    def _learn(self, job: rollout.RolloutJob, batch: rollout.RolloutBatch) -> dict[str, float]:
        """Learn from the batch of `job`; end the run if trainer and sampler disagree."""
        try:
            agreed = self.learner.agreement([turn.decision for turn in batch.turns], unpack(job.weights))
            return steps.learn_from(batch, self.learner, self.grpo, rate_scale=self.guard.rate_scale) | agreed
        except DisagreementError as error:
            if self.guard.sound and self.players:  # this step has changed no weights yet
                self.players.tasks.insert(0, job)
                save(self, self.session)
            reason = f"{error}; if they are meant to differ, use grpo.use_importance_correction=true"
            self.session.give_up(self.updates_done, {}, reason)

    def _results(self, batch: rollout.RolloutBatch) -> dict[str, float]:
        """Record the games in the league and return their metrics."""
        assert self.players is not None
        met = steps.league_results(batch)
        self.league = record(self.league, met)
        self.decisions += len(batch.turns)
        self.years += batch.years
        self.slowest = max(self.slowest, batch.seconds)
        self.slowest_reload = max(self.slowest_reload, batch.reload_seconds)
        metrics = steps.step_metrics(batch, self.league, met)
        metrics |= {"buffer/depth": float(self.grpo.buffer_depth), "rollout/restarts": float(self.players.restarts)}
        metrics |= {"rollout/max_total_s": self.slowest, "rollout/max_volume_reload_s": self.slowest_reload}
        metrics |= {"power_law/cumulative_simulated_years": self.years}
        return metrics

    def _join_league(self) -> None:
        """Enter the current learner into the league as a frozen opponent."""
        path = self.session.folder.path / f"step_{self.updates_done:06d}.pt"
        saved = self.processes.broadcast(self.session.keep(path, lambda: self.save_policy(path)))
        if saved and f"checkpoint_{self.updates_done:06d}" not in self.league.agents:
            self.league = enter_checkpoint(self.league, step=self.updates_done, path=path.name)

    def _save_league(self) -> None:
        """Write the league for readers outside the run, with each training state; a failure is only an alert."""
        try:
            self.league_file.restore(self.league)
        except OSError as error:
            self.session.alert(f"the league was not saved ({error.strerror}); training continues")

    def _check_folder(self) -> None:
        """Raise `ConfigError` if a process does not see the run's folder, which holds the league's players."""
        folder = self.session.folder.path
        blind = self.processes.largest(0 if folder.is_dir() else self.processes.rank)
        if blind:
            raise ConfigError(
                f"checkpoint_dir={self.config.checkpoint_dir}: process {blind} cannot access {folder}, where the "
                "league's players are; use a folder shared by all machines"
            )

    def _first_league(self) -> League:
        """Return the existing league, else a new one, which starts from another run's with `league.inherit`."""
        config, folder = self.config.league, self.session.folder.path
        if self.league_file.path.exists():
            return self.league_file.read()
        names, ratings = self.game.default_bots, config.starting_ratings
        if config.bots == "original":
            variants = {plain_bot(name): name for name in self.game.variants}
            names = tuple(variants.get(name, name) for name in names)
        league = new_league(names, self.base, players=config.players, initial_elo=config.initial_elo, ratings=ratings)
        if config.inherit:
            also = (adapters.first_identity(self.adapters.model),)
            league = inherit(league, folder, folder.parent / config.inherit, also=also)
        self.league_file.restore(league)
        return league


def fit(trainer: GRPOTrainer, session: RunSession) -> Path:
    """Train, and return the path of the final policy; raises `SystemExit` with 1 if the overfit check fails."""
    final = common_fit(trainer, session)
    if trainer.overfit and trainer.over and not trainer.overfit.conclude(session):
        raise SystemExit(1)
    return final
