"""One GRPO step on a batch of games, the evaluation of the learner, and what a resumed run is checked against.

A step computes advantages within groups, takes the learner's step, and returns league results and metrics. In an
evaluation the game chooses the opponents (`TextGame.references`): in Diplomacy, six DumbBots and six copies of the base
model, against one learner. Every evaluation plays the same games with greedy decoding, so two evaluations differ only
by what was learned. `eval/run.py` plays more games and reports confidence intervals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sparring.agents.language.backend import FALLBACK
from sparring.agents.language.decoding.constraint import constraint_of
from sparring.agents.language.grpo.learner import GRPOLearner, Sample
from sparring.agents.language.grpo.matchmaking import Opponents, league_metrics, weights_path
from sparring.agents.language.grpo.objective.advantages import (
    advantages,
    group_ids,
    mixed_share,
    next_baseline,
    role_advantages,
)
from sparring.agents.language.grpo.rollouts.rollout import RolloutBatch
from sparring.agents.language.models.adapters import BASE, LEARNER, AdapterError, Adapters, identity_like, load_adapter
from sparring.agents.language.transformers_backend import TransformersBackend
from sparring.agents.run.states import StateError, TrainingState
from sparring.configs.core.errors import InputError
from sparring.configs.language import ROLE, GRPOConfig
from sparring.configs.language.runs import GRPORunConfig
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER, League
from sparring.curriculum.ratings import GameResult, by_player
from sparring.envs.text import ReferenceTable, text_game


def check_batch(batch: RolloutBatch, *, step: int, version: int, depth: int) -> None:
    """Check that a batch belongs to `step` and its weights are at most `depth` versions older than `version`.

    Raises `RuntimeError` otherwise, and `InputError` if every game failed.
    """
    lag = version - batch.plan.policy_version
    if batch.plan.step != step or not 0 <= lag <= depth:
        raise RuntimeError(f"step {step} got the batch of step {batch.plan.step}, {lag} versions old")
    if not batch.endings:
        raise InputError(f"step {step}: every game failed; {batch.alerts[0] if batch.alerts else 'no reason given'}")


def learn_from(batch: RolloutBatch, learner: GRPOLearner, grpo: GRPOConfig, *, rate_scale: float) -> dict[str, float]:
    """Compute advantages, take the learner's step, and return the metrics of both."""
    facts = [turn.before for turn in batch.turns]
    ids = group_ids(facts, stratified=grpo.use_state_stratified_groups)
    rewards, baseline = torch.tensor(batch.rewards, dtype=torch.float64), learner.role_baseline
    if grpo.baseline == ROLE:
        seat, game = (torch.tensor([getattr(turn, key) for turn in batch.turns]) for key in ("seat", "game"))
        baseline = next_baseline(baseline, rewards, seat, game)
        advantage = role_advantages(rewards, seat, baseline, grpo)
    else:
        advantage = advantages(rewards, ids, grpo)
    values = advantage.values.tolist()
    used = advantage.used.nonzero().flatten().tolist()
    samples = [Sample(batch.turns[index].decision, values[index]) for index in used]
    metrics = learner.learn(samples, rate_scale=rate_scale)
    learner.role_baseline = baseline  # after the step, which may be repeated if it fails
    lag = learner.version - 1 - batch.plan.policy_version
    extra = {"processing/mixed_share": mixed_share(facts, ids), "buffer/lag": float(lag)}
    return advantage.metrics | metrics | extra | {"train/learning_rate": grpo.learning_rate * rate_scale}


def league_results(batch: RolloutBatch) -> list[GameResult]:
    """Return the games between different players by their final scores, as the league records them."""
    return [
        by_player(ending.players, ending.finals or ending.scores)
        for ending in batch.endings
        if len(set(ending.players)) > 1
    ]


def step_metrics(batch: RolloutBatch, league: League, met: list[GameResult]) -> dict[str, float]:
    """Return the metrics of a batch's games and of the league after the results `met`."""
    groups = batch.plan.groups
    drawn = [
        Opponents(tuple(name for name in group.players if name != CHALLENGER), group.categories)
        for group in groups
        if group.categories
    ]
    metrics = rollout_metrics(batch)
    metrics |= league_metrics(league, drawn, met)
    metrics["power_law/simulated_years_per_step"] = batch.years
    metrics["power_law/reward_at_compute"] = metrics.get("benchmark/reward_mean", 0.0)
    return metrics


def rollout_metrics(batch: RolloutBatch) -> dict[str, float]:
    """Return the metrics of a batch, the game's own last."""
    groups = batch.plan.groups
    metrics = {
        "benchmark/trajectories": float(sum(len(groups[ending.group].heroes) for ending in batch.endings)),
        "benchmark/rollout_time_s": batch.seconds,
        "rollout/failed_count": float(batch.failed),
        "game/total_games": float(len(batch.endings)),
    }
    if len(batch.rewards):
        metrics |= {"benchmark/reward_mean": float(np.mean(batch.rewards))}
        metrics |= {"benchmark/reward_std": float(np.std(batch.rewards))}
    return metrics | _extraction(batch) | batch.cache | batch.game_metrics


def _extraction(batch: RolloutBatch) -> dict[str, float]:
    """Count requested and extracted lines; they differ only if an unconstrained model failed."""
    expected = sum(turn.lines for turn in batch.turns)
    good = [turn for turn in batch.turns if turn.decision.finish_reason != FALLBACK]
    extracted = sum(len(turn.decision.chosen) for turn in good)
    return {
        "extraction/rate": extracted / expected if expected else 1.0,
        "extraction/orders_expected": float(expected),
        "extraction/orders_extracted": float(extracted),
        "extraction/empty_responses": float(len(batch.turns) - len(good)),
        "extraction/partial_responses": float(sum(len(turn.decision.chosen) < turn.lines for turn in good)),
    }


@dataclass(frozen=True)
class ReferenceResult:
    """Metrics of one evaluation, and the same numbers as a markdown table."""

    metrics: dict[str, float]
    table: str


class ReferenceEvaluation:
    """Evaluations of the learner adapter in `adapters`; `tokenizer` is the tokenizer of its model."""

    def __init__(self, config: GRPORunConfig, adapters: Adapters, tokenizer: Any, *, threads: int) -> None:
        self._config, self._threads = config, threads
        if config.evaluation.every:
            self._game = text_game(config.game_id)
            constraint = constraint_of(tokenizer, self._game.format)
            names = {CHALLENGER: LEARNER, BASE_MODEL: BASE}
            self._models = {
                name: TransformersBackend.of(
                    replace(config.model, temperature=0.0),
                    adapters.model,
                    tokenizer,
                    constraint=constraint,
                    playing=partial(adapters.playing, inner),
                    name=name,
                )
                for name, inner in names.items()
            }

    def is_due(self, done: int) -> bool:
        """Return whether an evaluation follows after `done` completed steps."""
        interval = self._config.evaluation.every
        return interval > 0 and done % interval == 0

    def check(self) -> ReferenceResult:
        """Play all games and return their results. Raises `InputError` if the model cannot answer."""
        played = self._game.references(
            self._config, self._models, learner=CHALLENGER, base=BASE_MODEL, threads=self._threads
        )
        metrics = {
            f"eval/{played.prefix}{name}/{key}": value
            for name, part in played.found.items()
            for key, value in part.items()
        }
        return ReferenceResult(metrics, _table(played))


def _table(played: ReferenceTable) -> str:
    head = [played.heading, "games", *played.columns.values()]
    rows = [
        [name, str(played.games), *(f"{part[key]:.3g}" for key in played.columns)]
        for name, part in played.found.items()
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows))


def check_base(state: TrainingState, model: Any, name: str) -> None:
    """Raise `StateError` unless the state was trained on the base of `model`, called `name`.

    Older states that do not record their base model are not checked.
    """
    before = state.content.get("base")
    if before is not None and before != (now := identity_like(before, model)):
        raise StateError(
            f"{state.path}: was trained on the base model {before}, but model.name={name} is now {now}; "
            "restore that model, or start a new run with another name="
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
