"""Players of an evaluation in the dogfight, loaded by `agents/opponents/dogfight/load.py`."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

import numpy as np
import torch

from sparring.agents.opponents.dogfight.load import Entrant, load_policy, open_opponent
from sparring.agents.opponents.players import Player
from sparring.agents.policies.loaded_policy import LoadedPolicy, PolicySpaces
from sparring.agents.policies.policy import Policy
from sparring.envs.dogfight.interfaces.spaces import action_space, observation_space
from sparring.eval.dogfight.planner import PlannerPlayer
from sparring.eval.parser import planner_samples

__all__ = ["Entrant", "load_entrant", "load_observing_policy", "load_policy"]


def load_entrant(
    player: Player,
    device: str | torch.device,
    *,
    deterministic: bool = True,
    old_version: bool = True,
    vecnormalize: Path | None = None,
) -> Entrant:
    """Load a located player. Raises `InputError` for an unusable policy, like `load_policy`."""
    if isinstance(player, str) and (samples := planner_samples(player)):
        return Entrant(player, PlannerPlayer(samples, name=player, device=device))
    how = {"deterministic": deterministic, "old_version": old_version}
    return open_opponent(player, device, **how, vecnormalize=vecnormalize)


def load_observing_policy(path: Path, device: str | torch.device, *, vecnormalize: Path | None = None) -> LoadedPolicy:
    """Load the policy in the file `path` for `sparring.load`; raises `InputError` like `load_policy`."""
    entrant = open_opponent(path, device, vecnormalize=vecnormalize)
    if entrant.warning:
        warnings.warn(entrant.warning, stacklevel=3)
    policy, space = entrant.contestant, action_space()
    assert isinstance(policy, Policy)
    rules, observe_physics = policy.contract["rules"], policy.contract["observe_physics"]
    clip = partial(np.clip, a_min=space.low, a_max=space.high)
    spaces = PolicySpaces(observation_space(rules, observe_physics), space, clip)
    return LoadedPolicy(entrant.name, path, policy, spaces, entrant.training, vecnormalize)
