"""Saved policies of a run, by age, as players: its checkpoints and the snapshots in its pool.

A pool snapshot has weights and a network shape but no contract: it plays under the contract of the run's newest
checkpoint, which has the same network and the same game.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sparring.agents.opponents.dogfight.load import Entrant, load_policy
from sparring.agents.opponents.players import display_name
from sparring.agents.policies.checkpoint import CheckpointError
from sparring.agents.policies.networks import build_network, load_snapshot
from sparring.agents.policies.policy import Policy
from sparring.agents.run.folder import FINAL
from sparring.curriculum.pool import INDEX, Pool

POOL = "pool"


@dataclass(frozen=True)
class Frozen:
    """Policy of a run after `env_steps` steps."""

    env_steps: int
    entrant: Entrant


def frozen_policies(
    folder: Path, device: str | torch.device, *, deterministic: bool = True, old_version: bool = True
) -> list[Frozen]:
    """Return all saved policies in the run's folder (from `find_run`), oldest first, one per number of steps.

    Of several files with the same number of steps, final.pt has priority, then a checkpoint, then the pool's snapshot.
    Raises `CheckpointError` for a damaged checkpoint, `PoolError` for a damaged pool, and unless `old_version`
    `OldVersionError` for a run of an old version of the environment.
    """
    how: dict[str, Any] = {"deterministic": deterministic, "old_version": old_version}
    policies = [load_policy(path, device, **how) for path in sorted(folder.glob("*.pt"))]
    checkpoints = [Frozen(_age(policy, "env_steps"), policy) for policy in policies]
    newest = max(checkpoints, key=lambda frozen: frozen.env_steps)
    # Later ones replace earlier ones of the same age.
    ordered = _pool(folder / POOL, newest, device) + sorted(checkpoints, key=_is_final)
    return sorted({frozen.env_steps: frozen for frozen in ordered}.values(), key=lambda frozen: frozen.env_steps)


def thin(policies: list[Frozen], most: int) -> list[Frozen]:
    """Return at most `most` (2 or more) policies, spaced as evenly in steps as possible, first and last kept."""
    first, last = policies[0].env_steps, policies[-1].env_steps
    even_steps = [first + (last - first) * i / (most - 1) for i in range(most)]
    nearest = {min(policies, key=lambda frozen: abs(frozen.env_steps - steps)).env_steps for steps in even_steps}
    return [frozen for frozen in policies if frozen.env_steps in nearest]


def called_by_age(policies: list[Frozen]) -> list[Frozen]:
    """Return the policies named by age (950, 12.3k, 1.64M), with as many digits as needed for unique names."""
    ages = [frozen.env_steps for frozen in policies]
    digits = next(n for n in count(3) if len({shortened(age, n) for age in ages}) == len(ages))
    return [replace(f, entrant=replace(f.entrant, name=shortened(f.env_steps, digits))) for f in policies]


def shortened(env_steps: int, digits: int = 3) -> str:
    """Format a number of steps with `digits` significant digits: 950, 12.3k, 1.64M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if env_steps >= size:
            return np.format_float_positional(env_steps / size, digits, fractional=False, trim="-") + letter
    return str(env_steps)


def _age(policy: Entrant, unit: str) -> int:
    if unit not in policy.training:
        raise CheckpointError(f"{policy.path}: its training summary lacks {unit}, so it has no age; remove the file")
    return policy.training[unit]  # type: ignore[no-any-return]


def _is_final(frozen: Frozen) -> bool:
    return frozen.entrant.path is not None and frozen.entrant.path.name == FINAL


def _pool(folder: Path, newest: Frozen, device: str | torch.device) -> list[Frozen]:
    """Return the pool's snapshots with the settings of `newest`; a snapshot of update u was taken before u."""
    policy = newest.entrant.contestant
    if not (folder / INDEX).is_file() or not isinstance(policy, Policy):
        return []
    shape = policy.network.shape
    pool = Pool(folder, capacity=1, shape=shape)  # Nothing is added, so nothing is evicted.
    steps_per_update = newest.env_steps // max(_age(newest.entrant, "update"), 1)
    policies = []
    for snapshot in pool.snapshots:
        network = build_network(shape)
        network.load_state_dict(load_snapshot(pool, snapshot.name, device))
        path = pool.path(snapshot.name)
        frozen = Policy(
            network.to(device).eval(), policy.contract, name=display_name(path), deterministic=policy.deterministic
        )
        policies.append(Frozen(snapshot.update * steps_per_update, Entrant(frozen.name, frozen, path)))
    return policies
