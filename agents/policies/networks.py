"""Networks built from their shape, which also determines the family."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparring.agents.policies.actor_critic import ActorCritic, network_shape
from sparring.configs.schema import NetworkConfig
from sparring.envs.game import game_of, load


def shape_for(contract: Mapping[str, Any], config: NetworkConfig) -> dict[str, Any]:
    """Return the network shape for `contract`: the game's own family, or `ActorCritic`."""
    game = game_of(contract["id"])
    if game and game.network_shape:
        return dict(load(game.network_shape)(config))
    obs_dim, continuous, binary = (contract[key] for key in ("obs_dim", "continuous", "binary"))
    return network_shape(obs_dim, continuous, binary, config, categorical=contract.get("categorical", 0))


def build_network(shape: dict[str, Any], *, seed: int = 0) -> ActorCritic:
    """Build the network that `shape` describes, with initial weights drawn from `seed`.

    It is an `ActorCritic`, or Diplomacy's order network, which has the same interface.
    """
    if "family" not in shape:
        return ActorCritic.from_shape(shape, seed=seed)
    from sparring.agents.policies.order_network import FAMILY, OrderNetwork

    if shape["family"] != FAMILY:
        raise ValueError(f"unknown family of networks {shape['family']!r}")
    options = {key: value for key, value in shape.items() if key in NetworkConfig.__dataclass_fields__}
    network = OrderNetwork(NetworkConfig(**options), seed=seed)
    if network.obs_dim != shape["obs_dim"]:
        raise ValueError(f"observations of {shape['obs_dim']} numbers, this version has {network.obs_dim}")
    return network  # type: ignore[return-value]
