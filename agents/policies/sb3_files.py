"""Files of Stable-Baselines3, read without executing code from them: its policies, and statistics of `VecNormalize`.

An SB3 zip holds `policy.pth` (tensors, read with weights_only) and `data`: JSON in which all but plain values are
pickles. Loading an untrusted pickle can execute arbitrary code, so these are read as inert records. A plain policy of
two layers of ReLU or tanh with Gaussian actions is the same function as our network without Bernoulli actions. Anything
else is refused; the error names the option that differs. SB3's `predict` converts the Gaussian's g to an action a of
the game, with the bounds l and h of the zip's own action space:

    a = clip(g, l, h),   or with squash_output   a = l + (tanh(g) + 1) / 2 (h - l)

A zip with finite bounds other than the game's was trained under a wrapper that scales actions, such as Gymnasium's
`RescaleAction`. Its actions are scaled here in the same way.

SB3 pickles `VecNormalize`; a file that names anything but NumPy, Gymnasium's spaces and SB3's two classes is refused. A
policy trained under it observed clip((obs - mean) / sqrt(variance + epsilon), -clip_obs, clip_obs).
"""

from __future__ import annotations

import base64
import json
import math
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from sparring.agents.policies.actor_critic import ActorCritic, network_shape
from sparring.agents.policies.inert_pickle import Record, global_name, numbers, read_pickle
from sparring.agents.policies.networks import check_weights
from sparring.configs.core.archive import TensorFileError, check_members
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
Model = TypeVar("Model")
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}
"""Our activation names, and torch's classes."""

POLICY_CLASS = "stable_baselines3.common.policies.ActorCriticPolicy"
EXTRACTOR = "stable_baselines3.common.torch_layers.FlattenExtractor"
_ACTIVATIONS = {f"torch.nn.modules.activation.{kind.__name__}": name for name, kind in ACTIVATIONS.items()}
_SPACE = re.compile(r"gym(?:nasium)?\.spaces\.\w+\.(Box|Discrete|MultiDiscrete|MultiBinary)")
MOST_COLUMNS = 1_000_000
"""Of a space; a file may be a stranger's."""
_WITHOUT_EFFECT = (
    *("net_arch", "full_std", "log_std_init", "ortho_init", "optimizer_class", "optimizer_kwargs"),
    *("share_features_extractor", "features_extractor_kwargs", "normalize_images"),
    *("lstm_hidden_size", "n_lstm_layers", "shared_lstm", "enable_critic_lstm", "lstm_kwargs"),
)
"""Options of policies that the weights show, or that change only training, pictures or other extractors."""


class SB3Error(InputError):
    """An SB3 file or policy that cannot be played here; the message is one line with the reason."""


class Bounds(NamedTuple):
    """Bounds of a Box: `low` and `high`, float64 of its shape."""

    low: np.ndarray
    high: np.ndarray

    def same_as(self, space: Box, *, within: float = 0.0) -> bool:
        """Return whether a space has these bounds, up to a difference of `within`."""
        if self.low.shape != space.shape:
            return False
        return all(
            np.allclose(*ends, rtol=0.0, atol=within) for ends in ((self.low, space.low), (self.high, space.high))
        )

    @property
    def free(self) -> bool:
        """True if no number is bounded."""
        return bool(np.isneginf(self.low).all() and np.isposinf(self.high).all())

    def __str__(self) -> str:
        if not self.low.size:
            return "Box of nothing"
        ends = (np.unique(end) for end in self)
        low, high = (f"{end[0]:g}" if len(end) == 1 else f"{end[0]:g}..{end[-1]:g}" for end in ends)
        return f"Box({low}, {high}, {self.low.shape})"


@dataclass(frozen=True, eq=False)
class GameActions:
    """Actions of a game [B, A] from the Gaussians' of a zip: `low` and `high` are its own bounds, float32 [A]."""

    low: Tensor
    high: Tensor
    squash: bool
    game_low: Tensor
    game_high: Tensor

    def __call__(self, actions: Tensor) -> Tensor:
        """Return them within the bounds of the game."""
        if self.squash:
            part = 0.5 * (actions.tanh() + 1.0)
        else:
            part = (actions.clamp(self.low, self.high) - self.low) / (self.high - self.low)
        return self.game_low + part * (self.game_high - self.game_low)

    def to(self, device: str | torch.device) -> GameActions:
        """Return them on a device."""
        low, high, *game = (end.to(device) for end in (self.low, self.high, self.game_low, self.game_high))
        return GameActions(low, high, self.squash, *game)


@dataclass(frozen=True, eq=False)
class SB3Policy:
    """Policy of a zip."""

    network: ActorCritic
    observation: Bounds
    """Those of its own observation space, as `action` of its action space."""
    action: Bounds
    squash: bool
    """Actions are squashed by tanh."""
    normalized: bool | None
    """Whether it was trained under `VecNormalize`; None if the zip does not show it."""

    def actions_in(self, space: Box) -> GameActions | None:
        """Return the conversion to a game's action `space`; None if the game's own clipping does the same.

        Raises `SB3Error` for a zip whose action space has another shape, or no finite bounds, which SB3 demands.
        """
        text, fix = f"action_space={self.action}", f"train it in an action space like the game's {space}"
        if self.action.low.shape != space.shape:
            raise SB3Error(f"{text}: expected {space.shape[0]} numbers; {fix}")
        if not np.isfinite(np.stack(self.action)).all() or not (self.action.low < self.action.high).all():
            raise SB3Error(f"{text}: expected finite bounds of every number; {fix}")
        if self.action.same_as(space) and not self.squash:
            return None
        ends = (*self.action, space.low, space.high)
        low, high, game_low, game_high = (torch.from_numpy(np.asarray(end, dtype=np.float32)) for end in ends)
        return GameActions(low, high, self.squash, game_low, game_high)


def to_actor_critic(
    state: Mapping[str, Tensor],
    activation: str,
    *,
    binary: int = 0,
    categorical: int | Sequence[int] = 0,
    expln: bool = False,
) -> ActorCritic:
    """Convert SB3's `state_dict`; raise `SB3Error` for another architecture.

    Its actions are `binary` switches, `categorical` choices, or else continuous; SB3 has one kind at a time. gSDE's
    standard deviation is exp(log_std), or with `expln` that up to 1, and above 1 + log(1 + log_std).
    """
    gaussian = not (binary or categorical)
    names = {f"{layer}.{part}" for layer in LAYERS for part in ("weight", "bias")} | (
        {"log_std"} if gaussian else set()
    )
    odd = sorted(names.symmetric_difference(state))
    if odd:
        raise SB3Error(f"its policy needs two plain layers each for actions and values: {', '.join(odd[:3])}; {FIX}")
    first = state["mlp_extractor.policy_net.0.weight"]
    log_std = state["log_std"] if gaussian else torch.zeros(0)
    if not all(isinstance(t, Tensor) for t in (first, log_std)) or first.dim() != 2 or log_std.dim() not in (1, 2):
        raise SB3Error("its layers do not have the shapes of a policy")
    hidden, obs_dim = first.shape
    gsde, continuous = log_std.dim() == 2, log_std.shape[-1]
    if gsde:
        log_std, continuous = _state_dependent(log_std, state["action_net.bias"], expln=expln)
    config = NetworkConfig(hidden=hidden, activation=activation, log_std_min=-20.0, log_std_max=5.0, gsde=gsde)
    ours = {f"{LAYERS[layer]}.{part}": state[f"{layer}.{part}"] for layer in LAYERS for part in ("weight", "bias")}
    ours["log_std"] = log_std
    try:
        check_weights(network_shape(obs_dim, continuous, binary, config, categorical=categorical), ours)
    except InputError as error:
        raise SB3Error(
            f"its layers are not all of one width, or not of finite float32 numbers: {error}; {FIX}"
        ) from error
    network = ActorCritic(obs_dim, continuous, binary, config, categorical=categorical)
    network.load_state_dict(ours)
    return network


FIX = "train it with net_arch=[64, 64] or another two layers of one width"


def _state_dependent(log_std: Tensor, bias: Any, *, expln: bool) -> tuple[Tensor, int]:
    """Return log sigma [L, C] of gSDE, and C; without `full_std` SB3 has one for all actions, [L, 1]."""
    continuous = len(bias) if isinstance(bias, Tensor) and bias.dim() == 1 else log_std.shape[1]
    if log_std.shape[1] == 1:
        log_std = log_std.expand(-1, continuous).contiguous()
    above = (log_std.clamp_min(0.0).log1p() + 1.0).log()
    return (torch.where(log_std > 0.0, above, log_std) if expln else log_std), continuous


def read_zip(path: Path, *, choices: bool = False) -> SB3Policy:
    """Read the policy of an SB3 zip; raise `SB3Error` for another kind of file or an unsupported policy.

    With `choices` its spaces may be Discrete, MultiDiscrete and MultiBinary too, and bounds are of flat numbers.
    """
    return converted(path, partial(_policy, choices=choices))


def converted(path: Path, convert: Callable[[bytes, Mapping[str, Any]], Model]) -> Model:
    """Return what `convert` makes of the file of weights and the `data` in an SB3 zip; every error is an `SB3Error`."""
    try:
        return convert(*_read(path))
    except TensorFileError as error:
        raise SB3Error(f"{path}: it or its policy.pth {error}") from error
    except InputError as error:
        raise SB3Error(f"{path}: {error}") from error
    except Exception as error:  # a flipped bit can raise any exception
        raise SB3Error(f"{path}: is damaged, or not a model saved by Stable-Baselines3") from error


def _policy(weights: bytes, data: Mapping[str, Any], *, choices: bool) -> SB3Policy:
    activation, switches, normalized = check_policy(data, "the MlpPolicy of PPO, A2C and TRPO", POLICY_CLASS)
    observation, _ = _columns(data, "observation_space", choices=choices)
    action, kinds = _columns(data, "action_space", choices=choices)
    network = to_actor_critic(unpack(weights), activation, expln=switches["use_expln"], **kinds)
    return SB3Policy(network, observation, action, switches["squash_output"], normalized)


def check_policy(data: Mapping[str, Any], of: str, *accepted: str) -> tuple[str, dict[str, bool], bool | None]:
    """Return activation (in our words), switches and `SB3Policy.normalized`; raise `SB3Error` for another class."""
    kind = global_name(stored_value(data, "policy_class")) or "a class of its own script"
    if kind not in accepted:
        raise SB3Error(f"policy_class={kind}: only {' or '.join(accepted)} is played, {of}; train one of these")
    options = stored_value(data, "policy_kwargs")
    if not isinstance(options, dict):
        raise SB3Error("policy_kwargs: expected a dictionary; save the model again with Stable-Baselines3")
    defaults = {"activation_fn": "torch.nn.modules.activation.Tanh", "features_extractor_class": EXTRACTOR}
    activation, extractor = (global_name(options[key]) if key in options else defaults[key] for key in defaults)
    if activation not in _ACTIVATIONS:
        raise SB3Error(
            f"policy_kwargs.activation_fn={activation or 'a function of its own script'}: its activation is not one of "
            "torch.nn's ReLU and Tanh; train it with one of these"
        )
    if extractor != EXTRACTOR:
        raise SB3Error(
            f"policy_kwargs.features_extractor_class={extractor or 'a class of its own script'}: expected {EXTRACTOR}, "
            "the default; train it without another extractor"
        )
    switches = {key: options.get(key, False) for key in ("squash_output", "use_expln")}
    for key, value in options.items():
        if key not in (*switches, *defaults, *_WITHOUT_EFFECT) or (key in switches and not isinstance(value, bool)):
            stored = value if isinstance(value, bool | int | float | str) else type(value).__name__
            raise SB3Error(f"policy_kwargs.{key}={stored}: expected only options of {kind}; train it without")
    stored = data.get("_last_obs") is not None and "_last_original_obs" in data  # only VecNormalize keeps the latter
    return _ACTIVATIONS[activation], switches, data["_last_original_obs"] is not None if stored else None


def stored_value(data: Mapping[str, Any], key: str) -> Any:
    """Return a value of `data`: plain as it is, a pickle as records."""
    if key not in data:
        raise SB3Error(f"{key} is missing; save the model again with Stable-Baselines3")
    value = data[key]
    if not isinstance(value, dict) or ":serialized:" not in value:
        return value
    try:
        return read_pickle(base64.b64decode(value[":serialized:"], validate=True))
    except Exception as error:  # a flipped bit can raise any exception
        raise SB3Error(f"{key}: is damaged; save the model again with Stable-Baselines3") from error


def _columns(data: Mapping[str, Any], key: str, *, choices: bool) -> tuple[Bounds, dict[str, Any]]:
    """Return the bounds of a space's flat numbers, with one-hot choices, and its choices or switches as actions."""
    space, fix = stored_value(data, key), "train it in the spaces of the game that it is to play"
    name = space.name if isinstance(space, Record) else type(space).__name__
    kind = found[1] if (found := _SPACE.fullmatch(name)) else ""
    if not (kind if choices else kind == "Box"):
        raise SB3Error(f"{key}={name}: expected a Box; {fix}")
    try:
        if kind == "Box":
            low, high = (numbers(space.state[end]) for end in ("low", "high"))
            return Bounds(low.ravel(), high.ravel()) if choices else Bounds(low, high), {}
        if kind == "MultiBinary":
            counts = [math.prod(space.state["_shape"])]
        else:
            counts = numbers(space.state["n" if kind == "Discrete" else "nvec"]).ravel().astype(int).tolist()
    except InputError as error:
        raise SB3Error(f"{key}: {error}; {fix}") from error
    if min(counts) < 1 or sum(counts) > MOST_COLUMNS:
        raise SB3Error(f"{key}: has {counts} choices; expected at most {MOST_COLUMNS}")
    bounds = Bounds(np.zeros(sum(counts)), np.ones(sum(counts)))
    return bounds, {"binary": counts[0]} if kind == "MultiBinary" else {"categorical": counts}


def _read(path: Path) -> tuple[bytes, Mapping[str, Any]]:
    """Return the file of the weights in an SB3 zip, and its `data`; damage raises any exception."""
    with zipfile.ZipFile(path) as archive:
        check_members(archive.infolist(), path.stat().st_size)
        weights, data = archive.read("policy.pth"), json.loads(archive.read("data"))
    if not isinstance(data, dict):
        raise SB3Error("data: expected an object; save the model again with Stable-Baselines3")
    return weights, data


KNOWN = ("numpy", "gymnasium.spaces", "stable_baselines3.common")
"""Modules, and all inside them, whose objects are read as records."""
_WRAPPER = "stable_baselines3.common.vec_env.vec_normalize.VecNormalize"


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
        wrapper = read_pickle(read_regular(path, follow=True), KNOWN)
        if not isinstance(wrapper, Record) or wrapper.name != _WRAPPER or not isinstance(wrapper.state, dict):
            raise StatisticsError("is not a VecNormalize saved by Stable-Baselines3")
        return _statistics(wrapper.state, size)
    except InputError as error:
        raise StatisticsError(f"{path}: {error}") from error
    except OSError as error:
        raise StatisticsError(f"{path}: cannot be read: {error.strerror}") from error
    except Exception as error:  # a flipped bit can raise any exception
        raise StatisticsError(f"{path}: is damaged, or not a VecNormalize saved by Stable-Baselines3") from error


def _statistics(state: dict[str, Any], size: int) -> ObsStatistics | None:
    if not state.get("norm_obs", True):
        return None
    if not isinstance(record := state["obs_rms"], Record):
        raise StatisticsError("has statistics for dictionary observations; expected a single array")
    mean, variance = (numbers(record.state[name]) for name in ("mean", "var"))
    clip, epsilon = (float(numbers(state[name])) for name in ("clip_obs", "epsilon"))
    if mean.shape != (size,) or variance.shape != (size,):
        raise StatisticsError(f"has statistics of shape {mean.shape}, but the policy observes {size} floats")
    spread = np.sqrt(variance + epsilon)
    if not (np.isfinite(mean).all() and np.isfinite(spread).all() and (spread > 0).all() and clip > 0):
        raise StatisticsError("has statistics that are not finite, or a spread or bound that is not above 0")
    return ObsStatistics(torch.from_numpy(mean), torch.from_numpy(spread), clip)
