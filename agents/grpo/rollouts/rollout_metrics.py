"""What a rollout looked like, in numbers: games, places, prompts, reading; names are listed in docs/metrics.md."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparring.agents.grpo.rollouts.rollout import Ending, RolloutBatch
from sparring.agents.llm.backend import STOP
from sparring.curriculum.ratings.game_results import ranks
from sparring.envs.diplomacy.board.codes import SOLO

TOP = 3
DUMBBOT = "dumbbot"


def rollout_metrics(batch: RolloutBatch, heroes: Sequence[tuple[int, ...]], win_at: int) -> dict[str, float]:
    """Metrics of a batch; `heroes` are the learning powers of each group, `win_at` the centres that earn the bonus."""
    seats = [(ending, power) for ending in batch.endings for power in heroes[ending.group]]
    dumbbot = [(ending, power) for ending, power in seats if _against_dumbbots(ending, power)]
    metrics = {
        "benchmark/trajectories": float(len(seats)),
        "benchmark/rollout_time_s": batch.seconds,
        "rollout/failed_count": float(batch.failed),
        "game/total_games": float(len(batch.endings)),
    }
    if len(batch.rewards):
        metrics |= {"benchmark/reward_mean": float(np.mean(batch.rewards))}
        metrics |= {"benchmark/reward_std": float(np.std(batch.rewards))}
    metrics |= _extraction(batch) | batch.cache
    if seats:
        places = [_place(ending, power) for ending, power in seats]
        held = [ending.centres[power] for ending, power in seats]
        metrics["game/avg_sc_count"] = float(np.mean(held))
        metrics["game/win_bonus_rate"] = float(np.mean([_wins(e, p, win_at) for e, p in seats]))
        metrics |= {"placement/mean_rank": float(np.mean(places)), "placement/top3_rate": _share(places, TOP)}
    if dumbbot:
        places = [_place(ending, power) for ending, power in dumbbot]
        metrics["dumbbot/win_rate"] = float(np.mean([e.centres[p] >= SOLO for e, p in dumbbot]))
        metrics["dumbbot/top3_rate"] = _share(places, TOP)
        metrics["dumbbot/avg_sc_count"] = float(np.mean([ending.centres[power] for ending, power in dumbbot]))
    return metrics


def _extraction(batch: RolloutBatch) -> dict[str, float]:
    """Orders asked for and got: all of them, unless a model that has no constraint failed."""
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


def _against_dumbbots(ending: Ending, power: int) -> bool:
    return all(name == DUMBBOT for other, name in enumerate(ending.players) if other != power)


def _place(ending: Ending, power: int) -> int:
    return ranks(ending.centres)[power]


def _wins(ending: Ending, power: int, win_at: int) -> bool:
    """Whether nobody has as many centres, and they are enough."""
    own = ending.centres[power]
    return own >= win_at and sum(other >= own for other in ending.centres) == 1


def _share(places: Sequence[int], top: int) -> float:
    return float(np.mean([place <= top for place in places]))
