"""Metrics of a rollout: games, answers and prompt cache; the names are listed in docs/metrics.md."""

from __future__ import annotations

import numpy as np

from sparring.agents.grpo.rollouts.rollout import RolloutBatch
from sparring.agents.llm.backend import STOP


def rollout_metrics(batch: RolloutBatch) -> dict[str, float]:
    """Return the metrics of a batch, those of its game last."""
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
    good = [turn for turn in batch.turns if turn.decision.finish_reason == STOP]
    extracted = sum(len(turn.decision.chosen) for turn in good)
    return {
        "extraction/rate": extracted / expected if expected else 1.0,
        "extraction/orders_expected": float(expected),
        "extraction/orders_extracted": float(extracted),
        "extraction/empty_responses": float(len(batch.turns) - len(good)),
        "extraction/partial_responses": float(sum(len(turn.decision.chosen) < turn.lines for turn in good)),
    }
