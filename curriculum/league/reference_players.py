"""Progress of a run measured on players that do not change.

Neither a win rate within a league that learns as well nor a single Elo measures progress. The table shows the Elo of
the base model (lower is better: the learner took the points), the gap from it to the best checkpoint, and the Elo of
each bot. Elo keeps the sum of all ratings, except for new agents, so that the loss of a reference is a gain of others.
The total reference drop sums that loss, from 1000, over the base model and four bots.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparring.configs.language import plain_bot
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER, Agent, League
from sparring.curriculum.ratings.elo import START

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
    found = _references(league)
    return float(sum(START - agent.elo for agent in found)) if found else None


def best_checkpoint(league: League) -> Agent | None:
    """Return the checkpoint with the highest Elo, the earliest of equal ones, or None."""
    return max(league.of_kind("checkpoint"), key=lambda agent: (agent.elo, -agent.step), default=None)


def _references(league: League) -> list[Agent]:
    """Return the agents of `REFERENCES`, or variants of them; empty if one is missing."""
    fixed = [agent for agent in league.agents.values() if agent.kind in ("bot", BASE_MODEL)]
    found = {plain_bot(agent.name): agent for agent in fixed}
    return [found[name] for name in REFERENCES] if set(REFERENCES) <= found.keys() else []


def _row(agent: Agent) -> ReferenceRow:
    return ReferenceRow(agent.name, agent.elo, agent.elo - agent.start_elo, agent.games)
