"""Saved policies of a run, by age, as players: its checkpoints and the snapshots in its pool.

A pool snapshot has weights and a network shape but no contract. It plays under the contract of the run's newest
checkpoint, which has the same network and the same game. `frozen_policies` (dogfight) and `frozen_seats` (games of
other packages) call this with players of their kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch

from sparring.agents.opponents.players import display_name
from sparring.agents.policies.checkpoint import CheckpointError
from sparring.agents.policies.networks import build_network, load_snapshot
from sparring.agents.run.folder import FINAL
from sparring.curriculum.pool import INDEX, Pool

POOL = "pool"


P = TypeVar("P")
"""Player from a file: `path`, `training`, its summary, and `network` and `contract`, its own or its `contestant`'s."""


@dataclass(frozen=True)
class Frozen(Generic[P]):
    """Policy of a run after `env_steps` steps."""

    env_steps: int
    player: P


def frozen_players(
    folder: Path,
    device: str | torch.device,
    open_file: Callable[[Path], P],
    build: Callable[[Any, Mapping[str, Any], str, Path], P],
) -> list[Frozen[P]]:
    """Return all saved policies in the run's folder (from `find_run`), oldest first, one per number of steps.

    `build` makes a player from the network of a snapshot, in eval mode on `device`, the contract, its name and its
    path. Of several files with the same number of steps, final.pt has priority, then a checkpoint, then the pool's
    snapshot. Raises `CheckpointError` for a damaged checkpoint and `PoolError` for a damaged pool.
    """
    files = sorted(folder.glob("*.pt"), key=lambda path: (path.name == FINAL, path.name))
    checkpoints = {_age(player, "env_steps"): player for player in map(open_file, files)}
    newest = max(checkpoints)
    player: Any = checkpoints[newest]
    policy = getattr(player, "contestant", player)
    snapshots: dict[int, P] = {}
    if (folder / POOL / INDEX).is_file():
        pool = Pool(folder / POOL, capacity=1, shape=policy.network.shape)  # Nothing is added, so nothing is evicted.
        steps_per_update = newest // max(_age(player, "update"), 1)  # A snapshot of update u was taken before u.
        for snapshot in pool.snapshots:
            network, path = build_network(policy.network.shape), pool.path(snapshot.name)
            network.load_state_dict(load_snapshot(pool, snapshot.name, device))
            entrant = build(network.to(device).eval(), policy.contract, display_name(path), path)
            snapshots[snapshot.update * steps_per_update] = entrant
    return [Frozen(age, frozen) for age, frozen in sorted((snapshots | checkpoints).items())]


def thin(policies: Sequence[Frozen[P]], most: int) -> list[Frozen[P]]:
    """Return at most `most` policies, spaced as evenly in steps as possible, first and last kept if there are two."""
    first, last = policies[0].env_steps, policies[-1].env_steps
    even_steps = [first + (last - first) * i / max(most - 1, 1) for i in range(most)]
    nearest = {min(policies, key=lambda frozen: abs(frozen.env_steps - steps)).env_steps for steps in even_steps}
    return [frozen for frozen in policies if frozen.env_steps in nearest]


def names_by_age(ages: Sequence[int]) -> list[str]:
    """Return a name for every age (950, 12.3k, 1.64M), with as many digits as needed for unique names."""
    digits = next(n for n in count(3) if len({shortened(age, n) for age in ages}) == len(ages))
    return [shortened(age, digits) for age in ages]


def shortened(env_steps: int, digits: int = 3) -> str:
    """Format a number of steps with `digits` significant digits: 950, 12.3k, 1.64M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if env_steps >= size:
            return np.format_float_positional(env_steps / size, digits, fractional=False, trim="-") + letter
    return str(env_steps)


def _age(player: Any, unit: str) -> int:
    if unit not in player.training:
        raise CheckpointError(f"{player.path}: its training summary lacks {unit}, which gives its age; remove the file")
    return int(player.training[unit])
