"""Matchmaking: the probability of each opponent of a hero, draws of all other seats of a game, and metrics of leagues.

The option `league.matchmaking` selects one of three forms. The opponent of every seat is drawn independently, so one
opponent may have several seats. Each draw has a category, which is only a name for metrics:

category    a category by its share, which may change over the run, then a member of it. self is the hero. peer is a
            checkpoint within 100 of the hero, uniformly, else one within 300, else the hero. exploitable is a
            checkpoint more than 50 below the hero, in proportion to the gap, else any bot or the base model. baseline
            is one of `league.players`, if there are any, else of `BASELINE_BOTS`, or of their variants with
            `league.bots=original`.
win_rate    self-play has its share; the other agents are weighted by the hero's win rate p against them,
            (1 - p)^2 + 0.001, as in prioritized fictitious self-play (`curriculum/league/matchmaking.py`).
rating      self-play has exactly 0.15; the other agents are weighted by exp(-d^2 / (2 width^2)), d being
            the difference in Elo to the hero.

In the last two, the category of another agent is its rating relative to the hero. It is stronger (more than 100
above), peer (less than 100 below), weaker (less than 200 below) or much_weaker.

The cold start ends with the first checkpoint or after `cold_start_steps`. Its opponents are random and chaos in turn,
three of each in Diplomacy. In a game without chaos they are all random. With `dumbbot_game_probability` a game has
DumbBot in all other seats, regardless of everything else.

Metrics of a league are the opponents drawn, its size, and progress against players that do not change. A win rate
within a learning league does not measure progress, and neither does a single Elo. The table of references has the Elo
of the base model, the gap from it to the best checkpoint, and the Elo of each bot and player. A low Elo of the base
model is good: the learner took the points. Elo keeps the sum of all ratings, except for new agents, so a reference
loses what others gain. The total reference drop sums that loss, from 1000, over the base model and four bots.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sparring.configs.core.errors import choose
from sparring.configs.language.league import SHARED, LeagueConfig
from sparring.curriculum.league.league import BASE_MODEL, CHALLENGER, PLAYER, Agent, League, win_rates
from sparring.curriculum.league.matchmaking import weights
from sparring.curriculum.ratings import START, GameResult
from sparring.envs.game import plain_bot

SELF, PEER, EXPLOITABLE, BASELINE = "self", "peer", "exploitable", "baseline"
STRONGER, WEAKER, MUCH_WEAKER, DUMBBOT_BENCHMARK = "stronger", "weaker", "much_weaker", "dumbbot_benchmark"
CATEGORIES = (SELF, PEER, EXPLOITABLE, BASELINE, STRONGER, WEAKER, MUCH_WEAKER, DUMBBOT_BENCHMARK)
BASELINE_BOTS = ("chaos", "defensive", "territorial", "coordinated")
COLD_START_BOTS = ("random", "chaos")
DUMBBOT = "dumbbot"
SEATS = 6
PEER_ELO, NEAR_PEER_ELO, EXPLOITABLE_GAP = 100.0, 300.0, 50.0
RATING_SELF_PLAY = 0.15
"""Share of self-play in matchmaking by rating."""
BUCKETS = ((100.0, STRONGER), (-100.0, PEER), (-200.0, WEAKER))
"""Categories by rating: the first whose bound, relative to the hero, is exceeded; else `MUCH_WEAKER`."""
WIN_RATE_FLOOR, WIN_RATE_POWER = 0.001, 2.0
"""Added to weights in [0, 1], so an opponent that always loses is still drawn; and the power of these weights."""
DENSE_UNTIL, MEDIUM_UNTIL = 50, 200
"""Steps up to which `thinning` adds a checkpoint every 5 and every 10; after them every 20."""


@dataclass(frozen=True)
class Opponents:
    """The opponents in the other seats of one game."""

    names: tuple[str, ...]
    categories: tuple[str, ...]
    """Category of each of them, relative to the hero."""
    dumbbot_game: bool = False


@dataclass(frozen=True)
class SeatDraw:
    """One possible draw of a seat: agent, category, and relative weight."""

    name: str
    category: str
    weight: float


def draw_opponents(
    league: League,
    config: LeagueConfig,
    *,
    step: int,
    steps: int,
    rng: np.random.Generator,
    hero: str = CHALLENGER,
    seats: int = SEATS,
) -> Opponents:
    """Draw the opponents of the hero in one game at `step` of 0 .. `steps` - 1.

    Raises `InputError` where the league lacks the bots that the configuration asks for.
    """
    if rng.random() < config.dumbbot_game_probability:
        names = [_bot(league, DUMBBOT)] * seats
        return Opponents(tuple(names), (DUMBBOT_BENCHMARK,) * seats, dumbbot_game=True)
    if is_cold(league, config, step):
        bots = {plain_bot(bot.name) for bot in league.of_kind("bot")}
        cold = [name for name in COLD_START_BOTS if name in bots] or COLD_START_BOTS
        names = [_bot(league, cold[seat % len(cold)]) for seat in range(seats)]
        return Opponents(tuple(rng.permutation(names).tolist()), (BASELINE,) * seats)
    draws = seat_draws(league, config, step=step, steps=steps, hero=hero)
    # One draw per seat, in the order of the league: the order of agents is part of the seeded result.
    weight = np.array([draw.weight for draw in draws])
    drawn = [draws[index] for index in rng.choice(len(draws), size=seats, p=weight / weight.sum())]
    return Opponents(tuple(draw.name for draw in drawn), tuple(draw.category for draw in drawn))


def is_cold(league: League, config: LeagueConfig, step: int) -> bool:
    """Return whether `step` is in the cold start."""
    return step < config.cold_start_steps and not league.of_kind("checkpoint")


def seat_draws(
    league: League, config: LeagueConfig, *, step: int, steps: int, hero: str = CHALLENGER
) -> list[SeatDraw]:
    """Return all possible draws of a seat, of positive weight, in a game of neither DumbBot nor the cold start."""
    if config.matchmaking == "category":
        draws = _by_category(league, config, shares(config, step, steps), hero)
    elif config.matchmaking == "win_rate":
        draws = _by_win_rate(league, shares(config, step, steps)["self_play"], hero)
    else:
        draws = _by_rating(league, config, hero)
    return [draw for draw in draws if draw.weight > 0.0]


def shares(config: LeagueConfig, step: int, steps: int) -> dict[str, float]:
    """Return the share of each of `SHARED` at `step`, on the way to its final share where there is one."""
    done = float(step >= config.final_at) if config.final_at else min(step / max(steps - 1, 1), 1.0)
    share = {name: getattr(config, name) for name in SHARED}
    for name, first in share.items():
        last = getattr(config, f"final_{name}")
        share[name] = first + done * (last - first) if last >= 0.0 else first
    return share


def bucket(league: League, name: str, hero: str = CHALLENGER) -> str:
    """Return the category of an agent by its rating relative to the hero."""
    if name == hero:
        return SELF
    above = league[name].elo - league[hero].elo
    return next((name for bound, name in BUCKETS if above > bound), MUCH_WEAKER)


def category_rates(games: Sequence[Opponents]) -> dict[str, float]:
    """Return the share of all drawn seats, DumbBot's games included, of each of `CATEGORIES`; {} without games."""
    counts = Counter(name for game in games for name in game.categories)
    total = sum(counts.values())
    return {name: counts[name] / total for name in CATEGORIES} if total else {}


def _others(league: League, hero: str) -> list[str]:
    """Return all possible opponents but the hero; the challenger plays as the hero only."""
    return [name for name in league.agents if name not in (hero, CHALLENGER)]


def _bot(league: League, name: str) -> str:
    """Return the name in the league of a bot, which may be a variant of it."""
    bots = {plain_bot(bot.name): bot.name for bot in league.of_kind("bot")}
    return bots[choose("bot", name, bots)]


def _by_category(league: League, config: LeagueConfig, share: dict[str, float], hero: str) -> list[SeatDraw]:
    elo = league[hero].elo
    checkpoints = [agent for agent in league.of_kind("checkpoint") if agent.name != hero]
    within = [[a for a in checkpoints if abs(a.elo - elo) <= near] for near in (PEER_ELO, NEAR_PEER_ELO)]
    weaker = {a.name: max(1.0, elo - a.elo) for a in checkpoints if a.elo < elo - EXPLOITABLE_GAP}
    references = _equally([*league.of_kind("bot"), *league.of_kind(BASE_MODEL)])
    bots = [bot for bot in league.of_kind("bot") if plain_bot(bot.name) in BASELINE_BOTS]
    baseline = _equally(league.of_kind(PLAYER) or bots) or references
    members = {
        SELF: {hero: 1.0},
        PEER: _equally(within[0] or within[1]) or {hero: 1.0},
        EXPLOITABLE: weaker or references,
        BASELINE: baseline,
    }
    draws = []
    for (kind, weight), part in zip(members.items(), (share[name] for name in SHARED), strict=True):
        total = math.fsum(weight.values())
        draws += [SeatDraw(name, kind, part * value / total) for name, value in weight.items()]
    return draws


def _equally(agents: Iterable[Agent]) -> dict[str, float]:
    return {agent.name: 1.0 for agent in agents}


def _by_win_rate(league: League, self_play: float, hero: str) -> list[SeatDraw]:
    agents = _others(league, hero)
    weight = weights(win_rates(league, hero, agents), power=WIN_RATE_POWER, floor=WIN_RATE_FLOOR)
    return _beside_the_hero(league, dict(zip(agents, weight.tolist(), strict=True)), self_play, hero)


def _by_rating(league: League, config: LeagueConfig, hero: str) -> list[SeatDraw]:
    elo = league[hero].elo
    weight = {
        name: math.exp(-(((league[name].elo - elo) / config.rating_width) ** 2) / 2.0) for name in _others(league, hero)
    }
    return _beside_the_hero(league, weight, RATING_SELF_PLAY, hero)


def _beside_the_hero(league: League, weight: dict[str, float], self_play: float, hero: str) -> list[SeatDraw]:
    """Return the hero with the share `self_play`, or all if no weight is above 0, and the others by weight."""
    total = math.fsum(weight.values())
    if total == 0.0:  # all others are too far away
        return [SeatDraw(hero, SELF, 1.0)]
    scale = (1.0 - self_play) / total
    draws = [SeatDraw(name, bucket(league, name, hero), scale * part) for name, part in weight.items()]
    return [SeatDraw(hero, SELF, self_play), *draws]


def is_due(step: int, interval: int, schedule: str = "even") -> bool:
    """Return whether a checkpoint joins after `step` steps: every `interval`, or ever more rarely with `thinning`."""
    if schedule == "thinning":
        interval = 5 if step < DENSE_UNTIL else 10 if step < MEDIUM_UNTIL else 20
        return step == 1 or (step > 0 and step % interval == 0)
    return step > 0 and step % interval == 0


def weights_path(folder: Path, path: str) -> Path:
    """Return the weights of an agent with this `path` in the league in `folder`.

    Of an absolute path only the file's name counts, since the folder may have been moved or copied since.
    """
    return folder / (Path(path).name if Path(path).is_absolute() else path)


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
    for count, (first, second, score) in ((game.count, compared) for game in games for compared in game.comparisons()):
        if CHALLENGER in (first, second):
            points += count * (score if first == CHALLENGER else 1.0 - score)
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
    """Return the base model, the gap to the best checkpoint, the reference drop, bots and players, the strongest first.

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
    bots = sorted([*league.of_kind("bot"), *league.of_kind(PLAYER)], key=lambda bot: (-bot.elo, bot.name))
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
