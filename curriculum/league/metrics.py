"""Metrics of a league: opponents drawn, number of checkpoints, ratings."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.curriculum.league.league import CHALLENGER, League
from sparring.curriculum.league.matchmaking import Opponents, category_rates
from sparring.curriculum.league.reference_players import best_checkpoint, reference_drop
from sparring.curriculum.ratings.game_results import GameResult


def league_metrics(league: League, drawn: Sequence[Opponents], games: Sequence[GameResult]) -> dict[str, float]:
    """Return the metrics after a step in which these opponents were `drawn` and these `games` ended.

    `pfsp/<category>_rate` is a share of drawn seats, `elo/win_rate` the challenger's share of points in this step's
    games, a draw being half. Unknown values (no checkpoint, no game) are left out.
    """
    metrics = {f"pfsp/{name}_rate": rate for name, rate in category_rates(drawn).items()}
    metrics["league/num_checkpoints"] = float(len(league.of_kind("checkpoint")))
    metrics["league/best_elo"] = float((best_checkpoint(league) or league[CHALLENGER]).elo)
    if (drop := reference_drop(league)) is not None:
        metrics["league/reference_drop"] = drop
    metrics |= {f"elo/{name}": float(agent.elo) for name, agent in league.agents.items()}
    metrics["elo/games_played"] = float(league[CHALLENGER].games)
    metrics |= {f"trueskill/{name}_rating": agent.belief.shown for name, agent in league.agents.items()}
    return metrics | _win_rate(games)


def _win_rate(games: Sequence[GameResult]) -> dict[str, float]:
    points, met = 0.0, 0
    for count, (one, other, score) in ((game.count, compared) for game in games for compared in game.comparisons()):
        if CHALLENGER in (one, other):
            points += count * (score if one == CHALLENGER else 1.0 - score)
            met += count
    return {"elo/win_rate": points / met} if met else {}
