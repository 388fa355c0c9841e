"""A policy's actor on arrays of NumPy, without torch: released policies play where only the base package is installed.

The family is `agents.policies.actor_critic` with separate layers and residual blocks. The deterministic action is the
Gaussian's mean, the likelier side of a Bernoulli and the likeliest choice, as in `Policy`. Sampling, the critic and
other families need torch. B is a batch, D the size of an observation, A of an action.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sparring.configs.core.archive import TensorFileError, read_arrays
from sparring.configs.core.errors import InputError
from sparring.configs.core.manifest import read_listed
from sparring.configs.games import POLICY_FORMAT, POLICY_FORMAT_VERSION, current_id
from sparring.envs.game import game_of, load

NORM_EPSILON = 1e-5
"""Of torch's LayerNorm."""


@dataclass(frozen=True)
class ArrayLinear:
    """x to W x + b."""

    weight: np.ndarray
    """Float32 [outputs, inputs]."""
    bias: np.ndarray

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """[B, inputs] to [B, outputs]."""
        return x @ self.weight.T + self.bias


@dataclass(frozen=True)
class ArrayActivation:
    """ReLU or tanh, by torch's name in lower case."""

    name: str

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Apply it to every number."""
        return np.maximum(x, 0.0) if self.name == "relu" else np.tanh(x)


@dataclass(frozen=True)
class ArrayResidual:
    """x + second(activation(first(norm(x)))), with the norm's scale and shift over the last axis."""

    scale: np.ndarray
    shift: np.ndarray
    first: ArrayLinear
    activation: ArrayActivation
    second: ArrayLinear

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """[B, hidden] to the same shape."""
        centred = x - x.mean(-1, keepdims=True)
        normal = centred / np.sqrt(np.square(centred).mean(-1, keepdims=True) + NORM_EPSILON) * self.scale + self.shift
        return x + self.second(self.activation(self.first(normal)))


Layer = ArrayLinear | ArrayActivation | ArrayResidual


@dataclass(frozen=True)
class ArrayActor:
    """A policy that acts on arrays."""

    name: str
    contract: Mapping[str, Any]
    shape: Mapping[str, Any]
    layers: tuple[Layer, ...]

    @cached_property
    def mirror(self) -> Any:
        """The game's mirror for arrays, or None for a policy without one."""
        game = game_of(current_id(self.contract["id"])) if self.contract.get("mirror") else None
        return load(game.array_mirror)(self.contract["rules"], self.shape["obs_dim"]) if game else None

    def act(self, obs: np.ndarray) -> np.ndarray:
        """Return the deterministic actions float32 [B, A] for observations [B, D]."""
        columns = np.asarray(obs, np.float32)[:, : self.shape["obs_dim"]]
        mirror = self.mirror
        if mirror is None:
            return self._answer(columns)
        mirrored, side = mirror.show(columns)
        return np.asarray(mirror.back(self._answer(mirrored), side))

    def _answer(self, obs: np.ndarray) -> np.ndarray:
        output = obs
        for layer in self.layers:
            output = layer(output)
        numbers, switches = self.shape["continuous"], self.shape["binary"]
        columns = [output[:, :numbers], (output[:, numbers : numbers + switches] > 0).astype(np.float32)]
        at = numbers + switches
        for count in _alternatives(self.shape):
            columns.append(output[:, at : at + count].argmax(-1, keepdims=True).astype(np.float32))
            at += count
        return np.concatenate(columns, axis=1)


def read_actor(path: Path, name: str) -> ArrayActor:
    """Read the actor of a policy's file. Raises `InputError` if it is not a policy, or needs torch to play."""
    try:
        content = read_arrays(read_listed(path, follow=True))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except TensorFileError as error:
        raise InputError(f"{path}: {error}") from error
    versions = range(1, POLICY_FORMAT_VERSION + 1)
    if content.get("format") != POLICY_FORMAT or content.get("format_version") not in versions:
        raise InputError(f"{path}: is not a policy of this project in a format up to {POLICY_FORMAT_VERSION}")
    return actor_of(name, content["contract"], content["shape"], content["weights"])


def actor_of(
    name: str, contract: Mapping[str, Any], shape: Mapping[str, Any], weights: Mapping[str, np.ndarray]
) -> ArrayActor:
    """Return the actor of stored weights by name. Raises `InputError` for another family, and weights that do not fit.

    The critic's weights are not looked at.
    """
    if other := next((key for key in ("family", "masked", "gsde", "memory", "styles") if shape.get(key)), None):
        styles = ", or name one of its styles, RUN/styles/style_0.pt" if other == "styles" else ""
        raise InputError(f"{name}: a network with {other} plays with torch only; run `sparring install train`{styles}")
    hidden, blocks, activation = shape["hidden"], shape["blocks"], ArrayActivation(shape["activation"])
    outputs = shape["continuous"] + shape["binary"] + sum(_alternatives(shape))

    def array(key: str, *size: int) -> np.ndarray:
        stored = weights.get(f"actor.{key}")
        if stored is None or stored.shape != size or not np.isfinite(stored).all():
            raise InputError(f"{name}: actor.{key} is missing, not finite, or not of shape {size}")
        return stored

    def linear(key: str, inputs: int, columns: int) -> ArrayLinear:
        return ArrayLinear(array(f"{key}.weight", columns, inputs), array(f"{key}.bias", columns))

    layers: list[Layer] = [linear("0", shape["obs_dim"], hidden), activation]
    if not blocks:
        layers += [linear("2", hidden, hidden), activation]
    for number in range(blocks):
        branch = f"{2 + number}.branch"
        norm = array(f"{branch}.0.weight", hidden), array(f"{branch}.0.bias", hidden)
        first, second = (linear(f"{branch}.{at}", hidden, hidden) for at in (1, 3))
        layers.append(ArrayResidual(*norm, first, activation, second))
    layers.append(linear(str(2 + blocks if blocks else 4), hidden, outputs))
    return ArrayActor(name, contract, shape, tuple(layers))


def _alternatives(shape: Mapping[str, Any]) -> list[int]:
    choices = shape.get("categorical", 0)
    return ([choices] if choices else []) if isinstance(choices, int) else list(choices)
