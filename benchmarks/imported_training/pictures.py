"""Pistonball of PettingZoo's Butterfly in pictures that are small enough to keep: a function for `env.id`.

    python train.py +run=pettingzoo env.id=benchmarks.imported_training.pictures:pistonball env.num_envs=20

A seat of the game sees 457 x 120 colours, 165 kB of them; here 76 x 40 grey tones of now and of the move before, from
which a ball's motion can be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space
from pettingzoo import ParallelEnv
from pettingzoo.utils import BaseParallelWrapper

BLOCK = (6, 3)
"""Height and width in pixels of the blocks that become one."""
FRAMES = 2


class SmallPictures(BaseParallelWrapper):  # type: ignore[misc]
    """Show every seat the mean tones of blocks of pixels, uint8 [height, width, `FRAMES`], the newest last."""

    def __init__(self, env: ParallelEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self._seen: dict[str, np.ndarray] = {}
        self._spaces = {agent: _space(env.observation_space(agent)) for agent in env.possible_agents}

    def observation_space(self, agent: str) -> Space[Any]:
        """Return the space of the shrunk pictures."""
        return self._spaces[agent]

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Start a match, whose first picture stands for those before it."""
        pictures, infos = super().reset(seed, options)
        self._seen = {name: np.stack([shrunk(picture)] * FRAMES, -1) for name, picture in pictures.items()}
        return dict(self._seen), infos

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """Make a move of all seats."""
        pictures, *others = super().step(actions)
        self._seen = {name: self._after(name, picture) for name, picture in pictures.items()}
        return dict(self._seen), *others

    def _after(self, name: str, picture: np.ndarray) -> np.ndarray:
        return np.concatenate([self._seen[name][..., 1:], shrunk(picture)[..., None]], -1)


def _space(space: Space[Any]) -> Box:
    height, width, _ = space.shape or ()
    return Box(0, 255, (height // BLOCK[0], width // BLOCK[1], FRAMES), np.uint8)


def shrunk(picture: np.ndarray) -> np.ndarray:
    """Return mean tones, uint8 [height // 6, width // 3], of a picture [height, width, 3]; a rest is cut off."""
    down, right = BLOCK
    height, width = picture.shape[0] // down, picture.shape[1] // right
    blocks = picture[: height * down, : width * right].reshape(height, down, width, right, 3)
    return blocks.mean((1, 3, 4), dtype=np.float32).astype(np.uint8)


def pistonball(**options: Any) -> SmallPictures:
    """Make a match of pistonball with its own `options`."""
    from pettingzoo.butterfly import pistonball_v6

    return SmallPictures(pistonball_v6.parallel_env(**options))
