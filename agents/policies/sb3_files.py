"""Files of Stable-Baselines3, read without executing code from them: its policies, and statistics of `VecNormalize`.

An SB3 zip holds `policy.pth` (tensors, read with weights_only) and `data` (JSON whose values are pickles, each with a
readable description). Only the descriptions are read: loading an untrusted pickle can execute arbitrary code. A plain
policy of two layers of ReLU or tanh with Gaussian actions is the same function as our network without Bernoulli
actions; anything else is refused with the reason.

SB3 pickles `VecNormalize`. Here every object of the pickle becomes an inert record of its name, arguments and state, so
that loading calls nothing; a file that names anything but NumPy, Gymnasium's spaces and SB3's two classes is refused. A
policy trained under it observed clip((obs - mean) / sqrt(variance + epsilon), -clip_obs, clip_obs).
"""

from __future__ import annotations

import io
import json
import pickle
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from sparring.agents.policies.actor_critic import ActorCritic, network_shape
from sparring.agents.policies.networks import check_weights
from sparring.configs.core.archive import TensorFileError, check_members, check_pickle
from sparring.configs.core.errors import InputError
from sparring.configs.core.files import read_regular
from sparring.configs.core.tensor_file import unpack
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
    match = re.search(r"activation\.(\w+)", described)
    return match.group(1) if match else "Tanh"


KNOWN = ("numpy", "gymnasium.spaces", "stable_baselines3.common")
"""Modules, and all inside them, whose objects are read as records."""
MOST_BYTES = 1 << 24
_WRAPPER = "stable_baselines3.common.vec_env.vec_normalize.VecNormalize"
_ARRAYS = re.compile(r"numpy\.(_core|core)\.(multiarray\._reconstruct|numeric\._frombuffer)")
_SCALAR = re.compile(r"numpy\.(_core|core)\.multiarray\.scalar")


class StatisticsError(InputError):
    """A file of statistics that cannot be used; the message is one line with the reason."""


@dataclass(frozen=True, eq=False)
class ObsStatistics:
    """Statistics of observations: `mean` and `std` float64 [D], and the bound `clip` of the result."""

    mean: Tensor
    std: Tensor
    clip: float

    def __call__(self, obs: Tensor) -> Tensor:
        """Return observations [B, D] as the policy saw them in training, float32; in float64 until then, as in SB3."""
        return ((obs.double() - self.mean) / self.std).clamp(-self.clip, self.clip).float()

    def to(self, device: str | torch.device) -> ObsStatistics:
        """Return them on a device."""
        return ObsStatistics(self.mean.to(device), self.std.to(device), self.clip)


class _Record:
    """Inert stand-in for an object of a pickle."""

    name = ""
    args: tuple[Any, ...]
    state: Any

    def __new__(cls, *args: Any) -> _Record:
        record = object.__new__(cls)
        record.args, record.state = args, None
        return record

    def __init__(self, *args: Any) -> None:
        """Take the arguments that `__new__` keeps."""

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _RecordReader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type[_Record]:
        """Return a class of records, and import nothing."""
        if not any(module == known or module.startswith(f"{known}.") for known in KNOWN):
            raise StatisticsError(f"names {module}.{name}, which has no place there and is not run")
        return type("_Record", (_Record,), {"name": f"{module}.{name}"})


def find_statistics(model: Path) -> Path | None:
    """Return the file of statistics beside an SB3 zip under one of the usual names, the most specific first."""
    stem, names = model.stem, [f"{model.stem}_vecnormalize.pkl"]
    if of_step := re.fullmatch(r"(.+)_(\d+_steps)", stem):  # as SB3's CheckpointCallback names both
        names.append("{}_vecnormalize_{}.pkl".format(*of_step.groups()))
    names += [f"{stem}.pkl", f"{stem}/vecnormalize.pkl", "vecnormalize.pkl"]
    return next((path for name in names if (path := model.parent / name).is_file()), None)


def read_statistics(path: Path, size: int) -> ObsStatistics | None:
    """Read the statistics of observations of `size` numbers; None if only rewards were normalized.

    Raises `StatisticsError` for another kind of file, other observations, or values that are not finite.
    """
    try:
        wrapper = _load(read_regular(path, follow=True))
        if not isinstance(wrapper, _Record) or wrapper.name != _WRAPPER or not isinstance(wrapper.state, dict):
            raise StatisticsError("is not a VecNormalize saved by Stable-Baselines3")
        return _statistics(wrapper.state, size)
    except InputError as error:
        raise StatisticsError(f"{path}: {error}") from error
    except OSError as error:
        raise StatisticsError(f"{path}: cannot be read: {error.strerror}") from error
    except Exception as error:  # a flipped bit can raise any exception
        raise StatisticsError(f"{path}: is damaged, or not a VecNormalize saved by Stable-Baselines3") from error


def _load(data: bytes) -> Any:
    if len(data) > MOST_BYTES:
        raise StatisticsError(f"has {len(data)} bytes; those of statistics have at most {MOST_BYTES}")
    try:
        check_pickle(data)
    except TensorFileError as error:
        raise StatisticsError(str(error)) from error
    return _RecordReader(io.BytesIO(data)).load()


def _statistics(state: dict[str, Any], size: int) -> ObsStatistics | None:
    if not state.get("norm_obs", True):
        return None
    if not isinstance(record := state["obs_rms"], _Record):
        raise StatisticsError("has statistics of observations with several parts; these have one")
    mean, variance = (_numbers(record.state[name]) for name in ("mean", "var"))
    clip, epsilon = (float(_numbers(state[name])) for name in ("clip_obs", "epsilon"))
    if mean.shape != (size,) or variance.shape != (size,):
        raise StatisticsError(f"has statistics of shape {mean.shape}, but the policy observes {size} floats")
    spread = np.sqrt(variance + epsilon)
    if not (np.isfinite(mean).all() and np.isfinite(spread).all() and (spread > 0).all() and clip > 0):
        raise StatisticsError("has statistics that are not finite, or a spread or bound that is not above 0")
    return ObsStatistics(torch.from_numpy(mean), torch.from_numpy(spread), clip)


def _numbers(value: Any) -> np.ndarray:
    """Return a number, or a record of an array or a NumPy number, as float64."""
    if isinstance(value, int | float):
        return np.array(value, dtype=np.float64)
    assert isinstance(value, _Record)
    if _SCALAR.fullmatch(value.name):
        kind, data, shape = *value.args, ()
    elif _ARRAYS.fullmatch(value.name) and value.state:
        _, shape, kind, _, data = value.state
    else:
        data, kind, shape, _ = value.args
    letters, order = kind.args[0], kind.state[1]
    if letters not in ("f4", "f8", "i8"):
        raise StatisticsError(f"has an array of {letters}, where numbers are expected")
    return np.frombuffer(data, np.dtype(order + letters)).reshape(shape).astype(np.float64)
