"""A policy's actor as plain data for `network.js`: layers, float32 weights in base64, and the mirror's columns."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from sparring.agents.play.matches import Contestant
from sparring.agents.policies.actor_critic import ActorCritic, Residual
from sparring.agents.policies.policy import Policy
from sparring.configs.core.errors import InputError
from sparring.envs.dogfight.mirror import Mirror
from sparring.envs.dogfight.recording import short_name

RULES = "classic"
"""The only rules that `simulator.js` knows."""


def stored_policy(policy: Contestant) -> dict[str, Any]:
    """Return what `makePolicy` of `network.js` takes. Raises `InputError` for a policy that a page cannot run."""
    if not isinstance(policy, Policy):
        raise InputError(f"{policy}: a bot has no network to put into a page; give a checkpoint")
    contract, network = policy.contract, policy.network
    if not isinstance(network, ActorCritic):
        raise InputError(f"{policy.name}: is no network of this project, which a page needs; give a checkpoint (.pt)")
    if contract["rules"] != RULES:
        raise InputError(f"{policy.name}: plays {contract['rules']} rules; a page without a server knows only {RULES}")
    mirror = Mirror(contract["rules"], network.obs_dim) if contract.get("mirror") else None
    return {
        "name": policy.name,
        "short": short_name(policy.name),
        "obsDim": network.obs_dim,
        "layers": _layers(network.actor),
        "mirror": mirror and _columns(mirror),
    }


def _layers(layers: Iterable[nn.Module]) -> list[dict[str, Any]]:
    return [_layer(layer) for layer in layers]


def _layer(layer: nn.Module) -> dict[str, Any]:
    match layer:
        case nn.Linear():
            return {"kind": "linear", "outputs": layer.out_features, "weights": _floats(layer.bias, layer.weight)}
        case nn.LayerNorm():
            size, weights = layer.normalized_shape[0], _floats(layer.bias, layer.weight)
            return {"kind": "norm", "size": size, "epsilon": layer.eps, "weights": weights}
        case Residual():
            return {"kind": "residual", "layers": _layers(layer.branch)}
        case nn.ReLU() | nn.Tanh():
            return {"kind": type(layer).__name__.lower()}
    raise TypeError(f"{type(layer).__name__}: a layer that network.js does not know")


def _floats(*tensors: Tensor) -> str:
    flat = torch.cat([tensor.detach().float().cpu().flatten() for tensor in tensors])
    return base64.b64encode(flat.numpy().astype("<f4").tobytes()).decode("ascii")


def _columns(mirror: Mirror) -> dict[str, Any]:
    return {
        "opponentX": mirror.opponent_x,
        "sign": [int(sign) for sign in mirror.sign.tolist()],
        "bulletX": mirror.bullet_x.tolist(),
        "bearing": mirror.bearing.tolist(),
    }
