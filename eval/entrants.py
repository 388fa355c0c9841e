"""Players who can play: bots, and policies read from their files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from agents.checkpoint import CheckpointError, load_checkpoint
from agents.matches import Contestant
from agents.policy import Policy
from agents.ppo.network import ActorCritic
from agents.sb3_weights import read_zip
from envs.dogfight.batch import observation_size
from envs.dogfight.rules import ACTION_REPEAT, ENV_ID, RULES, VERSION
from eval.find import Player, display_name
from eval.kind import other_game


@dataclass(frozen=True)
class Entrant:
    """Who plays: a bot, or the policy of a checkpoint with the file it came from and how it was trained."""

    name: str
    contestant: Contestant
    path: Path | None = None
    training: dict[str, Any] = field(default_factory=dict)


def load_entrant(player: Player, device: str | torch.device, *, deterministic: bool = True) -> Entrant:
    """A player that was found; raises `InputError` for a policy that cannot be used."""
    if isinstance(player, str):
        return Entrant(player, player)
    return load_policy(player, device, deterministic=deterministic)


def load_policy(path: Path, device: str | torch.device, *, deterministic: bool = True) -> Entrant:
    """The policy in the file `path`, ours or Stable-Baselines3's zip; raises `InputError` if it cannot be used."""
    name = display_name(path)
    if path.suffix == ".zip":
        network = read_zip(path).to(device).eval()
        contract = _usual_contract(path, network)
        return Entrant(name, Policy(network, contract, name=name, deterministic=deterministic), path)
    checkpoint = load_checkpoint(path, device)
    if checkpoint.contract["id"] != ENV_ID:
        raise CheckpointError(other_game(path, checkpoint.contract["id"]))
    policy = Policy(checkpoint.network, checkpoint.contract, name=name, deterministic=deterministic)
    return Entrant(name, policy, path, checkpoint.training)


def _usual_contract(path: Path, network: ActorCritic) -> dict[str, Any]:
    """What a policy without a contract was probably trained under: the usual rules for observations of its size."""
    for rules in RULES:
        for observe_physics in (True, False):
            if observation_size(rules, observe_physics) == network.obs_dim:
                game = {"id": ENV_ID, "version": VERSION, "rules": rules, "action_repeat": ACTION_REPEAT}
                seen = {"obs_dim": network.obs_dim, "observe_physics": observe_physics}
                return game | seen | {"continuous": network.continuous, "binary": network.binary, "mirror": False}
    raise CheckpointError(f"{path}: observes {network.obs_dim} floats, which no rules of the dogfight show")
