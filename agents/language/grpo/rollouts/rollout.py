"""Rollouts: plans, drawn before the games are played; games played to their end; and the batches that come back.

A group is one position, forked into several games. Its seed fixes the moves up to the position and every draw after
the fork. The seating is fixed there, too, so the league may change while games are played. Plans and batches are plain
data for any process; training states hold unfinished plans (`write_jobs`).

In each step the models decide once for all games and seats, and the task applies all decisions together. A player that
cannot answer fails its game; the others continue, and the failure is counted.

The language models of a process are one base model, and a set of adapter weights for each player. The learner's weights
come with every plan. A frozen checkpoint's are read from its file at first use, and the base model is the network with
its adapters off. A player's weights are in place while it decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sparring.agents.language.backend import Backend, Decision, PromptError
from sparring.agents.language.decoding.constraint import constraint_of
from sparring.agents.language.decoding.forward import CacheCounts
from sparring.agents.language.grpo.matchmaking import Opponents, weights_path
from sparring.agents.language.models.adapters import BASE, LEARNER, Adapters, LoraShape, load_adapter
from sparring.agents.language.models.load import load_model
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.configs.core.errors import InputError
from sparring.configs.core.tensor_file import unpack
from sparring.configs.language import GRPOConfig
from sparring.configs.language.runs import GRPORunConfig
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER, League
from sparring.envs.text import GameEnding, GroupFacts, GroupPlan, Prompt, RolloutPlan, TextTask, text_game

Draw = Callable[[np.random.Generator], Opponents]
"""Function that draws the opponents of a hero."""
SELF_PLAY = Opponents((), ())
AT_OPENING = 0.2
"""Chance that no phase is played before the fork, besides the draw of their number; the original system's."""


def draw_plan(
    config: GRPOConfig,
    *,
    seats: int,
    step: int,
    policy_version: int,
    seed: int,
    draw: Draw,
    league: League,
) -> RolloutPlan:
    """Draw the plan of step number `step`; equal arguments give equal plans. Heroes rotate over the seats.

    `seats` is the number of seats in a game; with one seat, no opponent is drawn. Paths of checkpoints stay relative
    to the league's folder, so a plan in a training state is valid wherever its run lies.
    """
    rng = np.random.default_rng([seed, step])
    against_others = config.play == "league" and seats > 1
    groups = []
    for number in range(config.groups):
        hero = (step * config.groups + number) % seats
        if against_others:
            met = draw(rng)
            players = (*met.names[:hero], CHALLENGER, *met.names[hero:])
        else:
            met, players = SELF_PLAY, (CHALLENGER,) * seats
        heroes = (hero,) if against_others else tuple(range(seats))
        ratings = tuple(float(league[name].elo) for name in players)
        groups.append(GroupPlan(players, heroes, met.categories, ratings, **_course(config, rng)))
    names = sorted({name for group in groups for name in group.players})
    paths = tuple((name, league[name].path) for name in names if league[name].kind == "checkpoint")
    return RolloutPlan(step, policy_version, config.samples_per_group, tuple(groups), paths)


def _course(config: GRPOConfig, rng: np.random.Generator) -> dict[str, int]:
    """Draw the warm-up phases, the years played and the seed of a group's games."""
    opening = rng.random() < AT_OPENING
    phases = int(rng.integers(0, config.rollout_warmup_phases + 1))
    long = rng.random() < config.rollout_long_horizon_chance
    years = config.rollout_long_horizon_years if long else config.rollout_horizon_years
    return {"warmup_phases": 0 if opening else phases, "years": years, "seed": int(rng.integers(2**31))}


@dataclass(frozen=True)
class RolloutJob:
    """A plan and the weights to play it with."""

    plan: RolloutPlan
    weights: bytes


@dataclass(frozen=True)
class DecisionRecord:
    """Decision of the learner, with its game, seat and step of the rollout and the facts `before` it.

    `lines` is the number of lines in a complete answer.
    """

    decision: Decision
    game: int
    seat: int
    step: int
    before: GroupFacts
    lines: int


@dataclass
class RolloutBatch:
    """Result of one plan: `rewards` float64 [len(turns)]."""

    plan: RolloutPlan
    turns: list[DecisionRecord]
    rewards: np.ndarray
    endings: list[GameEnding]
    failed: int
    years: float
    seconds: float
    alerts: list[str] = field(default_factory=list)
    cache: dict[str, float] = field(default_factory=dict)
    """Prompt cache metrics, `cache/...`, of the process that played."""
    reload_seconds: float = 0.0
    """Time in which the weights of the plan were put in place."""
    game_metrics: dict[str, float] = field(default_factory=dict)
    """Metrics of the game, under its own names."""


def write_jobs(jobs: Sequence[RolloutJob]) -> list[dict[str, Any]]:
    """Return unfinished plans and their packed weights as plain data and tensors of bytes."""
    weights = [torch.frombuffer(bytearray(job.weights), dtype=torch.uint8) for job in jobs]
    return [{"plan": asdict(job.plan), "weights": data} for job, data in zip(jobs, weights, strict=True)]


def read_jobs(written: Sequence[Mapping[str, Any]], league: League) -> list[RolloutJob]:
    """Invert `write_jobs`: the plans of the next steps; lists from a file become tuples again.

    The paths of checkpoints are those in `league`: earlier versions stored absolute ones, which a moved run lacks.
    """
    jobs = []
    for job in written:
        plain = job["plan"]
        fields: list[dict[str, Any]] = [
            {name: tuple(value) if isinstance(value, list) else value for name, value in group.items()}
            for group in plain["groups"]
        ]
        groups = tuple(GroupPlan(**group) for group in fields)
        paths = tuple((name, league[name].path) for name, _ in plain["paths"])
        plan = RolloutPlan(plain["step"], plain["policy_version"], plain["samples"], groups, paths)
        jobs.append(RolloutJob(plan, job["weights"].numpy().tobytes()))
    return jobs


Fail = Callable[[set[int], str], None]
"""Callback for games that cannot continue, with the cause."""
Decided = list[tuple[Prompt, Decision]]
MOST_FROZEN = 64
"""Number of frozen players whose weights are kept in memory."""
NAMES = {CHALLENGER: LEARNER, BASE_MODEL: BASE}
"""Adapter names of two of the league's players."""


class Rollouts:
    """Player of plans on `task`; `backend_of` returns the model of a player by name."""

    def __init__(self, task: TextTask, backend_of: Callable[[str], Backend]) -> None:
        self.task, self._decide = task, partial(decide_all, backend_of)

    def play(self, plan: RolloutPlan) -> RolloutBatch:
        """Play the plan's games; the same plan and weights give the same batch."""
        started, task = time.perf_counter(), self.task
        task.reset(plan, self._decide)
        turns: list[DecisionRecord] = []
        step = 0
        while not task.over:
            answered = self._decide(task.prompts(), task.fail)
            turns += [
                DecisionRecord(decision, prompt.game, prompt.seat, step, prompt.facts, prompt.menu.lines)
                for prompt, decision in answered
                if prompt.facts is not None
            ]
            task.apply(answered)
            step += 1
        good = [turn for turn in turns if turn.game not in task.failed]
        paid = task.rewards() if good else np.zeros((0, 0, 0))
        return RolloutBatch(
            plan=plan,
            turns=good,
            rewards=np.array([paid[turn.step, turn.game, turn.seat] for turn in good]),
            endings=task.endings(),
            failed=len(task.failed),
            years=task.years(),
            seconds=time.perf_counter() - started,
            alerts=[f"a game failed: {why}" for why in sorted(set(task.failed.values()))],
            game_metrics=task.metrics(),
        )

    def close(self) -> None:
        """Release the task's resources."""
        self.task.close()


def decide_all(backend_of: Callable[[str], Backend], prompts: Sequence[Prompt], fail: Fail) -> Decided:
    """Return the decisions of all players, one player after another; later players skip failed games."""
    failed: set[int] = set()

    def note(games: set[int], why: str) -> None:
        failed.update(games)
        fail(games, why)

    decided: Decided = []
    for player in sorted({prompt.player for prompt in prompts}):
        selected = [prompt for prompt in prompts if prompt.player == player and prompt.game not in failed]
        decided += decide_batch(partial(backend_of, player), selected, note)
    return decided


def decide_batch(player: Callable[[], Backend], prompts: Sequence[Prompt], fail: Fail) -> Decided:
    """Return the decisions of `player` for its `prompts`.

    Games with an unreadable prompt are passed to `fail` with the cause, and the other prompts are submitted again. On
    any other `InputError` all games fail. A decision does not depend on the other prompts of the batch.
    """
    if not prompts:
        return []
    try:
        return list(zip(prompts, player().decide(prompts), strict=True))
    except PromptError as error:
        failed = {prompts[index].game for index in error.places}
        fail(failed, str(error))
        return decide_batch(player, [prompt for prompt in prompts if prompt.game not in failed], fail)
    except InputError as error:
        fail({prompt.game for prompt in prompts}, str(error))
        return []


class AdapterRolloutWorker:
    """Player of plans with the model that `config` names.

    `folder` is the run's, to which the paths of checkpoints in plans are relative. Raises `InputError` where it is
    not seen, and what `load_model` and `TransformersBackend` raise.
    """

    def __init__(self, config: GRPORunConfig, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(f"{folder}: not on this machine; set checkpoint_dir= to a disk shared by all nodes")
        self._folder = folder
        model, tokenizer = load_model(config.model, device=config.device)
        self._adapters = Adapters(model, LoraShape.of(config.model))
        game = text_game(config.game_id)
        constraint = constraint_of(tokenizer, game.format)
        self._backend = TransformersBackend.of(config.model, model, tokenizer, constraint=constraint)
        self._rollouts = Rollouts(game.task(config), self._backend_of)
        self._paths: dict[str, str] = {}
        self._backends: dict[str, TransformersBackend] = {}

    def play(self, plan: RolloutPlan, weights: bytes) -> RolloutBatch:
        """Play a plan with the learner's packed `weights`."""
        started = time.perf_counter()
        self._adapters.restore(unpack(weights))
        reloaded = time.perf_counter() - started
        self._paths = dict(plan.paths)
        for name in self._adapters.names[:-MOST_FROZEN]:
            self._adapters.remove(name)
        backend = self._backend_of(CHALLENGER)
        backend.policy_version, backend.counts = plan.policy_version, CacheCounts()
        batch = self._rollouts.play(plan)
        batch.cache, batch.reload_seconds = backend.counts.metrics(), reloaded
        return batch

    def close(self) -> None:
        """Stop the simulators' threads."""
        self._rollouts.close()

    def _backend_of(self, name: str) -> TransformersBackend:
        if name not in self._backends:
            self._backends[name] = self._backend.of_player(name, lambda: self._as(name))
        return self._backends[name]

    def _as(self, name: str) -> AbstractContextManager[Any]:
        """Return a context in which the model plays as `name`; a checkpoint is read at first use."""
        if name not in NAMES and name not in self._adapters.names:
            frozen = load_adapter(weights_path(self._folder, self._paths[name]), self._adapters.model)
            self._adapters.add(name, frozen.weights, frozen.shape)
        return self._adapters.playing(NAMES.get(name, name))
