"""The league: its agents, their ratings, and their results against each other.

Plain data and pure functions that return a new league; `file.py` stores one on disk. There are five kinds of agents.
The challenger is the current learner. A checkpoint is the learner at an earlier step; in self-play of the dogfight, a
snapshot of the pool. A bot follows a script. The base model, if any, is the start of training. A player is a policy or
a search that `league.players` names. Every game changes both ratings (`ratings.py`) of all its players. A batch of
games is rated at once; between batches order matters, as for every rating of players that change.

Bots start at 900 to 1000 Elo, in the order of docs/results/diplomacy_bots.md, and the base model at 1000. With
`league.starting_ratings` original, they start at the original system's ratings; its DumbBot was another, weaker one.
These are initial values only: DumbBot is far stronger, which its games then show. A start Elo e is a Bayesian mean of
25 + (e - 1000) / 40.

Recent results of two players decay as newer ones come in: before g new games are added, the stored counts are
multiplied by m / (m + g). They therefore converge to m + g games, however many games an update finishes. This is enough
to distinguish 90 % from 80 %, and few enough to follow a learner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from sparring.configs.core.errors import InputError, choose, moved
from sparring.curriculum.ratings import (
    MU,
    START,
    Belief,
    Elo,
    GameResult,
    K,
    Pair,
    Result,
    beliefs_after,
    elo_after,
    pair,
    results,
)
from sparring.envs.game import plain_bot

__getattr__ = moved(__name__, {"is_due": "sparring.agents.language.grpo.matchmaking"})
CHALLENGER, BASE_MODEL = "challenger", "base_model"
PLAYER = "player"
KINDS = (CHALLENGER, "checkpoint", "bot", BASE_MODEL, PLAYER)
STARTING_ELO = {
    "measured": {
        "defensive": Elo(900.0),
        "random": Elo(920.0),
        "coordinated": Elo(940.0),
        "territorial": Elo(960.0),
        "chaos": Elo(980.0),
        "dumbbot": Elo(1000.0),
    },
    "original": {
        "dumbbot": Elo(850.0),
        "chaos": Elo(900.0),
        "random": Elo(900.0),
        "defensive": Elo(950.0),
        "territorial": Elo(950.0),
        "coordinated": Elo(1000.0),
    },
}
"""Initial Elo of bots and their variants by `league.starting_ratings`; any other bot starts at 1000."""
ELO_PER_MU = 40.0
MEMORY = 200.0  # Games; the standard error of a rate near 0.8 is then about 3 %.
KNOWN = 20.0
"""Least games for a rate to count as known; a lucky first game must not end a stage."""


@dataclass(frozen=True)
class Agent:
    """One player of the league."""

    name: str
    kind: str
    path: str = ""
    """Weights: a path relative to the league's folder for a checkpoint, the model's name for the base model."""
    step: int = 0
    """Training step of a checkpoint."""
    elo: Elo = START
    start_elo: Elo = START
    """Elo when it entered the league."""
    belief: Belief = field(default_factory=Belief)
    games: int = 0


@dataclass(frozen=True)
class PairRecord:
    """Results of the first of two agents against the second, over all pairs of their seats."""

    total: Result = (0, 0, 0)
    """Wins, draws and losses."""
    recent: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """The same, decayed (`decayed`), since the challenger changes."""


@dataclass(frozen=True)
class League:
    """All agents by name, in order of entry, and the records of pairs that played."""

    agents: Mapping[str, Agent] = field(default_factory=dict)
    records: Mapping[Pair, PairRecord] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Agent:
        """Return the agent of that name; raises `UnknownNameError` with the nearest one."""
        return self.agents[choose("agent", name, self.agents)]

    def of_kind(self, kind: str) -> list[Agent]:
        """Return all agents of one of `KINDS`."""
        return [agent for agent in self.agents.values() if agent.kind == kind]


def new_league(
    bots: Iterable[str],
    base_model: str = "",
    *,
    players: Iterable[str] = (),
    initial_elo: float = START,
    ratings: str = "measured",
) -> League:
    """Return a league of bots, the base model (name or folder) if given, players, and a challenger of `initial_elo`.

    `ratings` is a key of `STARTING_ELO`.
    """
    starts = STARTING_ELO[choose("league.starting_ratings", ratings, STARTING_ELO)]
    agents = [_started(Agent(bot, "bot"), starts.get(plain_bot(bot), START)) for bot in bots]
    if base_model:
        agents.append(Agent(BASE_MODEL, BASE_MODEL, path=base_model))
    agents += [Agent(player, PLAYER) for player in players]
    agents.append(_started(Agent(CHALLENGER, CHALLENGER), Elo(initial_elo)))
    return League({agent.name: agent for agent in agents})


def _started(agent: Agent, elo: Elo) -> Agent:
    return replace(agent, elo=elo, start_elo=elo, belief=Belief(mu=MU + (elo - START) / ELO_PER_MU))


def enter(league: League, agent: Agent) -> League:
    """Add an agent; raises `InputError` if its name is taken."""
    if agent.name in league.agents:
        raise InputError(f"agent {agent.name!r}: is in the league already; give another name")
    return replace(league, agents={**league.agents, agent.name: agent})


def enter_checkpoint(league: League, *, step: int, path: str, name: str = "") -> League:
    """Add the challenger after `step` steps, with its ratings, as `name` or else checkpoint_<step>.

    `path` is relative to the league's folder.
    """
    learner = league[CHALLENGER]
    name = name or f"checkpoint_{step:06d}"
    return enter(league, Agent(name, "checkpoint", path, step, learner.elo, learner.elo, learner.belief))


def leave(league: League, names: Iterable[str]) -> League:
    """Remove agents, with their records."""
    gone = set(names)
    agents = {name: agent for name, agent in league.agents.items() if name not in gone}
    return League(agents, {key: record for key, record in league.records.items() if not gone.intersection(key)})


def record(league: League, games: Sequence[GameResult], *, k: float = K) -> League:
    """Record a batch of games, whose order does not matter, with factor `k` for Elo.

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
    """Return the hero's recent share of points against each of `names`, float64 [K].

    It is (wins + draws / 2 + 1) / (games + 2). The added win and loss are a prior (Laplace): without games a rate
    is 0.5, and a single game moves it little.
    """
    wins, draws, losses = np.array([_seen_by(league, hero, name) for name in names]).reshape(-1, 3).T
    return (wins + 0.5 * draws + 1.0) / (wins + draws + losses + 2.0)


def known_win_rates(league: League, hero: str) -> dict[str, float]:
    """Return the hero's recent wins / games against every agent with at least `KNOWN` recent games.

    The schedule uses these rates; a draw counts as a failure to beat a bot.
    """
    results = {name: _seen_by(league, hero, name) for name in league.agents if name != hero}
    return {
        name: float(wins / (wins + draws + losses))
        for name, (wins, draws, losses) in results.items()
        if wins + draws + losses >= KNOWN
    }


def turned(record: PairRecord) -> PairRecord:
    """Return the record from the view of the second agent."""
    (wins, draws, losses), (won, drawn, lost) = record.total, record.recent
    return PairRecord((losses, draws, wins), (lost, drawn, won))


def _seen_by(league: League, hero: str, name: str) -> tuple[float, float, float]:
    wins, draws, losses = league.records.get(pair(hero, name), PairRecord()).recent
    return (wins, draws, losses) if hero < name else (losses, draws, wins)


def _added(before: PairRecord, result: Result) -> PairRecord:
    wins, draws, losses = (old + new for old, new in zip(before.total, result, strict=True))
    won, drawn, lost = decayed(before.recent, result).tolist()
    return PairRecord((wins, draws, losses), (won, drawn, lost))


def decayed(before: ArrayLike, result: Sequence[int], memory: float = MEMORY) -> np.ndarray:
    """Return the counts float64 [3] after (wins, draws, losses) are added to the decayed counts `before` [3]."""
    factor = memory / (memory + sum(result))
    return factor * np.asarray(before, dtype=np.float64) + np.array(result, dtype=np.float64)
