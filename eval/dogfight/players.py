"""Players of an evaluation in the dogfight, loaded by `agents/opponents/dogfight/load.py`."""

from __future__ import annotations

import torch

from sparring.agents.opponents.dogfight.load import Entrant, load_policy, open_opponent
from sparring.agents.opponents.players import Player

__all__ = ["Entrant", "load_entrant", "load_policy"]


def load_entrant(
    player: Player, device: str | torch.device, *, deterministic: bool = True, old_version: bool = True
) -> Entrant:
    """Load a located player. Raises `InputError` for an unusable policy, like `load_policy`."""
    return open_opponent(player, device, deterministic=deterministic, old_version=old_version)
