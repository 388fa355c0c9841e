"""How far a run has come, read off players that do not change.

A win rate against a league that learns as well says little, and so does an Elo by itself. What counts is the Elo of
the base model (the lower the better, since what learned from it took the points), the gap from it to the best
checkpoint, and the Elo of each bot. Ratings in one league have one sum but for those who enter, so a reference that
falls fell to somebody.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER, Agent, League


@dataclass(frozen=True)
class ReferenceRow:
    """One line of the table."""

    figure: str
    elo: float
    change: float | None
    """Since it began; None for the gap, which began with nobody."""
    games: int
    """That it rests on; of a gap, the fewer of the two."""


def reference_table(league: League) -> list[ReferenceRow]:
    """Return the base model, the gap to the best checkpoint if there is any, and the bots, the strongest first.

    In a league without a base model the best checkpoint, or else the learner, stands in its place.
    """
    base, best = league.agents.get(BASE_MODEL), best_checkpoint(league)
    rows = [_row(base or best or league[CHALLENGER])]
    if base and best:
        figure = f"{best.name} minus {BASE_MODEL}"
        rows.append(ReferenceRow(figure, best.elo - base.elo, None, min(best.games, base.games)))
    bots = sorted(league.of_kind("bot"), key=lambda bot: (-bot.elo, bot.name))
    return rows + [_row(bot) for bot in bots]


def best_checkpoint(league: League) -> Agent | None:
    """Return the checkpoint with the highest Elo, the earliest of equal ones, or None."""
    return max(league.of_kind("checkpoint"), key=lambda agent: (agent.elo, -agent.step), default=None)


def _row(agent: Agent) -> ReferenceRow:
    return ReferenceRow(agent.name, agent.elo, agent.elo - agent.start_elo, agent.games)
