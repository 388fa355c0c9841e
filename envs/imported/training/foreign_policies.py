"""External policies in Gymnasium environments as checkpoints: Stable-Baselines3 zips and ONNX models.

A zip, or a model that this project did not export, does not name its environment; the user names it. Sizes and bounds
come from the environment, never from an untrusted file. Observation statistics are part of an exported model; a zip has
them in a separate file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from gymnasium.spaces import Box, Space, flatten_space
from torch import Tensor

from sparring.agents.opponents import players
from sparring.agents.opponents.duelists import zip_player
from sparring.agents.opponents.onnx_actor import ActionForm, OnnxActor
from sparring.agents.opponents.onnx_file import OnnxForm, read_onnx
from sparring.agents.policies.actor_critic import alternatives
from sparring.agents.policies.checkpoint import Checkpoint
from sparring.agents.policies.networks import PolicyNetwork
from sparring.agents.policies.policy import Policy, action_columns
from sparring.agents.policies.sb3_files import SB3Error, read_zip
from sparring.configs.core.errors import InputError
from sparring.envs.imported.training.copies import make_copies
from sparring.envs.spaces import action_sizes, flat_actions


class ForeignActor:
    """Substitute for a checkpoint's network: deterministic actions, with switches on above 0."""

    def __init__(self, policy: Policy, path: Path) -> None:
        self.policy, self._path = policy, path
        self._sizes = torch.tensor(alternatives(policy.contract["categorical"]), dtype=torch.float32)

    def act(self, obs: Tensor, *, deterministic: bool = True) -> tuple[Tensor, Tensor]:
        """Return actions [B, A] for observations [B, D], and zeros [B].

        Raises `InputError` for a number that is not finite or not a choice.
        """
        actions, contract = self.policy.act(obs, deterministic=deterministic).clone(), self.policy.contract
        switches = actions[:, contract["continuous"] : contract["continuous"] + contract["binary"]]
        switches.copy_(switches > 0)
        chosen = actions[:, actions.shape[1] - len(self._sizes) :].cpu()
        wrong = (chosen != chosen.round()) | (chosen < 0) | (chosen >= self._sizes)
        if not bool(actions.isfinite().all()) or bool(wrong.any()):
            sizes = f" and choices below {self._sizes.int().tolist()}" if len(self._sizes) else ""
            raise InputError(f"{self._path}: returned {actions[0].tolist()}; expected finite numbers{sizes}")
        return actions, torch.zeros(len(obs), device=obs.device)


def load_foreign(
    path: Path, device: str, env_id: str, stated: Mapping[str, Any], vecnormalize: Path | None = None
) -> tuple[Checkpoint, tuple[str, ...]]:
    """Load a zip or an ONNX model for the environment `env_id`, with notes; `stated` is a model's own contract.

    Raises `InputError` for a file that cannot be used and one of other spaces, and `ConfigError` for an unknown
    environment.
    """
    copies = make_copies(env_id, 1)
    copies.close()
    action, flat = copies.action_space, copies.flat
    contract = {"id": env_id, "version": flat.version, "obs_dim": flat.size, **action_sizes(action)}
    notes: tuple[str, ...] = ()
    if path.suffix == players.ONNX:
        contract |= {"scale_actions": True} if stated.get("scale_actions") is True else {}
        policy = Policy(cast(PolicyNetwork, _model(path, device, contract, action)), contract)
    else:
        model = read_zip(path, choices=True)
        _check_sizes(path, model.network, contract)
        spaces = cast(Box, flatten_space(copies.observation_space)), flat_actions(action, scale=False)
        player = zip_player(path, model, contract, spaces, device, vecnormalize=vecnormalize)
        policy, notes = cast(Policy, player.contestant), player.notes
    network = cast(PolicyNetwork, ForeignActor(policy, path))
    return Checkpoint(network, contract, {}, path), notes


def _check_sizes(path: Path, network: PolicyNetwork, contract: Mapping[str, Any]) -> None:
    """Raise `SB3Error` unless a network has the observation and action sizes of a contract."""
    for key in ("obs_dim", "continuous", "binary", "categorical"):
        found, wanted = getattr(network, key), contract[key]
        wanted = alternatives(wanted) if key == "categorical" else wanted
        if found != wanted:
            raise SB3Error(
                f"{path}: has {key}={found}, and {contract['id']} has {wanted}; give its environment as --id"
            )


def _model(path: Path, device: str, contract: dict[str, Any], action: Space[Any]) -> OnnxActor:
    """Read a model with the observation and action sizes of a contract. Raises `OnnxError` for other sizes."""
    size, columns = contract["obs_dim"], action_columns(contract)
    wanted = (
        f"a model of {contract['id']}: input float32 [1, {size}] or [N, {size}], output float32 [1, {columns}] or "
        f"[N, {columns}]"
    )
    file = read_onnx(path, OnnxForm(lambda shown, _: contract if shown == size else None, wanted))
    space = flat_actions(action, scale=contract.get("scale_actions", False))
    low, high = (space.low, space.high) if isinstance(space, Box) else (np.zeros(0), np.zeros(0))
    form = ActionForm(low, high, contract["binary"], "actions")
    return OnnxActor(file, form, device=device, threads=torch.get_num_threads())
