"""Spaces of Gymnasium as the numbers of a network: observations to rows, rows of actions to the environment's actions.

Observations are flattened as by `gymnasium.wrappers.FlattenObservation`: Discrete and MultiDiscrete become one-hot,
Dict and Tuple are concatenated. Boxes of uint8 are scaled from their bounds to [0, 1] afterwards, because 255 would
saturate a network. Images are refused where the networks lack convolutions. An observation outside of its space is
refused too, except for numbers outside the bounds of a Box.

Actions of a network are, in this order, `continuous` numbers, `binary` switches and the indices of `categorical`
choices. A space has one of the three: Box, MultiBinary, or Discrete and MultiDiscrete. Numbers of a Box are clipped to
its bounds. A new network acts around 0 with a deviation near 1; to bounds that do not suit that (`to_scale`), [-1, 1]
is scaled. Integers are rounded.

Running means and variances of a stream of batches follow Chan's parallel update (Chan, Golub and LeVeque 1979). For
batches with means m, variances v and counts n, the joint variance is (n1 v1 + n2 v2 + (m2 - m1)^2 n1 n2 / n) / n with
n = n1 + n2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple, flatdim, flatten
from gymnasium.vector.utils import iterate
from typing_extensions import TypedDict

from sparring.configs.core.errors import ConfigError
from sparring.configs.core.typed import NotNegative, read, require

IMAGE_SIDE = 16
"""A uint8 Box with two axes of at least this length is an image; a smaller one, such as a 7 x 7 view, is flattened."""
NEAR, FAR, UNBOUNDED = 0.3, 4.0, 1e18
"""A new network acts well in bounds around 0 if the farther one is between `NEAR` and `FAR`. Examples are Humanoid,
0.4, and InvertedPendulum, 3. Bounds from `UNBOUNDED` on do not count."""
ENCODED = 2
"""Version of the contracts with spaces that version 1 showed otherwise: Discrete as equal columns, uint8 unscaled."""


def check_spaces(env_id: str, observation: Space[Any], action: Space[Any], *, images: bool = False) -> None:
    """Raise `ConfigError` for spaces without a fixed number of numbers, and for images unless they are supported."""
    for leaf in leaves(observation):
        if not isinstance(leaf, Box | Discrete | MultiBinary | MultiDiscrete):
            supported = "Box, Discrete, MultiBinary, MultiDiscrete, and Dict and Tuple of these"
            raise ConfigError(f"env.id={env_id}: observes {leaf}; supported are {supported}")
        if is_image(leaf) and not images:
            raise ConfigError(
                f"env.id={env_id}: observes images {leaf.shape}, and the networks lack convolutions; give an "
                "environment that observes features, such as a wrapped one registered by your own module"
            )
    if not isinstance(action, Box | Discrete | MultiBinary | MultiDiscrete):
        raise ConfigError(
            f"env.id={env_id}: acts by {action}; supported are Box, Discrete, MultiBinary and MultiDiscrete"
        )


def leaves(space: Space[Any]) -> list[Space[Any]]:
    """Return the spaces inside Dict and Tuple, in the order in which they are flattened."""
    if isinstance(space, Dict):
        return [leaf for inner in space.spaces.values() for leaf in leaves(inner)]
    return [leaf for inner in space.spaces for leaf in leaves(inner)] if isinstance(space, Tuple) else [space]


def is_image(space: Space[Any]) -> bool:
    """Return True for a uint8 Box with two axes of `IMAGE_SIDE` or more."""
    return _is_uint8(space) and sum(side >= IMAGE_SIDE for side in space.shape or ()) >= 2


class FlatObservations:
    """Rows of numbers for observations of `space`: D columns; `version` is the version of their encoding.

    Raises `ConfigError` for observations of the environment `env_id` outside of the space.
    """

    def __init__(self, env_id: str, space: Space[Any]) -> None:
        self.id, self.space = env_id, space
        inner = leaves(space)
        self.size = flatdim(space)
        self._scaled = any(map(_is_uint8, inner))
        self._low, self._range = (np.concatenate(columns) for columns in zip(*map(_bounds, inner), strict=True))
        self.version = 1 if isinstance(space, Box) and not self._scaled else ENCODED

    def rows(self, flat: np.ndarray) -> np.ndarray:
        """Return float64 [N, D] for flattened observations [N, ...] of N environments."""
        rows = flat.reshape(len(flat), -1).astype(np.float64)
        return (rows - self._low) / self._range if self._scaled else rows

    def flatten(self, observation: Any) -> np.ndarray:
        """Return a copy of one observation, flattened [D] unless the space is a Box."""
        if isinstance(self.space, Box):
            return self._numbers(self.space, observation, self.space.shape)
        return np.concatenate(self._parts(self.space, observation))

    def flatten_batch(self, observations: Any, space: Space[Any], count: int) -> np.ndarray:
        """Return copies of `count` observations, a member of the vector environment's `space`, flattened [N, ...]."""
        if isinstance(self.space, Box):
            return self._numbers(self.space, observations, (count, *self.space.shape))
        return np.stack([self.flatten(observation) for observation in split(observations, space)])

    def _parts(self, space: Space[Any], value: Any) -> list[np.ndarray]:
        if isinstance(space, Dict):
            if not isinstance(value, Mapping) or value.keys() < space.spaces.keys():
                raise self._refusal(space, value)
            return [part for key, inner in space.spaces.items() for part in self._parts(inner, value[key])]
        if isinstance(space, Tuple):
            if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
                raise self._refusal(space, value)
            pairs = zip(space.spaces, value, strict=True)
            return [part for inner, item in pairs for part in self._parts(inner, item)]
        if isinstance(space, Box):
            return [self._numbers(space, value, space.shape).ravel()]
        if not space.contains(value):
            raise self._refusal(space, value)
        return [np.asarray(flatten(space, value))]

    def _numbers(self, space: Box, value: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Return a copy of `value` in the type of a Box; what does not fit it, such as 0.5 in uint8, is refused."""
        try:
            array = np.asarray(value)
        except ValueError:  # lists of unequal lengths
            raise self._refusal(space, value) from None
        if array.shape != shape or array.dtype.kind not in "biuf":
            raise self._refusal(space, value)
        with np.errstate(invalid="ignore", over="ignore"):
            numbers = array.astype(space.dtype)
        if numbers.dtype.kind in "iu" and not np.array_equal(numbers, array):
            raise self._refusal(space, value)
        return numbers

    def _refusal(self, space: Space[Any], value: Any) -> ConfigError:
        kind = type(value).__name__
        what = f"{value.dtype} array {value.shape}" if isinstance(value, np.ndarray | np.generic) else kind
        text = str(value)
        printed = f" {text}" if len(text) <= 60 else ""
        return ConfigError(f"env.id={self.id}: observes{printed} ({what}), outside of {space}; fix one of the two")


def split(observations: Any, space: Space[Any]) -> list[Any]:
    """Return the observations in a batch, a member of a vector environment's `space`."""
    return list(iterate(space, observations))


def action_sizes(space: Space[Any]) -> dict[str, Any]:
    """Return the contract's entries of an action space; `categorical` is a list for several choices."""
    sizes: dict[str, Any] = {"continuous": 0, "binary": 0, "categorical": 0}
    if isinstance(space, Discrete):
        return sizes | {"categorical": int(space.n)}
    if isinstance(space, MultiDiscrete):
        return sizes | {"categorical": space.nvec.ravel().tolist()}
    return sizes | {"binary" if isinstance(space, MultiBinary) else "continuous": flatdim(space)}


def flat_actions(space: Space[Any], *, scale: bool) -> Space[Any]:
    """Return the space of a network's actions [A] for `space`: flat, choices from 0, scaled numbers in [-1, 1]."""
    if isinstance(space, Discrete):
        return Discrete(int(space.n))
    if isinstance(space, MultiDiscrete):
        return MultiDiscrete(space.nvec.ravel())
    if isinstance(space, MultiBinary):
        return MultiBinary(flatdim(space))
    assert isinstance(space, Box)
    scaled = (to_scale(space) & scale).ravel()
    low, high = (bound.ravel().astype(np.float32) for bound in (space.low, space.high))
    return Box(np.where(scaled, np.float32(-1), low), np.where(scaled, np.float32(1), high))


def to_scale(space: Space[Any]) -> np.ndarray:
    """Return which numbers of a Box do not suit a new network, bool [...]; none of another space.

    These have two bounds, and are integers or outside `NEAR` and `FAR`.
    """
    if not isinstance(space, Box):
        return np.zeros(0, dtype=bool)
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    reach = np.maximum(np.abs(low), np.abs(high))
    suits = (low <= 0) & (high >= 0) & (reach >= NEAR) & (reach <= FAR) & (space.dtype.kind == "f")
    return (reach < UNBOUNDED) & ~suits


def to_actions(space: Space[Any], actions: np.ndarray, *, scale: bool) -> np.ndarray:
    """Convert a network's actions [N, A] to those of `space`: choices, switches and integers as integers.

    With `scale`, [-1, 1] is scaled to the bounds of the numbers in `to_scale`.
    """
    if isinstance(space, Discrete):
        return actions[:, 0].astype(np.int64) + space.start
    shaped = actions.reshape(-1, *(space.shape or ()))
    if isinstance(space, MultiDiscrete):
        return shaped.astype(space.dtype) + space.start
    if isinstance(space, MultiBinary):
        return shaped.astype(space.dtype)
    assert isinstance(space, Box)
    if scale:
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):  # of infinite bounds, where nothing is scaled
            inside = low + (np.clip(shaped, -1.0, 1.0) + 1.0) / 2.0 * (high - low)
        shaped = np.where(to_scale(space), inside, shaped)
    rounded = np.rint(shaped) if space.dtype.kind in "iu" else shaped
    return np.clip(rounded, space.low, space.high).astype(space.dtype, copy=False)


def action_note(env_id: str, space: Space[Any], *, scale: bool) -> list[str]:
    """Return a line on bounds that do not suit a new network, if there are any."""
    if not to_scale(space).any():
        return []
    if scale:
        return [f"env.id={env_id}: actions are scaled from [-1, 1] of the network to the bounds of {space}"]
    return [
        f"env.id={env_id}: actions are clipped to {space}, and a new network acts around 0 with a deviation near 1; a "
        "new run with env.scale_actions=true scales them to the bounds"
    ]


def _is_uint8(space: Space[Any]) -> bool:
    return isinstance(space, Box) and space.dtype == np.uint8


def _bounds(space: Space[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower bound and the range of every column; 0 and 1 where nothing is scaled."""
    size = flatdim(space)
    if not _is_uint8(space):
        return np.zeros(size), np.ones(size)
    assert isinstance(space, Box)
    low, high = (bound.ravel().astype(np.float64) for bound in (space.low, space.high))
    return low, np.where(high > low, high - low, 1.0)


REACH = 10.0
"""Normalized values are clipped to plus or minus this."""
EPSILON = 1e-8


class NormalizerState(TypedDict):
    """`Normalizer.state_dict`: numbers, or lists of them."""

    mean: Any
    variance: Any
    count: NotNegative


class Normalizer:
    """Running statistics of arrays of one `shape`, in float64; constant once `frozen`.

    If not `enabled`, it changes and counts nothing.
    """

    def __init__(self, shape: tuple[int, ...], *, enabled: bool) -> None:
        self.enabled, self.frozen = enabled, False
        self.mean, self.variance, self.count = np.zeros(shape), np.ones(shape), 0.0

    def add(self, batch: np.ndarray) -> None:
        """Add a batch [B, *shape], which may be empty."""
        if not self.enabled or self.frozen or not len(batch):
            return
        mean, variance, count = batch.mean(axis=0), batch.var(axis=0), float(len(batch))
        total = self.count + count
        distance = mean - self.mean
        joint = self.variance * self.count + variance * count + distance**2 * self.count * count / total
        self.mean, self.variance, self.count = self.mean + distance * count / total, joint / total, total

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Return values [..., *shape] at mean 0 and standard deviation 1, clipped."""
        if not self.enabled:
            return values
        return np.clip((values - self.mean) / np.sqrt(self.variance + EPSILON), -REACH, REACH)

    def scale(self, values: np.ndarray) -> np.ndarray:
        """Divide values [..., *shape] by the standard deviation and clip them; the mean is not subtracted."""
        if not self.enabled:
            return values
        return np.clip(values / np.sqrt(self.variance + EPSILON), -REACH, REACH)

    def state_dict(self) -> dict[str, Any]:
        """Return plain numbers."""
        return {"mean": self.mean.tolist(), "variance": self.variance.tolist(), "count": self.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`; raises `ContentError` for one of another shape or with impossible numbers."""
        stored = read(NormalizerState, state)
        mean, variance = (_numbers(stored[name], self.mean.shape, name) for name in ("mean", "variance"))
        require(bool((variance >= 0).all()), "variance: holds a negative number; must be at least 0")
        self.mean, self.variance, self.count = mean, variance, float(stored["count"])


def _numbers(value: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return nested lists of finite numbers as an array."""
    try:
        array = np.array(value, dtype=object)
    except ValueError:  # lists of unequal lengths
        array = np.array("")
    numbers = array.shape == shape and all(type(number) is float and math.isfinite(number) for number in array.flat)
    require(numbers, f"{name}: must be {' x '.join(map(str, shape)) or 'one'} finite number(s)")
    return array.astype(np.float64)
