"""The records of training states before format 2, as a league: there the learner's were kept apart from ratings.

Totals were kept for snapshots alone, and how sure a rating is for nobody; both begin anew where they are not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from curriculum.games import pair
from curriculum.league import CHALLENGER, Agent, League, Record, new_league, turned
from curriculum.ratings import START, Elo


def league_of(
    bots: Iterable[str],
    scores: Mapping[str, Sequence[float]],
    *,
    learner: float = START,
    opponents: Mapping[str, float] | None = None,
    pool: Sequence[Mapping[str, Any]] = (),
) -> League:
    """A league of these bots and the `pool`'s snapshots.

    `scores` are the learner's recent (wins, draws, losses) by name, `opponents` are Elo ratings, and a row of the pool
    has name, update, wins, draws and losses.
    """
    agents = dict(new_league(bots).agents)
    for row in pool:
        agents[row["name"]] = Agent(row["name"], "checkpoint", f"pool/{row['name']}.pt", row["update"])
    for name, elo in {**(opponents or {}), CHALLENGER: learner}.items():
        if name in agents:  # one that had left the pool could still be rated
            agents[name] = replace(agents[name], elo=Elo(elo))
    totals = {row["name"]: (row["wins"], row["draws"], row["losses"]) for row in pool}
    met = sorted(scores.keys() | {name for name, total in totals.items() if any(total)})
    records = {}
    for name in (name for name in met if name in agents):
        won, drawn, lost = scores.get(name, (0.0, 0.0, 0.0))
        record, key = Record(totals.get(name, (0, 0, 0)), (won, drawn, lost)), pair(CHALLENGER, name)
        records[key] = record if key[0] == CHALLENGER else turned(record)
        agents[name] = replace(agents[name], games=sum(record.total) or 1)
    games = sum(agents[name].games for pair_ in records for name in pair_ if name != CHALLENGER)
    return League({**agents, CHALLENGER: replace(agents[CHALLENGER], games=games)}, dict(sorted(records.items())))
