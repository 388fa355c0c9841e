"""What a run has left of itself: its checkpoints and the snapshots in its pool, by age, as players.

A pool snapshot is weights and a network shape, without a contract: it plays under the contract of the run's newest
checkpoint, which is the same network in the same game.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from agents.checkpoint import FINAL, CheckpointError
from agents.policy import Policy
from agents.ppo.network import ActorCritic
from curriculum.pool import INDEX, Pool
from eval import entrants
from eval.entrants import Entrant, display_name, find_checkpoint, load_policy

POOL = "pool"


@dataclass(frozen=True)
class Frozen:
    """The policy of a run as it was after `env_steps` steps."""

    env_steps: int
    entrant: Entrant


def find_run(text: str) -> Path:
    """The folder of a run given by its name, its folder or a checkpoint in it (final.pt is the newest run's).

    Raises `CheckpointError` where there is none.
    """
    folders = [place / text for place in (Path(), entrants.CHECKPOINTS)]
    found = next((folder.resolve() for folder in folders if folder.is_dir()), None)
    return found or find_checkpoint(text).parent


def frozen_policies(folder: Path, device: str | torch.device, *, deterministic: bool = True) -> list[Frozen]:
    """Everything frozen in the run's folder, oldest first, one per number of steps.

    Where several files are of one moment, final.pt stands for them, then a checkpoint, then the pool's snapshot.
    Raises `CheckpointError` for a folder without checkpoints and `PoolError` for a damaged pool.
    """
    policies = [load_policy(path, device, deterministic=deterministic) for path in sorted(folder.glob("*.pt"))]
    if not policies:
        raise CheckpointError(f"{folder}: holds no checkpoint; name a run that has saved one, or final.pt")
    checkpoints = [Frozen(_age(policy, "env_steps"), policy) for policy in policies]
    newest = max(checkpoints, key=lambda frozen: frozen.env_steps)
    # Later ones replace earlier ones of the same age.
    ordered = _pool(folder / POOL, newest, device) + sorted(checkpoints, key=_is_final)
    return sorted({frozen.env_steps: frozen for frozen in ordered}.values(), key=lambda frozen: frozen.env_steps)


def thin(policies: list[Frozen], count: int) -> list[Frozen]:
    """At most `count` (2 or more) of them, as evenly spaced in steps as they come: the first, the last and between."""
    first, last = policies[0].env_steps, policies[-1].env_steps
    wanted = [first + (last - first) * i / (count - 1) for i in range(count)]
    nearest = {min(policies, key=lambda frozen: abs(frozen.env_steps - steps)).env_steps for steps in wanted}
    return [frozen for frozen in policies if frozen.env_steps in nearest]


def _age(policy: Entrant, unit: str) -> int:
    if unit not in policy.training:
        raise CheckpointError(f"{policy.path}: its training summary lacks {unit}, so it has no age; remove the file")
    return int(policy.training[unit])


def _is_final(frozen: Frozen) -> bool:
    return frozen.entrant.path is not None and frozen.entrant.path.name == FINAL


def _pool(folder: Path, newest: Frozen, device: str | torch.device) -> list[Frozen]:
    """The pool's snapshots, playing as `newest` does; a snapshot of update u was taken before it."""
    policy = newest.entrant.contestant
    if not (folder / INDEX).is_file() or not isinstance(policy, Policy):
        return []
    shape = policy.network.shape
    pool = Pool(folder, capacity=1, shape=shape)  # Nothing is added, so nothing has to leave.
    steps_per_update = newest.env_steps // max(_age(newest.entrant, "update"), 1)
    found = []
    for snapshot in pool.snapshots:
        network = ActorCritic.from_shape(shape)
        network.load_state_dict(pool.load(snapshot.name, device))
        path = pool.path(snapshot.name)
        frozen = Policy(
            network.to(device).eval(), policy.contract, name=display_name(path), deterministic=policy.deterministic
        )
        found.append(Frozen(snapshot.update * steps_per_update, Entrant(frozen.name, frozen, path)))
    return found
