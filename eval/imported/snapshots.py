"""Saved policies of a run in an imported game, by age: its checkpoints and the snapshots in its pool."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import torch

from sparring.agents.opponents.players import display_name
from sparring.agents.opponents.seats import NetworkSeats, load_seat_policy
from sparring.agents.policies.checkpoint import CheckpointError
from sparring.agents.policies.networks import build_network, load_snapshot
from sparring.agents.run.folder import FINAL
from sparring.curriculum.pool import INDEX, Pool
from sparring.eval.dogfight.snapshots import POOL, shortened

Ages = dict[int, NetworkSeats]
"""Policies by number of env steps, oldest first."""


def frozen_seats(folder: Path, device: str | torch.device, *, deterministic: bool = True) -> Ages:
    """Return all saved policies in the run's folder (from `find_run`), oldest first, one per number of steps.

    Of several with the same number of steps, final.pt has priority, then a checkpoint, then the pool's snapshot.
    Raises `CheckpointError` and `PoolError` for damaged files.
    """
    files = sorted(folder.glob("*.pt"), key=lambda path: (path.name == FINAL, path.name))
    checkpoints = {}
    for path in files:
        player = load_seat_policy(path, None, device, deterministic=deterministic)
        checkpoints[_summary(player, "env_steps")] = player
    policies = _pool(folder / POOL, checkpoints[max(checkpoints)], device) | checkpoints
    return dict(sorted(policies.items()))


def thinned(policies: Ages, most: int) -> Ages:
    """Return at most `most` policies, spaced as evenly in steps as possible, first and last kept if there are two."""
    ages = list(policies)
    even = [ages[0] + (ages[-1] - ages[0]) * i / max(most - 1, 1) for i in range(most)]
    nearest = {min(ages, key=lambda age: abs(age - steps)) for steps in even}
    return {age: policy for age, policy in policies.items() if age in nearest}


def named_by_age(policies: Ages) -> Ages:
    """Name the policies by their age (950, 12.3k, 1.64M), with as many digits as needed for unique names."""
    digits = next(n for n in count(3) if len({shortened(age, n) for age in policies}) == len(policies))
    for age, policy in policies.items():
        policy.name = shortened(age, digits)
    return policies


def _summary(player: NetworkSeats, unit: str) -> int:
    if unit not in player.training:
        raise CheckpointError(f"{player.path}: its training summary lacks {unit}, so it has no age; remove the file")
    return int(player.training[unit])


def _pool(folder: Path, newest: NetworkSeats, device: str | torch.device) -> Ages:
    """Return the pool's snapshots with the contract of `newest`; a snapshot of update u was taken before u."""
    if not (folder / INDEX).is_file():
        return {}
    shape = newest.network.shape
    pool = Pool(folder, capacity=1, shape=shape)  # Nothing is added, so nothing is evicted.
    steps_per_update = _summary(newest, "env_steps") // max(_summary(newest, "update"), 1)
    policies = {}
    for snapshot in pool.snapshots:
        network = build_network(shape)
        network.load_state_dict(load_snapshot(pool, snapshot.name, device))
        path = pool.path(snapshot.name)
        policies[snapshot.update * steps_per_update] = NetworkSeats(
            network.to(device).eval(),
            newest.contract,
            name=display_name(path),
            deterministic=newest.deterministic,
            path=path,
        )
    return policies
