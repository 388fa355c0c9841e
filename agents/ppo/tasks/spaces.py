"""Spaces of Gymnasium as the numbers of a network: observations to rows, rows of actions to the environment's actions.

Observations are flattened by `gymnasium.wrappers.FlattenObservation`: Discrete and MultiDiscrete become one-hot, Dict
and Tuple are concatenated. Boxes of uint8 are scaled from their bounds to [0, 1] afterwards, because 255 would saturate
a network. Images are refused: the networks have no convolutions.

Actions of a network are, in this order, `continuous` numbers, `binary` switches and the indices of `categorical`
choices. A space has one of the three: Box, MultiBinary, or Discrete and MultiDiscrete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple, flatdim
from gymnasium.wrappers import FlattenObservation

from sparring.configs.core.errors import ConfigError

IMAGE_SIDE = 16
"""A uint8 Box with two axes of at least this length is an image; a smaller one, such as a 7 x 7 view, is flattened."""
ENCODED = 2
"""Version of the contracts with spaces that version 1 showed otherwise: Discrete as equal columns, uint8 unscaled."""


def check_spaces(env_id: str, observation: Space[Any], action: Space[Any]) -> None:
    """Raise `ConfigError` for images and for spaces that have no fixed number of numbers."""
    for leaf in leaves(observation):
        if not isinstance(leaf, Box | Discrete | MultiBinary | MultiDiscrete):
            known = "Box, Discrete, MultiBinary, MultiDiscrete, and Dict and Tuple of these"
            raise ConfigError(f"env.id={env_id}: observes {leaf}; supported are {known}")
        if is_image(leaf):
            raise ConfigError(
                f"env.id={env_id}: observes images {leaf.shape}, and the networks have no convolutions; give an "
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
    """Rows of numbers for observations of `space`: D columns, and `version`, that of their encoding."""

    def __init__(self, space: Space[Any]) -> None:
        inner = leaves(space)
        self.size = flatdim(space)
        self._scaled = any(map(_is_uint8, inner))
        self._low, self._range = (np.concatenate(columns) for columns in zip(*map(_bounds, inner), strict=True))
        self.version = 1 if isinstance(space, Box) and not self._scaled else ENCODED

    def rows(self, flat: np.ndarray) -> np.ndarray:
        """Return float64 [N, D] for flattened observations [N, ...] of N environments."""
        rows = flat.reshape(len(flat), -1).astype(np.float64)
        return (rows - self._low) / self._range if self._scaled else rows


def make_flattened(env_id: str, options: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    """Make a registered environment, wrapped by Gymnasium's `FlattenObservation` unless it observes a Box."""
    env: gymnasium.Env[Any, Any] = gymnasium.make(env_id, **options)
    return env if isinstance(env.observation_space, Box) else FlattenObservation(env)


def action_sizes(space: Space[Any]) -> dict[str, Any]:
    """Return the contract's entries of an action space; `categorical` is a list for several choices."""
    sizes: dict[str, Any] = {"continuous": 0, "binary": 0, "categorical": 0}
    if isinstance(space, Discrete):
        return sizes | {"categorical": int(space.n)}
    if isinstance(space, MultiDiscrete):
        return sizes | {"categorical": space.nvec.ravel().tolist()}
    return sizes | {"binary" if isinstance(space, MultiBinary) else "continuous": flatdim(space)}


def flat_actions(space: Space[Any]) -> Space[Any]:
    """Return the space of a network's actions [A] for `space`: flat, and with choices from 0."""
    if isinstance(space, Discrete):
        return Discrete(int(space.n))
    if isinstance(space, MultiDiscrete):
        return MultiDiscrete(space.nvec.ravel())
    if isinstance(space, MultiBinary):
        return MultiBinary(flatdim(space))
    assert isinstance(space, Box)
    return Box(space.low.ravel(), space.high.ravel())


def to_actions(space: Space[Any], actions: np.ndarray) -> np.ndarray:
    """Convert a network's actions [N, A] to those of `space`: choices and switches as integers, numbers clipped."""
    if isinstance(space, Discrete):
        return actions[:, 0].astype(np.int64) + space.start
    shaped = actions.reshape(-1, *(space.shape or ()))
    if isinstance(space, MultiDiscrete):
        return shaped.astype(space.dtype) + space.start
    if isinstance(space, MultiBinary):
        return shaped.astype(space.dtype)
    assert isinstance(space, Box)
    return np.clip(shaped, space.low, space.high)


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
