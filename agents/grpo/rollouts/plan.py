"""Rollout plans, drawn before the games are played, and batches, which come back: plain data for any process.

A group is one position, forked into several games. Its seed fixes the moves up to the position and every draw after
the fork. The seating is fixed here, too, so the league may change while games are played. Training states hold
unfinished plans (`write_plan`, `read_plan`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sparring.agents.llm.backend import Decision
from sparring.configs.core.typed import Count, Number, Positive, Seed, Text, read, require
from sparring.configs.language import GRPOConfig
from sparring.curriculum.league.league import CHALLENGER, League
from sparring.curriculum.league.matchmaking import Opponents
from sparring.envs.text import GameEnding, GroupFacts, GroupPlan, RolloutPlan

Draw = Callable[[np.random.Generator], Opponents]
"""Function that draws the opponents of a hero."""
SELF_PLAY = Opponents((), ())


def draw_plan(
    config: GRPOConfig,
    *,
    seats: int,
    step: int,
    policy_version: int,
    seed: int,
    draw: Draw,
    league: League,
) -> RolloutPlan:
    """Draw the plan of step number `step`; equal arguments give equal plans. Heroes rotate over the seats.

    `seats` is the number of seats in a game; with one there is no opponent to draw. Paths of checkpoints stay relative
    to the league's folder, so that a plan in a training state is valid wherever its run lies.
    """
    rng = np.random.default_rng([seed, step])
    against_others = config.play == "league" and seats > 1
    groups = []
    for number in range(config.groups):
        hero = (step * config.groups + number) % seats
        if against_others:
            met = draw(rng)
            players = (*met.names[:hero], CHALLENGER, *met.names[hero:])
        else:
            met, players = SELF_PLAY, (CHALLENGER,) * seats
        heroes = (hero,) if against_others else tuple(range(seats))
        ratings = tuple(float(league[name].elo) for name in players)
        groups.append(GroupPlan(players, heroes, met.categories, ratings, **_course(config, rng)))
    names = sorted({name for group in groups for name in group.players})
    paths = tuple((name, league[name].path) for name in names if league[name].kind == "checkpoint")
    return RolloutPlan(step, policy_version, config.samples_per_group, tuple(groups), paths)


def _course(config: GRPOConfig, rng: np.random.Generator) -> dict[str, int]:
    """Draw the warm-up phases, the years played and the seed of a group's games."""
    opening = rng.random() < config.rollout_no_warmup_chance
    phases = int(rng.integers(0, config.rollout_warmup_phases + 1))
    long = rng.random() < config.rollout_long_horizon_chance
    years = config.rollout_long_horizon_years if long else config.rollout_horizon_years
    return {"warmup_phases": 0 if opening else phases, "years": years, "seed": int(rng.integers(2**31))}


@dataclass(frozen=True)
class RolloutJob:
    """A plan and the weights to play it with."""

    plan: RolloutPlan
    weights: bytes


@dataclass(frozen=True)
class DecisionRecord:
    """Decision of the learner, with its game, seat and step of the rollout and the facts `before` it.

    `lines` is the number of lines in a complete answer.
    """

    decision: Decision
    game: int
    seat: int
    step: int
    before: GroupFacts
    lines: int


@dataclass
class RolloutBatch:
    """Result of one plan: `rewards` float64 [len(turns)]."""

    plan: RolloutPlan
    turns: list[DecisionRecord]
    rewards: np.ndarray
    endings: list[GameEnding]
    failed: int
    years: float
    seconds: float
    alerts: list[str] = field(default_factory=list)
    cache: dict[str, float] = field(default_factory=dict)
    """Prompt cache metrics, `cache/...`, of the process that played."""
    reload_seconds: float = 0.0
    """Time in which the weights of the plan were put in place."""
    game_metrics: dict[str, float] = field(default_factory=dict)
    """Metrics of the game, under its own names."""


class StoredGroup(TypedDict):
    """A `GroupPlan`."""

    players: list[Text]
    heroes: list[Count]
    categories: list[Text]
    ratings: list[Number]
    warmup_phases: Count
    years: Positive
    seed: Seed


class StoredPlan(TypedDict):
    """A `RolloutPlan`."""

    step: Count
    policy_version: Count
    samples: Positive
    groups: list[StoredGroup]
    paths: list[list[Text]]


def write_plan(plan: RolloutPlan) -> dict[str, Any]:
    """Return the plan as dicts, lists, text and numbers."""
    return asdict(plan)


def read_plan(plain: dict[str, Any], league: League) -> RolloutPlan:
    """Invert `write_plan`; lists from a file become tuples again. Raises `ContentError` for one of other types.

    The paths of checkpoints are those in `league`: earlier versions stored absolute ones, which a moved run lacks.
    """
    stored = read(StoredPlan, plain)
    for number, group in enumerate(stored["groups"]):
        seats, place = len(group["players"]), f"groups.{number}"
        require(len(group["ratings"]) == seats, f"{place}.ratings: {len(group['ratings'])} of them; must be {seats}")
        heroes = group["heroes"]
        right = bool(heroes) and len(set(heroes)) == len(heroes) and max(heroes) < seats
        require(right, f"{place}.heroes={heroes}: must be different seats below {seats}")
    for number, pair in enumerate(stored["paths"]):
        require(len(pair) == 2, f"paths.{number}: must be a name and a path")
        require(pair[0] in league.agents, f"paths.{number}: must be of an agent in the league")
    groups = tuple(GroupPlan(**_with_tuples(group)) for group in stored["groups"])
    paths = tuple((name, league[name].path) for name, _ in stored["paths"])
    return RolloutPlan(stored["step"], stored["policy_version"], stored["samples"], groups, paths)


def _with_tuples(plain: Any) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
