"""Rollout plans, drawn before the games are played: plain data, so that any process can play or repeat them.

A group is one position, forked into several games. Its seed fixes the moves up to the position and every draw after
the fork. The seating is fixed here, too, so the league may change while games are played.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sparring.configs.language import GRPOConfig
from sparring.curriculum.league.league import CHALLENGER, League
from sparring.curriculum.league.matchmaking import Opponents
from sparring.envs.text import GroupPlan, RolloutPlan

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
