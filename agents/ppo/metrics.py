"""Names and sources of a run's metrics, except those of the update, the evaluations and the timer.

A rate is a share of games; a score is a share of points, where a draw is worth half. Bots appear by name, and all
snapshots together as selfplay. An unknown value (no match finished, never met) is left out of the row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sparring.agents.play.learner_env import MatchTally
from sparring.agents.ppo.self_play import SelfPlay
from sparring.curriculum.league.league import CHALLENGER, win_rates
from sparring.curriculum.schedule import TrainingPlan

SELFPLAY = "selfplay"


def rollout_metrics(tally: MatchTally, bots: Sequence[str]) -> dict[str, float]:
    """Return the results of one rollout, in total and per opponent; `bots` are the first opponents."""
    metrics = {"rollout/matches": float(tally.games.sum())}
    metrics |= _means("rollout", tally, slice(None))
    groups = {name: slice(index, index + 1) for index, name in enumerate(bots)} | {SELFPLAY: slice(len(bots), None)}
    for name, group in groups.items():
        metrics |= _means(f"rollout/{name}", tally, group)
    return metrics


def _means(prefix: str, tally: MatchTally, group: slice) -> dict[str, float]:
    games = float(tally.games[group].sum())
    sums = {
        "win_rate": tally.wins,
        "draw_rate": tally.draws,
        "loss_rate": tally.losses,
        **tally.stats,
        "return": tally.returns,
    }
    return {f"{prefix}/{key}": float(sum_[group].sum()) / games for key, sum_ in sums.items()} if games else {}


def curriculum_metrics(plan: TrainingPlan, rates: dict[str, float]) -> dict[str, float]:
    """Return the schedule's settings and the recent win rates that control it.

    `curriculum/randomization` is 0 for fixed physics and 1 for the level full.
    """
    metrics = {
        "curriculum/phase": float(plan.phase_index),
        "curriculum/phase_update": float(plan.phase_update),
        "curriculum/stage": float(plan.stage),
        "curriculum/scripted_share": plan.scripted_share,
        "curriculum/randomization": plan.randomization.width,
    }
    metrics |= {f"curriculum/{bot}/share": plan.scripted_share * share for bot, share in plan.bots.items()}
    return metrics | {f"curriculum/{bot}/win_rate": rates[bot] for bot in plan.bots if bot in rates}


def league_metrics(self_play: SelfPlay) -> dict[str, float]:
    """Return the Elo ratings of the learner and the bots, and the state of the pool."""
    league, names = self_play.league, [snapshot.name for snapshot in self_play.pool.snapshots]
    metrics = {"league/elo": float(league[CHALLENGER].elo), "league/pool_size": float(len(names))}
    metrics["league/refused"] = float(self_play.refused)
    metrics |= {f"league/{bot}/elo": float(league[bot].elo) for bot in self_play.env.bots if league[bot].games}
    if names:
        elos = [league[name].elo for name in names]
        metrics["league/pool_elo_mean"] = float(np.mean(elos))
        metrics["league/pool_elo_best"] = float(max(elos))
        metrics["league/pool_score"] = float(win_rates(league, CHALLENGER, names).mean())
    return metrics
