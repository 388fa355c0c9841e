"""Matchmaking: the probability of each opponent of a hero, and draws of all the other seats of a game.

Relative to the hero, every agent has one category: self_play (the hero itself), peer (a checkpoint within `peer_elo` of
its rating), exploitable (a weaker one), stronger (a stronger one), or baseline (bots and the base model). The option
`league.matchmaking` selects one of three weightings:

category    each category has a share, linear from the first step to the last, and is uniform inside. Stronger
            checkpoints have no share of their own: they replace peers where there are none. The share of an empty
            category goes to the others in proportion, or else to self-play.
win_rate    self-play has its share; the other agents are weighted by the hero's win rate p against them (pfsp.py),
            (1 - p)^power or p (1 - p), as in prioritized fictitious self-play.
rating      the other agents are weighted by exp(-d^2 / (2 width^2)), d being the difference in Elo to the hero, which
            itself has weight 1; self-play gets at least `rating_self_play`.

Before `cold_start_steps` all opponents are bots, uniformly. With `dumbbot_game_probability` a game has DumbBot in all
other seats, regardless of the weighting. Seats are drawn independently, so that one opponent may have several.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparring.configs.core.errors import InputError, choose
from sparring.configs.language import LeagueConfig
from sparring.curriculum.league.league import CHALLENGER, League, win_rates
from sparring.curriculum.league.pfsp import weights

SELF_PLAY, PEER, EXPLOITABLE, BASELINE, STRONGER = "self_play", "peer", "exploitable", "baseline", "stronger"
SHARED = (SELF_PLAY, PEER, EXPLOITABLE, BASELINE)
"""The categories that have a share in the configuration."""
CATEGORIES = (*SHARED, STRONGER)
DUMBBOT = "dumbbot"
SEATS = 6
WIN_RATE_FLOOR = 0.001
"""Added to weights in [0, 1], so that an opponent that is always beaten is still drawn."""


@dataclass(frozen=True)
class Opponents:
    """The opponents in the other seats of one game."""

    names: tuple[str, ...]
    categories: tuple[str, ...]
    """Category of each of them, relative to the hero."""
    dumbbot_game: bool = False


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
    dumbbot_game = bool(rng.random() < config.dumbbot_game_probability)
    if dumbbot_game:
        names = [choose("bot", DUMBBOT, [bot.name for bot in league.of_kind("bot")])] * seats
    else:
        chance = chances(league, config, step=step, steps=steps, hero=hero)
        # One draw per seat, in the order of the league: the order of agents is part of the seeded result.
        drawn = rng.choice(len(chance), size=seats, p=np.array(list(chance.values())))
        names = [list(chance)[index] for index in drawn]
    categories = [category(league, config, name, hero) for name in names]
    return Opponents(tuple(names), tuple(categories), dumbbot_game)


def chances(league: League, config: LeagueConfig, *, step: int, steps: int, hero: str = CHALLENGER) -> dict[str, float]:
    """Return the probability of each agent to get a seat in a game that is not DumbBot's; they sum to 1."""
    if step < config.cold_start_steps:
        weight = _only_bots(league)
    elif config.matchmaking == "category":
        weight = _by_category(league, config, shares(config, step, steps), hero)
    elif config.matchmaking == "win_rate":
        weight = _by_win_rate(league, config, shares(config, step, steps)[SELF_PLAY], hero)
    else:
        weight = _by_rating(league, config, hero)
    total = math.fsum(weight.values())
    return {name: part / total for name, part in weight.items() if part > 0.0}


def shares(config: LeagueConfig, step: int, steps: int) -> dict[str, float]:
    """Return the share of each of `SHARED` at `step`: linear to the last step where a final share is set."""
    done = min(step / max(steps - 1, 1), 1.0)
    share = {name: getattr(config, name) for name in SHARED}
    for name, first in share.items():
        last = getattr(config, f"final_{name}")
        share[name] = first + done * (last - first) if last >= 0.0 else first
    return share


def category(league: League, config: LeagueConfig, name: str, hero: str = CHALLENGER) -> str:
    """Return the category of an agent relative to the hero, one of `CATEGORIES`."""
    agent = league[name]
    above = agent.elo - league[hero].elo
    if name == hero:
        return SELF_PLAY
    if agent.kind in ("bot", "base_model"):
        return BASELINE
    return PEER if abs(above) <= config.peer_elo else STRONGER if above > 0 else EXPLOITABLE


def category_rates(games: Sequence[Opponents]) -> dict[str, float]:
    """Return the share of all drawn seats, DumbBot's games included, of each of `CATEGORIES`; {} without games."""
    counts = Counter(name for game in games for name in game.categories)
    total = sum(counts.values())
    return {name: counts[name] / total for name in CATEGORIES} if total else {}


def _others(league: League, hero: str) -> list[str]:
    """Return all possible opponents but the hero; the challenger plays as the hero only."""
    return [name for name in league.agents if name not in (hero, CHALLENGER)]


def _only_bots(league: League) -> dict[str, float]:
    bots = [agent.name for agent in league.of_kind("bot")]
    if not bots:
        raise InputError("league.cold_start_steps: needs bots in the league, which has none; set it to 0")
    return dict.fromkeys(bots, 1.0)


def _by_category(league: League, config: LeagueConfig, share: dict[str, float], hero: str) -> dict[str, float]:
    members: dict[str, list[str]] = {name: [] for name in CATEGORIES}
    for name in [hero, *_others(league, hero)]:
        members[category(league, config, name, hero)].append(name)
    if not members[PEER]:
        members[PEER] = members[STRONGER]
    weight = {name: share[kind] / len(members[kind]) for kind in SHARED for name in members[kind] if share[kind] > 0.0}
    return weight or {hero: 1.0}


def _by_win_rate(league: League, config: LeagueConfig, self_play: float, hero: str) -> dict[str, float]:
    others = _others(league, hero)
    weight = weights(
        win_rates(league, hero, others), config.win_rate_form, power=config.win_rate_power, floor=WIN_RATE_FLOOR
    )
    parts = (1.0 - self_play) * weight / weight.sum()
    return {hero: self_play, **dict(zip(others, parts.tolist(), strict=True))}


def _by_rating(league: League, config: LeagueConfig, hero: str) -> dict[str, float]:
    mine = league[hero].elo
    weight = {
        name: math.exp(-(((league[name].elo - mine) / config.rating_width) ** 2) / 2.0)
        for name in _others(league, hero)
    }
    total = math.fsum(weight.values())
    # The hero's own weight is exp(0) = 1.
    alone = max(1.0 / (1.0 + total), config.rating_self_play)
    scale = (1.0 - alone) / total if total > 0.0 else 0.0  # 0 if all weights underflow.
    return {hero: alone, **{name: scale * part for name, part in weight.items()}}
