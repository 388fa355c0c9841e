"""Convert rows of network actions to the actions of Gymnasium spaces.

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
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space, flatdim
from typing_extensions import TypedDict

from sparring.configs.core.typed import NotNegative, read, require

NEAR, FAR, UNBOUNDED = 0.3, 4.0, 1e18
"""A new network acts well in bounds around 0 if the farther one is between `NEAR` and `FAR`. Examples are Humanoid,
0.4, and InvertedPendulum, 3. Bounds from `UNBOUNDED` on do not count."""


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

    If not `enabled`, values and counts are unchanged.
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
