"""Policies of an environment version that is no longer registered: refused unless explicitly admitted.

A classic policy of `sparring/Dogfight-v0` observes the same 46 or 59 floats as one of v1, so `admitted` gives it the
current contract. Under challenge rules v0 had other values in [15], [18], [53] and [54] of a frame and in the first
frames of a match; a policy trained on them is always refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparring.configs.core.errors import InputError
from sparring.configs.stored.retired import DOGFIGHT_V0, LET_IT_PLAY, RETIRED, current_id, is_retired
from sparring.envs.game import Game, game_of

SAME_OBSERVATIONS = ("classic",)
"""Rules under which both versions give a policy the same observations."""


class OldVersionError(InputError):
    """Policy of an environment version that is no longer registered; the message is one line with the remedy."""


def game_of_policy(contract: Mapping[str, Any]) -> Game | None:
    """Return the game of a policy's contract, in any version; None for an unknown game."""
    return game_of(current_id(str(contract.get("id"))))


def is_old(contract: Mapping[str, Any]) -> bool:
    """Return whether a policy's contract is with an environment version that is no longer registered."""
    return is_retired(str(contract.get("id")))


def old_version_message(path: Path | str, contract: Mapping[str, Any] | None = None) -> str:
    """Return why the policy in `path` is refused and the remedy; `contract` decides whether it can play at all."""
    old = RETIRED[DOGFIGHT_V0]
    line = f"{path}: was trained under {DOGFIGHT_V0}, whose {old.reason}"
    if contract is not None and not _can_play(contract):
        return f"{line}: it learned from other numbers than {old.successor} shows and cannot play; train a new policy"
    return f"{line}; train a new policy under {old.successor}, or let this one play with {LET_IT_PLAY}"


def admitted(contract: Mapping[str, Any], path: Path | str) -> dict[str, Any]:
    """Return the contract under which the policy in `path` plays now: its own, with an old id and version replaced.

    Raises `OldVersionError` for an old policy whose observations differ from those of the current environment.
    """
    if not is_old(contract):
        return dict(contract)
    if not _can_play(contract):
        raise OldVersionError(old_version_message(path, contract))
    game = game_of_policy(contract)
    assert game is not None
    return {**contract, "id": game.id, "version": game.version}


def _can_play(contract: Mapping[str, Any]) -> bool:
    return contract.get("rules") in SAME_OBSERVATIONS
