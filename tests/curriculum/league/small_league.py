"""A small league for tests: six bots, the base model, a challenger and two checkpoints, with given Elos."""

from __future__ import annotations

from dataclasses import replace

from sparring.configs.games import DIPLOMACY_BOTS
from sparring.curriculum.league.league import League, enter_checkpoint, new_league


def small_league(checkpoints: int = 2, **elos: float) -> League:
    """Return a league with checkpoints checkpoint_000010 and so on; unspecified Elos are the initial ones."""
    league = new_league(DIPLOMACY_BOTS, "tiny")
    for number in range(1, checkpoints + 1):
        league = enter_checkpoint(league, step=10 * number, path=f"step_{10 * number}")
    return rated(league, **elos)


def rated(league: League, **elos: float) -> League:
    """Return the league with these Elos; the checkpoint of step n may be called cn."""
    names = {f"c{agent.step}": agent.name for agent in league.of_kind("checkpoint")}
    changed = {names.get(name, name): elo for name, elo in elos.items()}
    return replace(
        league, agents={name: replace(agent, elo=changed.get(name, agent.elo)) for name, agent in league.agents.items()}
    )
