"""A run's league over time: ratings with intervals, results of pairs, and the checkpoints that joined.

From the run's files: league.json holds every agent with its two ratings and the results of all pairs, metrics.jsonl the
Elo ratings after each update. An interval is the Bayesian rating's, mu +- 1.96 sigma, in Elo's unit:
1000 + 40 (mu - 25). Elo itself does not have an interval. Leagues of PPO and of GRPO differ only in metric names.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sparring.configs.core.errors import InputError
from sparring.curriculum.league.file import LeagueFile
from sparring.curriculum.league.league import CHALLENGER, ELO_PER_MU, Agent, League, PairRecord, turned
from sparring.curriculum.ratings import MU, START, pair
from sparring.eval.analysis.record import History, RunRecord
from sparring.eval.analysis.reports.report import (
    Cell,
    LinePlot,
    PlotLine,
    ReportSection,
    ReportTable,
    RunReport,
    line,
    plots_with_lines,
)
from sparring.eval.stats.aggregate import Estimate

Z_95 = 1.96
MOST_CROSSED = 12
"""Agents in the table of results of pairs: those with the most games."""
MOST_LINES = 7
"""Lines in the plot of Elo: the learner, then the agents that do not change, then the best checkpoints."""
DRAWN, POOL = "pfsp/", {"league/pool_elo_best": "pool, best", "league/pool_elo_mean": "pool, mean"}

_COLUMNS = (
    "kind: the challenger is the learner. A bot or player does not change. A checkpoint is a copy of the learner, of "
    "the update joined at. The base model is the learner before training.",
    "rating: the strength by all results, in Elo's unit, and its 95 % interval. Bots begin at 1,000, a checkpoint at "
    "the learner's Elo. Elo: the same from the latest results, and its change since the agent joined. games: results.",
)
_OF_POPULATION = (
    "style_0 and on are the learner's lower styles: players that learn on. An exploiter was trained against the "
    "learner, and joined at the end of that."
)
_OF_TRAINING = (
    "These are all matches of training from the first update on. The learner was weaker then and samples its actions, "
    "so the share is usually lower than what the final policy scores: eval/run.py measures that. A win rate in README "
    "or a model card is of a finished policy, often of a longer run, in games with its most probable actions."
)
_JOINED = (
    "Elo when it joined is the learner's Elo at that step, also for an exploiter. games since: results recorded "
    "against the copy."
)


def league_report(run: RunRecord, history: History) -> RunReport:
    """Return the report on the league of a run folder.

    Raises `LeagueError` if it has no league that can be read, `InputError` for a run of another source.
    """
    if run.source != "folder":
        raise InputError(f"{run.id}: its league is in its folder, which {run.source} lacks; give --source folder")
    league = LeagueFile(Path(run.path)).read()
    agents = sorted(league.agents.values(), key=lambda agent: (-agent.belief.mu, agent.name))
    joined = sorted(league.of_kind("checkpoint"), key=lambda agent: (agent.step, agent.name))
    sections = (_over_time(league, joined, history), _standings(agents), _crossed(league, agents), _joined(joined))
    return RunReport(f"League of {run.id}", sections, damage=(*run.damage, *history.damage), notes=history.notes)


def rating(agent: Agent) -> Estimate:
    """Return an agent's Bayesian rating in Elo's unit, with its 95 % interval."""
    value, half = START + ELO_PER_MU * (agent.belief.mu - MU), Z_95 * ELO_PER_MU * agent.belief.sigma
    return Estimate(value, (value - half, value + half))


def _over_time(league: League, joined: Sequence[Agent], history: History) -> ReportSection:
    marks = tuple(float(agent.step) for agent in joined if agent.step)
    elo = LinePlot("Elo; dotted: a checkpoint joins", "update", tuple(_elo_lines(league, history)), marks=marks)
    names = sorted(name for name, values in history.columns.items() if name.startswith(DRAWN) and (values > 0).any())
    drawn = [
        line(name.removeprefix(DRAWN).removesuffix("_rate"), *history.series(name), group=index)
        for index, name in enumerate(names)
    ]
    points = [("elo/win_rate", "against all"), ("league/pool_score", "against the pool")]
    scores = [
        line(label, *history.series(name), group=index)
        for index, (name, label) in enumerate(points)
        if name in history.columns
    ]
    plots = (
        elo,
        LinePlot("Ratings by the step of joining, 95 % intervals", "update", tuple(_intervals(league, joined))),
        LinePlot("Seats drawn, by category", "update", tuple(drawn)),
        LinePlot("The learner's share of points", "update", tuple(scores)),
    )
    drawable = plots_with_lines(plots)
    text = () if drawable else ("The metrics hold fewer than two ratings: nothing can be drawn over time yet.",)
    return ReportSection("Over time", text, plots=drawable)


def _elo_lines(league: League, history: History) -> list[PlotLine]:
    """Return the Elo of the learner, of what does not change, of the pool, and of the best checkpoints."""
    order = {CHALLENGER: 0, "base_model": 1, "bot": 2, "player": 2, "checkpoint": 3}
    agents = sorted(league.agents.values(), key=lambda agent: (order[agent.kind], -agent.elo, agent.name))
    keys = {f"elo/{agent.name}": agent.name for agent in agents}
    keys |= {"league/elo": CHALLENGER} | POOL | {f"league/{agent.name}/elo": agent.name for agent in agents}
    recorded = [(key, label) for key, label in keys.items() if key in history.columns][:MOST_LINES]
    return [line(label, *history.series(key), group=index) for index, (key, label) in enumerate(recorded)]


def _intervals(league: League, joined: Sequence[Agent]) -> list[PlotLine]:
    """Return the ratings of the checkpoints over the steps at which they joined, each with its interval upright."""
    ratings = [rating(agent) for agent in joined]
    steps = tuple(float(agent.step) for agent in joined)
    lines = [PlotLine("checkpoints", steps, tuple(estimate.value for estimate in ratings))] if joined else []
    lines += [PlotLine("", (x, x), estimate.interval, thin=True) for x, estimate in zip(steps, ratings, strict=True)]
    if len(set(steps)) > 1:
        learner = rating(league[CHALLENGER])
        ends = (min(steps), max(steps))
        lines.append(PlotLine("the learner now", ends, (learner.value, learner.value), group=1))
    return lines


def _standings(agents: Sequence[Agent]) -> ReportSection:
    columns = ("agent", "kind", "joined at", "rating, 95 % interval", "Elo", "change of Elo", "games")
    rows = tuple(
        (agent.name, agent.kind, agent.step, rating(agent), agent.elo, agent.elo - agent.start_elo, agent.games)
        for agent in agents
    )
    styles = any(agent.kind == "player" and agent.name.startswith("style_") for agent in agents)
    text = (*_COLUMNS, _OF_POPULATION) if styles else _COLUMNS
    return ReportSection("Standings", text, tables=(ReportTable(columns, rows),))


def _crossed(league: League, agents: Sequence[Agent]) -> ReportSection:
    """Return the table of results between the agents with the most games."""
    most = sorted(agents, key=lambda agent: (agent.kind != CHALLENGER, -agent.games, agent.name))[:MOST_CROSSED]
    names = [agent.name for agent in agents if agent in most and agent.games]
    if not names:
        return ReportSection("Results of pairs", ("No game between two agents has been recorded yet.",))
    rows = tuple((row, *(_result(league, row, other) for other in names)) for row in names)
    text = ("The row's share of points against the column, a draw being half, and the number of results.", _OF_TRAINING)
    remaining = sum(agent.games > 0 for agent in agents) - len(names)
    omitted = (f"{remaining} agents with fewer games are left out.",) if remaining else ()
    return ReportSection("Results of pairs", (*text, *omitted), (ReportTable(("", *names), rows),))


def _result(league: League, row: str, other: str) -> Cell:
    record = league.records.get(pair(row, other), PairRecord())
    wins, draws, losses = (record if row < other else turned(record)).total
    count = wins + draws + losses
    return f"{(wins + 0.5 * draws) / count:.0%} of {count:,}" if count and row != other else ""


def _joined(joined: Sequence[Agent]) -> ReportSection:
    columns = ("step", "checkpoint", "Elo when it joined", "Elo now", "games since", "file")
    rows = tuple(
        (agent.step, agent.name, agent.start_elo, agent.elo, agent.games, Path(agent.path).name) for agent in joined
    )
    if not rows:
        return ReportSection("Checkpoints that joined", ("No checkpoint has joined yet.",))
    return ReportSection("Checkpoints that joined", (_JOINED,), tables=(ReportTable(columns, rows),))
