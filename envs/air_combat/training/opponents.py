"""Air combat's players, from a name, a file or a Python object, and the conditions of its evaluation matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, MultiDiscrete

from sparring.agents.opponents import players
from sparring.agents.opponents.python_policy import PythonPolicy
from sparring.agents.opponents.snapshots import Frozen, frozen_players
from sparring.agents.policies.checkpoint import CheckpointError, load_checkpoint
from sparring.agents.policies.loaded_policy import LoadedPolicy, PolicySpaces
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.policies.policy import Policy
from sparring.configs.core.errors import choose
from sparring.configs.opponents import is_code, named_source, registered, registered_name, source_name
from sparring.envs.air_combat import GAME, rules
from sparring.envs.air_combat.batch import AirCombatBatch

AUTO = "auto"
"""In a run's options: the gun of the flight model."""


@dataclass(frozen=True)
class Pilot:
    """A scripted pilot by name, or a policy with its file and training metadata."""

    name: str
    contestant: str | Policy
    path: Path | None = None
    training: dict[str, Any] = field(default_factory=dict)


def open_player(x: Any, device: str | torch.device = "cpu", *, deterministic: bool = True) -> Pilot:
    """Return the player that `x` means: a scripted pilot, a checkpoint, a Python object or its name, or a `Policy`.

    Raises `InputError` for an unknown name, and for one that cannot act.
    """
    if isinstance(x, Policy):
        return Pilot(x.name, x)
    if isinstance(x, str):
        if is_code(x):
            return Pilot(x, PythonPolicy(named_source(x), name=x, device=device))
        if x.startswith(players.SAMPLED_PREFIX):
            path = players.find_checkpoint(x.removeprefix(players.SAMPLED_PREFIX), GAME)
            sampled = load_pilot(path, device, deterministic=False)
            return replace(sampled, name=f"{players.SAMPLED_PREFIX}{sampled.name}")
        x = players.find_player(x, GAME, bare=(*GAME.bots, *registered()))
    if isinstance(x, str):
        return Pilot(x, x)
    if isinstance(x, Path):
        return load_pilot(x, device, deterministic=deterministic)
    name = registered_name(x) or source_name(x)
    return Pilot(name, PythonPolicy(x, name=name, device=device))


def load_pilot(path: Path, device: str | torch.device, *, deterministic: bool = True) -> Pilot:
    """Load a checkpoint. Raises `InputError` for a file that is not a checkpoint, or of another game or layout."""
    checkpoint, name = load_checkpoint(path, device), players.display_name(path)
    if checkpoint.contract["id"] != GAME.id:
        raise CheckpointError(players.other_game(path, checkpoint.contract["id"], GAME))
    policy = Policy(checkpoint.network, checkpoint.contract, name=name, deterministic=deterministic)
    return Pilot(name, policy, path, checkpoint.training)


def frozen_pilots(folder: Path, device: str | torch.device, *, deterministic: bool = True) -> list[Frozen[Pilot]]:
    """Return the policies of a run's folder by age; see `frozen_players`."""

    def build(network: PolicyNetwork, contract: Mapping[str, Any], name: str, path: Path) -> Pilot:
        return Pilot(name, Policy(network, contract, name=name, deterministic=deterministic), path)

    return frozen_players(folder, device, partial(load_pilot, device=device, deterministic=deterministic), build)


def trained_matches(training: Mapping[str, Any]) -> tuple[str, str]:
    """Return the flight model, and the gun if one was named, of a policy's own matches, from its training metadata.

    Without any it is the point mass, and no gun is named.
    """
    env = training.get("config", {}).get("env", {})
    model, gun = env.get("model", rules.MODELS[0]), env.get("gun", AUTO)
    return choose("model", model, rules.MODELS), "" if gun == AUTO else choose("gun", gun, rules.GUNS)


@dataclass(frozen=True)
class CombatConditions:
    """Conditions of matches, `duel_matches.DuelSettings`; the options are those of `AirCombatBatch`."""

    model: str = "point_mass"
    gun: str = ""
    action_repeat: int = rules.ACTION_REPEAT
    max_ticks: int = rules.MAX_TICKS
    device: str = "cpu"
    threads: int = 0
    options: rules.CombatOptions = rules.PLAIN

    @property
    def gun_name(self) -> str:
        """The gun, where none is named that of the flight model."""
        return self.gun or rules.usual_gun(self.model)

    def batch(self, games: int) -> AirCombatBatch:
        """Create a batch of `games` matches under these conditions."""
        return AirCombatBatch(games, **vars(self))

    def under(self, ranges: np.ndarray) -> CombatConditions:
        """Return these conditions: the physics is not randomized."""
        return self

    def filmed(self) -> CombatConditions:
        """Return these conditions: a match is filmed from its snapshots."""
        return self


def load_observing_policy(path: Path, device: str | torch.device) -> LoadedPolicy:
    """Load the policy in the file `path` for `sparring.load`; its spaces are those of `AirCombatParallelEnv`."""
    pilot = load_pilot(path, device)
    assert isinstance(pilot.contestant, Policy)
    contract = pilot.contestant.contract
    observed = Box(-np.inf, np.inf, (contract["obs_dim"],), np.float32)
    choices = contract.get("categorical")
    if choices:
        spaces = PolicySpaces(observed, MultiDiscrete(choices), partial(np.asarray, dtype=np.int64))
    else:
        size = contract["continuous"] + contract["binary"]
        spaces = PolicySpaces(observed, Box(-1.0, 1.0, (size,), np.float32), partial(np.clip, a_min=-1.0, a_max=1.0))
    return LoadedPolicy(pilot.name, path, pilot.contestant, spaces, pilot.training)
