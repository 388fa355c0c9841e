"""Plans as plain data and back, for training states."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sparring.curriculum.league.league import League
from sparring.envs.text import GroupPlan, RolloutPlan


def write_plan(plan: RolloutPlan) -> dict[str, Any]:
    """Return the plan as dicts, lists, text and numbers."""
    return asdict(plan)


def read_plan(plain: dict[str, Any], league: League) -> RolloutPlan:
    """Invert `write_plan`; lists from a file become tuples again.

    The paths of checkpoints are those in `league`: earlier versions stored absolute ones, which a moved run lacks.
    """
    groups = tuple(GroupPlan(**_tuples(group)) for group in plain["groups"])
    paths = tuple((name, league[name].path) for name, _ in plain["paths"])
    return RolloutPlan(plain["step"], plain["policy_version"], plain["samples"], groups, paths)


def _tuples(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
