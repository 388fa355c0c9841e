"""Plans as plain data and back, for training states."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sparring.envs.text import GroupPlan, RolloutPlan


def write_plan(plan: RolloutPlan) -> dict[str, Any]:
    """Return the plan as dicts, lists, text and numbers."""
    return asdict(plan)


def read_plan(plain: dict[str, Any]) -> RolloutPlan:
    """Invert `write_plan`; lists from a file become tuples again."""
    groups = tuple(GroupPlan(**_tuples(group)) for group in plain["groups"])
    paths = tuple((name, path) for name, path in plain["paths"])
    return RolloutPlan(plain["step"], plain["policy_version"], plain["samples"], groups, paths)


def _tuples(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
