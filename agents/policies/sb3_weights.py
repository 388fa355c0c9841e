"""Conversion of Stable-Baselines3 policies to our network, without executing code from the file.

An SB3 zip holds `policy.pth` (tensors, read with weights_only) and `data` (JSON whose values are pickles, each with a
readable description). Only the descriptions are read: loading an untrusted pickle can execute arbitrary code. A plain
policy of two layers of ReLU or tanh with Gaussian actions is the same function as our network without Bernoulli
actions; anything else is refused with the reason.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from sparring.agents.policies.actor_critic import ActorCritic, network_shape
from sparring.agents.policies.networks import check_weights
from sparring.configs.core.errors import InputError
from sparring.configs.core.tensor_file import TensorFileError, check_members, unpack
from sparring.configs.schema import NetworkConfig

LAYERS = {
    "mlp_extractor.policy_net.0": "actor.0",
    "mlp_extractor.policy_net.2": "actor.2",
    "action_net": "actor.4",
    "mlp_extractor.value_net.0": "critic.0",
    "mlp_extractor.value_net.2": "critic.2",
    "value_net": "critic.4",
}
"""SB3's layer names, and ours."""


ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}
"""Our activation names, and torch's classes."""


class SB3Error(InputError):
    """An SB3 file or policy that cannot be played here; the message is one line with the reason."""


def to_actor_critic(
    state: Mapping[str, Tensor], activation: str, *, binary: int = 0, categorical: int | Sequence[int] = 0
) -> ActorCritic:
    """Convert SB3's `state_dict`; raise `SB3Error` for another architecture.

    Its actions are `binary` switches, `categorical` choices, or else continuous; SB3 has one kind at a time.
    """
    gaussian = not (binary or categorical)
    known = {f"{layer}.{part}" for layer in LAYERS for part in ("weight", "bias")} | (
        {"log_std"} if gaussian else set()
    )
    odd = sorted(known.symmetric_difference(state))
    if odd:
        raise SB3Error(f"its policy is not two plain layers each for actions and values: {', '.join(odd[:3])}")
    first = state["mlp_extractor.policy_net.0.weight"]
    log_std = state["log_std"] if gaussian else torch.zeros(0)
    if not all(isinstance(one, Tensor) for one in (first, log_std)) or first.dim() != 2 or log_std.dim() not in (1, 2):
        raise SB3Error("its layers have other shapes than those of a policy")
    hidden, obs_dim = first.shape
    gsde, continuous = log_std.dim() == 2, log_std.shape[-1]
    config = NetworkConfig(hidden=hidden, activation=activation, log_std_min=-20.0, log_std_max=5.0, gsde=gsde)
    ours = {f"{LAYERS[layer]}.{part}": state[f"{layer}.{part}"] for layer in LAYERS for part in ("weight", "bias")}
    ours["log_std"] = log_std
    try:
        check_weights(network_shape(obs_dim, continuous, binary, config, categorical=categorical), ours)
    except InputError as error:
        raise SB3Error(f"its layers are not all of one width, or not of finite float32 numbers: {error}") from error
    network = ActorCritic(obs_dim, continuous, binary, config, categorical=categorical)
    network.load_state_dict(ours)
    return network


def read_zip(path: Path) -> ActorCritic:
    """Read the policy of an SB3 zip; raise `SB3Error` for another kind of file or an unsupported policy."""
    state, data = _read(path)
    activation = _activation(data)
    ours = {kind.__name__: name for name, kind in ACTIVATIONS.items()}
    if activation not in ours:
        raise SB3Error(f"{path}: its activation is {activation}; train it with one of torch.nn's {', '.join(ours)}")
    try:
        return to_actor_critic(state, ours[activation])
    except SB3Error as error:
        raise SB3Error(f"{path}: {error}") from error


def was_normalized(path: Path) -> bool | None:
    """Return whether the policy of an SB3 zip was trained under `VecNormalize`; None if the zip does not show it.

    SB3 keeps the last observations, and only under that wrapper also those before it.
    """
    _, data = _read(path)
    if not isinstance(data, dict) or data.get("_last_obs") is None or "_last_original_obs" not in data:
        return None
    return data["_last_original_obs"] is not None


def _read(path: Path) -> tuple[dict[str, Tensor], object]:
    """Return the weights and the descriptions of an SB3 zip."""
    try:
        with zipfile.ZipFile(path) as archive:
            check_members(archive.infolist(), path.stat().st_size)
            weights, data = archive.read("policy.pth"), json.loads(archive.read("data"))
        return unpack(weights), data
    except TensorFileError as error:
        raise SB3Error(f"{path}: it or its policy.pth {error}") from error
    except Exception as error:  # a flipped bit can raise any exception
        raise SB3Error(f"{path}: is damaged, or not a model saved by Stable-Baselines3") from error


def _activation(data: object) -> str:
    """Return the activation's name from the description in `data`; SB3's default if there is none."""
    options = data.get("policy_kwargs") if isinstance(data, dict) else None
    described = str(options.get("activation_fn", "")) if isinstance(options, dict) else ""
    found = re.search(r"activation\.(\w+)", described)
    return found.group(1) if found else "Tanh"
