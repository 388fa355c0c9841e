"""Running mean and variance of a stream of batches, by Chan's parallel update (Chan, Golub and LeVeque 1979).

For batches with means m, variances v and counts n, the joint variance is
(n1 v1 + n2 v2 + (m2 - m1)^2 n1 n2 / n) / n with n = n1 + n2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sparring.configs.core.typed import NotNegative, read, require

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
        found = read(NormalizerState, state)
        mean, variance = (_numbers(found[name], self.mean.shape, name) for name in ("mean", "variance"))
        require(bool((variance >= 0).all()), "variance: holds a negative number; must be at least 0")
        self.mean, self.variance, self.count = mean, variance, float(found["count"])


def _numbers(value: Any, shape: tuple[int, ...], place: str) -> np.ndarray:
    """Return nested lists of finite numbers as an array."""
    try:
        array = np.array(value, dtype=object)
    except ValueError:  # lists of unequal lengths
        array = np.array("")
    numbers = array.shape == shape and all(type(one) is float and math.isfinite(one) for one in array.flat)
    require(numbers, f"{place}: must be {' x '.join(map(str, shape)) or 'one'} finite number(s)")
    return array.astype(np.float64)
