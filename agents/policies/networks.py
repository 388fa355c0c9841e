"""Networks built from their shape, which also determines the family; stored ones are checked before they are built.

The sizes in a file only say what the weights should be: `check_weights` compares them with the stored tensors, so that
a few bytes cannot ask for a network of any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NotRequired

import torch
from pydantic import Field, Strict
from torch import Tensor
from typing_extensions import TypedDict

from sparring.agents.policies import seat_network
from sparring.agents.policies.actor_critic import LATER, ActorCritic, alternatives, network_shape, weight_sizes
from sparring.agents.policies.encoders import AUTO, BY_SIZE, FLAT, NATURE, NATURE_SIDE, Picture
from sparring.agents.policies.memory import NONE
from sparring.configs.core.errors import ConfigError
from sparring.configs.core.tensor_file import Tensors, check_tensor
from sparring.configs.core.typed import Flag, Text, naming, read, require, within
from sparring.configs.schema import NetworkConfig
from sparring.configs.serialization import check_option
from sparring.curriculum.pool import Pool, PoolError
from sparring.envs.game import game_of, load

Size = Annotated[int, Strict(), Field(ge=0, le=10**9)]


class StoredShape(TypedDict):
    """Sizes in a stored shape, beside the options of `NetworkConfig`."""

    obs_dim: Size
    continuous: Size
    binary: Size
    categorical: NotRequired[Size | list[Size]]
    family: NotRequired[Text]
    masked: NotRequired[Flag]
    roles: NotRequired[Size]
    picture: NotRequired[list[Size]]


def shape_for(contract: Mapping[str, Any], config: NetworkConfig) -> dict[str, Any]:
    """Return the network shape for `contract`: the game's own family, `SeatNetwork` or `ActorCritic`.

    A contract with the key `masked` is one of seats; recurrent networks are `SeatNetwork`s too. Raises `ConfigError`
    for gSDE without continuous actions, and for other options that do not suit the game.
    """
    if config.all_phases and not contract.get("all_phases"):
        raise ConfigError(f"network.all_phases=true: is for Diplomacy, not {contract['id']}; leave it out")
    if "masked" in contract or config.memory != NONE:
        return seat_network.seat_shape(contract, config)
    if config.gsde and not contract["continuous"]:
        raise ConfigError(f"network.gsde=true: {contract['id']} has no continuous actions; leave it out")
    game = game_of(contract["id"])
    if game and game.network_shape:
        return dict(load(game.network_shape)(config))
    obs_dim, continuous, binary = (contract[key] for key in ("obs_dim", "continuous", "binary"))
    return network_shape(obs_dim, continuous, binary, config, categorical=contract.get("categorical", 0))


def build_network(shape: dict[str, Any], *, seed: int = 0) -> ActorCritic:
    """Build the network that `shape` describes, with initial weights drawn from `seed`.

    It is an `ActorCritic`, its `SeatNetwork`, or Diplomacy's order network, which has the same interface. A stored
    shape has passed `check_shape`, and its weights `check_weights`.
    """
    if "masked" in shape:
        return seat_network.SeatNetwork.from_shape(shape, seed=seed)
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


def check_shape(shape: Mapping[str, Any]) -> None:
    """Raise `ContentError` for a stored shape with keys, types or values that no network has."""
    sizes, options = read(StoredShape, shape), NetworkConfig.__dataclass_fields__
    for name in shape:
        require(name in options or name in StoredShape.__annotations__, f"{name}: is unknown to this version")
    for name in options:
        if name in shape:
            check_option(NetworkConfig, name, shape[name])
        known = name in shape or name in ("activation", *LATER)  # early ones had one activation
        require(known, f"{name} is missing")
    low, high = shape["log_std_min"], shape["log_std_max"]
    require(low <= high, f"log_std_min={low}: must be at most log_std_max={high}")
    if "family" in sizes:
        from sparring.agents.policies.order_network import FAMILY, order_network_shape

        usual = order_network_shape(NetworkConfig(all_phases=shape.get("all_phases", False)))
        require(sizes["family"] == FAMILY, f"family={sizes['family']!r}: must be {FAMILY!r}")
        for name in ("obs_dim", "continuous", "binary"):
            require(shape[name] == usual[name], f"{name}={shape[name]}: this version has {usual[name]}")
        require("categorical" not in shape, "categorical: is of no network of this family")
    else:
        for name in ("in_turn", "all_phases"):
            require(name not in shape, f"{name}: is of no network of this family")
    if "masked" in sizes and "family" not in sizes:
        _check_seats(shape)
    else:
        for name in ("masked", "roles", "picture", "encoder", "memory"):
            require(name not in shape, f"{name}: is of no network of this family")


def _check_seats(shape: Mapping[str, Any]) -> None:
    """Raise `ContentError` for sizes of a `SeatNetwork` that do not fit together."""
    choices, roles, picture = alternatives(shape.get("categorical", 0)), shape.get("roles", 1), shape.get("picture")
    require("roles" not in shape or roles > 1, f"roles={roles}: must be at least 2, or missing for one role")
    require(bool(choices) or not shape["masked"], "masked=True: there is no choice whose alternatives could be masked")
    require(not shape.get("gsde"), "gsde: is of no network of this family")
    features = seat_network.feature_count(shape["obs_dim"], choices, masked=shape["masked"], roles=roles)
    require(features > 0, f"obs_dim={shape['obs_dim']}: leaves {features} features; must be at least 1")
    require(("encoder" in shape) == ("picture" in shape), "encoder and picture: must both be there, or neither")
    if picture is None:
        return
    fits = len(picture) == 5 and picture[4] in (0, 1) and min(picture[1:4]) > 0 and Picture(*picture).stop <= features
    require(fits, f"picture={picture}: must be the start, height, width, channels and order of some of the features")
    encoder, side = shape["encoder"], min(picture[1:3])
    require(encoder not in (BY_SIZE, AUTO, FLAT), f"encoder={encoder}: must be the one that was chosen")
    require(encoder != NATURE or side >= NATURE_SIDE, f"picture={picture}: is too small for encoder={NATURE}")


def check_weights(shape: Mapping[str, Any], weights: Any) -> None:
    """Raise `ContentError` unless the weights are exactly those of a checked `shape`, float32 and finite.

    Stops at the first that is not stored, so that sizes of any number cost nothing.
    """
    stored, known = read(Tensors, weights), 0
    for name, size in _sizes(shape):
        require(name in stored, f"{name} is missing, which a network of this shape has")
        # Its storage has been checked, so that one of the same shape cannot be larger than the file.
        require(tuple(stored[name].shape) == size, f"{name}: has shape {tuple(stored[name].shape)}; must be {size}")
        check_tensor(stored[name], torch.empty(size, dtype=torch.float32, device="meta"), name)
        known += 1
    require(known == len(stored), f"holds {len(stored)} tensors; a network of this shape has {known}")


def load_snapshot(pool: Pool, name: str, device: str | torch.device) -> dict[str, Tensor]:
    """Return the weights of a snapshot in `pool`, those of a network of its shape; raises `PoolError`."""
    weights, path = pool.load(name, device), pool.path(name)
    with naming(path, PoolError, "restore it or remove the pool"), within("weights"):
        check_weights(pool.shape, weights)
    return weights


def _sizes(shape: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every weight, in closed form."""
    if "masked" in shape:
        return seat_network.seat_weight_sizes(shape)
    if "family" not in shape:
        return weight_sizes(shape)
    from sparring.agents.policies.order_network import order_weight_sizes

    options = {name: shape.get(name, False) for name in ("in_turn", "all_phases")}
    return order_weight_sizes(shape["hidden"], shape["blocks"], **options)
