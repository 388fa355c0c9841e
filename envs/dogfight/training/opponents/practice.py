"""Practice opponents for training: they stay at the edges of the arena, or fight from above.

The five bots stay away from walls and ceiling. A policy trained only against them draws against opponents that climb.
Each acts for N rows at once, `obs [N, D] -> actions [N, 3]`, at full throttle, without memory and under classic rules.
`rules.PRACTICE` lists their names.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from sparring.envs.dogfight.training.opponents.held_out import angle_to

_GAIN = 3.0
"""Turn per radian of angle."""


def perch(obs: Tensor, *, low: float, high: float, fire: float) -> Tensor:
    """Fly on to the side where the nose points, between two angles above the horizon in degrees, and hold a wall."""
    angle = torch.atan2(obs[:, 2], obs[:, 1].abs()).clamp(math.radians(low), math.radians(high))
    side = torch.where(obs[:, 1] < 0.0, -1.0, 1.0)
    return steer(obs, side * angle.cos(), angle.sin(), torch.full_like(angle, fire))


def zoom(obs: Tensor) -> Tensor:
    """Climb until 200 m above the opponent, or to the ceiling, dive at it with the trigger held, and climb again."""
    x, y, distance = obs[:, 6], obs[:, 7], obs[:, 12]
    off = angle_to(obs, torch.stack([x, y], 1)).abs()
    high = (y < -0.200) | (obs[:, 5] > 0.93)
    diving = (obs[:, 2] < 0.0) & (off < 0.8) & (y < -0.025) & (obs[:, 5] > 0.15)
    attack = (high & (y < -0.060)) | diving
    lead = 0.4 * distance * obs[:, 8]
    climb = torch.where(obs[:, 5] > 0.92, 0.0, torch.where(obs[:, 0] < 0.24, 0.3, 0.9))  # less steeply when slow
    side = torch.where(obs[:, 1] < 0.0, -1.0, 1.0)
    to_x = torch.where(attack, x + lead * obs[:, 9], side)
    to_y = torch.where(attack, y + lead * obs[:, 10], climb)
    return steer(obs, to_x, to_y, ((off < 0.2) & (distance < 0.3)).to(obs.dtype))


PRACTICE_SOURCES = {
    "perch:nose=flat": partial(perch, low=-20.0, high=35.0, fire=0.0),
    "perch:nose=steep": partial(perch, low=52.0, high=85.0, fire=1.0),
    "zoom:height=200": zoom,
}
"""Opponents by name."""


def steer(obs: Tensor, x: Tensor, y: Tensor, shoot: Tensor) -> Tensor:
    """Return actions [N, 3] that turn the nose to the direction (x, y) at full throttle."""
    turn = (_GAIN * angle_to(obs, torch.stack([x, y], 1))).clamp(-1.0, 1.0)
    return torch.stack([turn, torch.ones_like(turn), shoot], dim=1)
