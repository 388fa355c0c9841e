"""Players who can play: bots, and policies read from their files.

A policy of an old version of the environment, whose bots differed, plays in today's only where it was asked for, and
its entrant carries a note that says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from sparring.agents.baselines.sb3_weights import read_zip
from sparring.agents.play.matches import Contestant
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import CheckpointError, load_checkpoint
from sparring.agents.policies.env_version import OldVersionError, admitted, is_old, old_version_message
from sparring.agents.policies.policy import Policy
from sparring.envs.dogfight import GAME
from sparring.envs.dogfight.batch import observation_size
from sparring.envs.dogfight.rules import ACTION_REPEAT, ENV_ID, RULES, VERSION
from sparring.eval.onnx_export.onnx_actor import contract_of, make_policy, notes_on
from sparring.eval.onnx_export.onnx_file import read_onnx
from sparring.eval.players import ONNX, Player, display_name
from sparring.eval.suggestions import other_game

SB3 = ".zip"
"""How the file of a model that Stable-Baselines3 saved ends."""


@dataclass(frozen=True)
class Entrant:
    """Who plays: a bot, or the policy of a checkpoint with the file it came from and how it was trained."""

    name: str
    contestant: Contestant
    path: Path | None = None
    training: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What has to be said of the player wherever its results are shown, one sentence each without its full stop."""


def load_entrant(
    player: Player, device: str | torch.device, *, deterministic: bool = True, old_version: bool = True
) -> Entrant:
    """A player that was found; raises `InputError` for a policy that cannot be used, as `load_policy` does."""
    if isinstance(player, str):
        return Entrant(player, player)
    return load_policy(player, device, deterministic=deterministic, old_version=old_version)


def load_policy(
    path: Path, device: str | torch.device, *, deterministic: bool = True, old_version: bool = True
) -> Entrant:
    """The policy in the file `path`: ours, an ONNX agent, or Stable-Baselines3's zip.

    Raises `InputError` if it cannot be used; unless `old_version`, also if it is of an old version of the environment.
    """
    if path.suffix == ONNX:
        return _load_onnx(path, device, deterministic=deterministic, old_version=old_version)
    name = display_name(path)
    if path.suffix == SB3:
        network = read_zip(path).to(device).eval()
        contract = _usual_contract(path, network)
        return Entrant(name, Policy(network, contract, name=name, deterministic=deterministic), path)
    checkpoint = load_checkpoint(path, device)
    contract, notes = _todays(path, checkpoint.contract, old_version=old_version)
    policy = Policy(checkpoint.network, contract, name=name, deterministic=deterministic)
    return Entrant(name, policy, path, checkpoint.training, notes)


def _load_onnx(path: Path, device: str | torch.device, *, deterministic: bool, old_version: bool) -> Entrant:
    name, file = display_name(path), read_onnx(path)
    contract, notes = _todays(path, contract_of(file), old_version=old_version)
    policy = make_policy(file, contract, name=name, device=device)
    return Entrant(name, policy, path, notes=notes + notes_on(file, name, deterministic=deterministic))


def _todays(path: Path, contract: dict[str, Any], *, old_version: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The contract under which a policy plays today, and a note where that is not its own."""
    if is_old(contract):
        if not old_version:
            raise OldVersionError(old_version_message(path, contract))
        note = f"{display_name(path)} was trained in {contract['id']}, whose bots differed"
        return admitted(contract, path), (note,)
    if contract["id"] != ENV_ID:
        raise CheckpointError(other_game(path, contract["id"], GAME))
    return contract, ()


def _usual_contract(path: Path, network: ActorCritic) -> dict[str, Any]:
    """What a policy without a contract was probably trained under: the usual rules for observations of its size."""
    for rules in RULES:
        for observe_physics in (True, False):
            if observation_size(rules, observe_physics) == network.obs_dim:
                game = {"id": ENV_ID, "version": VERSION, "rules": rules, "action_repeat": ACTION_REPEAT}
                seen = {"obs_dim": network.obs_dim, "observe_physics": observe_physics}
                return game | seen | {"continuous": network.continuous, "binary": network.binary, "mirror": False}
    raise CheckpointError(f"{path}: observes {network.obs_dim} floats, which no rules of the dogfight show")
