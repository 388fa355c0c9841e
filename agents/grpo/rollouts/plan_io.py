"""Plans as plain data and back, for training states."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from typing_extensions import TypedDict

from sparring.configs.core.typed import Count, Number, Positive, Seed, Text, read, require
from sparring.curriculum.league.league import League
from sparring.envs.text import GroupPlan, RolloutPlan


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
    found = read(StoredPlan, plain)
    for number, group in enumerate(found["groups"]):
        seats, place = len(group["players"]), f"groups.{number}"
        require(len(group["ratings"]) == seats, f"{place}.ratings: {len(group['ratings'])} of them; must be {seats}")
        heroes = group["heroes"]
        right = bool(heroes) and len(set(heroes)) == len(heroes) and max(heroes) < seats
        require(right, f"{place}.heroes={heroes}: must be different seats below {seats}")
    for number, pair in enumerate(found["paths"]):
        require(len(pair) == 2, f"paths.{number}: must be a name and a path")
        require(pair[0] in league.agents, f"paths.{number}: must be of an agent in the league")
    groups = tuple(GroupPlan(**_tuples(group)) for group in found["groups"])
    paths = tuple((name, league[name].path) for name, _ in found["paths"])
    return RolloutPlan(found["step"], found["policy_version"], found["samples"], groups, paths)


def _tuples(plain: Any) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
