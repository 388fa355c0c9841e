"""Metrics of a league: opponents drawn, number of checkpoints, ratings, and progress on players that do not change.

Neither a win rate within a league that learns as well nor a single Elo measures progress. The table of references has
the Elo of the base model (lower is better: the learner took the points), the gap from it to the best checkpoint, and
the Elo of each bot. Elo keeps the sum of all ratings, except for new agents, so that the loss of a reference is a gain
of others. The total reference drop sums that loss, from 1000, over the base model and four bots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparring.configs.language import plain_bot
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER, Agent, League
from sparring.curriculum.league.matchmaking import Opponents, category_rates
from sparring.curriculum.ratings import START, GameResult


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


REFERENCES = (BASE_MODEL, "chaos", "defensive", "territorial", "coordinated")
DROP = "total reference drop"


@dataclass(frozen=True)
class ReferenceRow:
    """One line of the table."""

    figure: str
    elo: float
    change: float | None
    """Change of Elo since it entered; None for the gap and the drop."""
    games: int
    """Number of games; for the gap, of the agent with fewer."""


def reference_table(league: League) -> list[ReferenceRow]:
    """Return the base model, the gap to the best checkpoint, the reference drop, and the bots, the strongest first.

    A gap or drop that lacks its players is left out; without a base model the best checkpoint, or else the learner,
    takes its row.
    """
    base, best = league.agents.get(BASE_MODEL), best_checkpoint(league)
    rows = [_row(base or best or league[CHALLENGER])]
    if base and best:
        figure = f"{best.name} minus {BASE_MODEL}"
        rows.append(ReferenceRow(figure, best.elo - base.elo, None, min(best.games, base.games)))
    if (drop := reference_drop(league)) is not None:
        rows.append(ReferenceRow(DROP, drop, None, min(agent.games for agent in _references(league))))
    bots = sorted(league.of_kind("bot"), key=lambda bot: (-bot.elo, bot.name))
    return rows + [_row(bot) for bot in bots]


def reference_drop(league: League) -> float | None:
    """Return the sum of 1000 - Elo over `REFERENCES`, from 1000 whatever they started at; None if one is missing."""
    references = _references(league)
    return float(sum(START - agent.elo for agent in references)) if references else None


def best_checkpoint(league: League) -> Agent | None:
    """Return the checkpoint with the highest Elo, the earliest of equal ones, or None."""
    return max(league.of_kind("checkpoint"), key=lambda agent: (agent.elo, -agent.step), default=None)


def _references(league: League) -> list[Agent]:
    """Return the agents of `REFERENCES`, or variants of them; empty if one is missing."""
    fixed = [agent for agent in league.agents.values() if agent.kind in ("bot", BASE_MODEL)]
    named = {plain_bot(agent.name): agent for agent in fixed}
    return [named[name] for name in REFERENCES] if set(REFERENCES) <= named.keys() else []


def _row(agent: Agent) -> ReferenceRow:
    return ReferenceRow(agent.name, agent.elo, agent.elo - agent.start_elo, agent.games)
