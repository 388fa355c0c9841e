"""Environment ids that are no longer registered, with the reason and the replacement.

A version rises when the same actions no longer lead to the same observations or rewards; training under the old
version then differs from training under the new one.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparring.configs.schema import DOGFIGHT


@dataclass(frozen=True)
class Retired:
    """Fault of the environment, worded to follow "its" or "whose", and the id to use instead."""

    reason: str
    successor: str


DOGFIGHT_V0 = "sparring/Dogfight-v0"
RETIRED = {
    DOGFIGHT_V0: Retired(
        "scripted bots and challenge observations differed from the game they are named after", DOGFIGHT
    )
}
LET_IT_PLAY = "eval/run.py --env-version 0"
"""Option for an old policy in its environment's new version."""


def is_retired(env_id: str) -> bool:
    """Return whether an id, with or without `module:` before it, was registered and is not any more."""
    return _bare(env_id) in RETIRED


def id_message(env_id: str) -> str:
    """Return the error for a retired `env.id`: the reason and the id to use."""
    old = RETIRED[_bare(env_id)]
    return f"env.id={env_id}: is no longer registered, because its {old.reason}; use env.id={old.successor}"


def run_message(run: object, env_id: str) -> str:
    """Return why a run, named by its folder, cannot resume, and the alternative."""
    old = RETIRED[_bare(env_id)]
    return (
        f"{run}: was trained under {_bare(env_id)}, whose {old.reason}, and cannot be resumed under {old.successor}; "
        f"start a new run under another name=; the old policies can play with {LET_IT_PLAY}"
    )


def current_id(env_id: str) -> str:
    """Return the id under which an environment is registered today: `env_id` itself unless it is retired."""
    return RETIRED[_bare(env_id)].successor if is_retired(env_id) else env_id


def _bare(env_id: str) -> str:
    return env_id.rpartition(":")[2]
