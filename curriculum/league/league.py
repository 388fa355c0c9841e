"""The league: everybody who plays in it, how they are rated, and what came of their games with each other.

Plain data and pure functions, each of which returns a new league; `league_file.py` keeps one on disk. There are four
kinds of agents: the challenger is the learner as it is now, a checkpoint is what it was at some step (in self-play of
the dogfight, a snapshot of the pool), a bot follows a script, and the base model is what learning began from, if
anything. Every game moves both ratings (ratings.py, bayesian.py) of
everybody in it. A batch of games is rated as one moment; between batches order matters, as it does for every rating
that follows players who change.

Bots begin at 900 to 1000 Elo, in the order of docs/results/diplomacy_bots.md, and the base model at 1000. These are
places to start from: DumbBot is far stronger than that, and its games say so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sparring.configs.core.errors import InputError, choose
from sparring.curriculum.league.decayed_results import KNOWN, faded
from sparring.curriculum.league.pfsp import win_rate
from sparring.curriculum.ratings.bayesian import Belief, beliefs_after
from sparring.curriculum.ratings.elo import START, Elo, K, elo_after
from sparring.curriculum.ratings.game_results import GameResult, Pair, Result, pair, results

CHALLENGER, BASE_MODEL = "challenger", "base_model"
KINDS = (CHALLENGER, "checkpoint", "bot", BASE_MODEL)
STARTING_ELO = {
    "defensive": Elo(900.0),
    "random": Elo(920.0),
    "coordinated": Elo(940.0),
    "territorial": Elo(960.0),
    "chaos": Elo(980.0),
    "dumbbot": Elo(1000.0),
}
"""Of the bots; any other begins at 1000."""


@dataclass(frozen=True)
class Agent:
    """One player of the league."""

    name: str
    kind: str
    path: str = ""
    """Where its weights are: relative to the league's folder for a checkpoint, the model's name for the base model."""
    step: int = 0
    """Of the training that made it."""
    elo: Elo = START
    start_elo: Elo = START
    """What it began with."""
    belief: Belief = field(default_factory=Belief)
    games: int = 0


@dataclass(frozen=True)
class PairRecord:
    """What came of the first of two agents against the second, over all pairs of their seats."""

    total: Result = (0, 0, 0)
    """Wins, draws and losses."""
    recent: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """The same, fading as newer ones come in (recent.py), since the challenger changes."""


@dataclass(frozen=True)
class League:
    """All agents by name, in the order in which they came, and the records of those that met."""

    agents: Mapping[str, Agent] = field(default_factory=dict)
    records: Mapping[Pair, PairRecord] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Agent:
        """Return the agent called so; raises `UnknownNameError` with the nearest."""
        return self.agents[choose("agent", name, self.agents)]

    def of_kind(self, kind: str) -> list[Agent]:
        """Return all agents of one of `KINDS`."""
        return [agent for agent in self.agents.values() if agent.kind == kind]


def new_league(bots: Iterable[str], base_model: str = "", *, initial_elo: float = START) -> League:
    """Begin a league of these bots, the base model of that name or folder if any, and a challenger of that rating."""
    starts = {bot: STARTING_ELO.get(bot, START) for bot in bots}
    agents = [Agent(bot, "bot", elo=elo, start_elo=elo) for bot, elo in starts.items()]
    if base_model:
        agents.append(Agent(BASE_MODEL, BASE_MODEL, path=base_model))
    agents.append(Agent(CHALLENGER, CHALLENGER, elo=Elo(initial_elo), start_elo=Elo(initial_elo)))
    return League({agent.name: agent for agent in agents})


def enter(league: League, agent: Agent) -> League:
    """Add an agent; raises `InputError` if there is one of its name."""
    if agent.name in league.agents:
        raise InputError(f"agent {agent.name!r}: is in the league already; give another name")
    return replace(league, agents={**league.agents, agent.name: agent})


def enter_checkpoint(league: League, *, step: int, path: str, name: str = "") -> League:
    """Add what the challenger is after `step` steps, with its ratings, as `name` or else checkpoint_<step>.

    `path` is relative to the league's folder.
    """
    learner = league[CHALLENGER]
    name = name or f"checkpoint_{step:06d}"
    return enter(league, Agent(name, "checkpoint", path, step, learner.elo, learner.elo, learner.belief))


def leave(league: League, names: Iterable[str]) -> League:
    """Remove agents that will not be met again, with all that came of games with them."""
    gone = set(names)
    agents = {name: agent for name, agent in league.agents.items() if name not in gone}
    return League(agents, {key: record for key, record in league.records.items() if not gone.intersection(key)})


def is_due(step: int, every: int) -> bool:
    """Whether a checkpoint joins after `step` steps."""
    return step > 0 and step % every == 0


def record(league: League, games: Sequence[GameResult], *, k: float = K) -> League:
    """Take in a batch of games, in whatever order, with `k` for Elo's.

    Raises `UnknownNameError` for a player that is not in the league.
    """
    for name in sorted({name for game in games for name in game.players}):
        choose("agent", name, league.agents)
    elos = elo_after({name: agent.elo for name, agent in league.agents.items()}, games, k=k)
    beliefs = beliefs_after({name: agent.belief for name, agent in league.agents.items()}, games)
    agents = dict(league.agents)
    for name, agent in agents.items():
        played = sum(game.count for game in games if name in game.players)
        elo, belief = elos.get(name, agent.elo), beliefs.get(name, agent.belief)
        agents[name] = replace(agent, elo=elo, belief=belief, games=agent.games + played)
    records = dict(league.records)
    for key, result in sorted(results(games).items()):
        records[key] = _added(records.get(key, PairRecord()), result)
    return League(agents, records)


def win_rates(league: League, hero: str, names: Sequence[str]) -> np.ndarray:
    """Return the hero's recent share of points against each of `names`, float64 [K]; 0.5 for those it never met."""
    known = np.array([_seen_by(league, hero, name) for name in names]).reshape(-1, 3)
    return win_rate(known[:, 0], known[:, 1], known[:, 2])


def known_win_rates(league: League, hero: str) -> dict[str, float]:
    """Return the hero's recent wins by games against everyone it met in at least `KNOWN` games of late.

    The schedule steers by these: a draw against a bot is a failure to beat it.
    """
    seen = {name: _seen_by(league, hero, name) for name in league.agents if name != hero}
    return {
        name: float(wins / (wins + draws + losses))
        for name, (wins, draws, losses) in seen.items()
        if wins + draws + losses >= KNOWN
    }


def turned(record: PairRecord) -> PairRecord:
    """The record as the second of the two sees it."""
    (wins, draws, losses), (won, drawn, lost) = record.total, record.recent
    return PairRecord((losses, draws, wins), (lost, drawn, won))


def _seen_by(league: League, hero: str, name: str) -> tuple[float, float, float]:
    wins, draws, losses = league.records.get(pair(hero, name), PairRecord()).recent
    return (wins, draws, losses) if hero < name else (losses, draws, wins)


def _added(before: PairRecord, result: Result) -> PairRecord:
    wins, draws, losses = (old + new for old, new in zip(before.total, result, strict=True))
    won, drawn, lost = faded(before.recent, result).tolist()
    return PairRecord((wins, draws, losses), (won, drawn, lost))
