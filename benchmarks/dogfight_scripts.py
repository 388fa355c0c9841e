"""Seven scripted fighters of the dogfight that climb, dive or turn back; no run trains against them.

    python eval/run.py --ckpt released/dogfight_quickstart --opponents benchmarks.dogfight_scripts:corner

Each acts for N rows at once, `obs [N, 59] -> actions [N, 3]` (turn, throttle, shoot), at full throttle and without
memory. They complete the held-out opponents (`envs/dogfight/training/opponents/held_out.py`), which do not climb.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sparring.envs.dogfight.training.opponents.held_out import angle_to
from sparring.envs.dogfight.training.opponents.practice import steer

_ALIGNED = 0.15
"""Angle in radians below which a dive shoots."""
_SLOW, _CEILING = 60.0 / 250.0, 560.0 / 600.0
"""Own speed below which a climb flattens, and altitude above which it ends, as observed."""


def corner(obs: Tensor) -> Tensor:
    """Climb outward at 31 degrees into the corner and hold, without a shot."""
    return _hold(obs, math.radians(31.0), shoot=0.0)


def steep_corner(obs: Tensor) -> Tensor:
    """Climb outward at 56 degrees and hold, with the trigger held."""
    return _hold(obs, math.radians(56.0), shoot=1.0)


def reverser(obs: Tensor) -> Tensor:
    """Flee tail-on, and turn back with the trigger held when the opponent is within 140 m."""
    return _reverse(obs, 0.140)


def late_reverser(obs: Tensor) -> Tensor:
    """Flee tail-on, and turn back when the opponent is within 90 m."""
    return _reverse(obs, 0.090)


def boom_and_zoom(obs: Tensor) -> Tensor:
    """Climb to 150 m above the opponent, dive at it, and climb again."""
    return _zoom(obs, 0.150)


def high_zoom(obs: Tensor) -> Tensor:
    """Climb to 250 m above the opponent, dive at it, and climb again."""
    return _zoom(obs, 0.250)


def spiral(obs: Tensor) -> Tensor:
    """Turn fully to the left with the trigger held."""
    return torch.ones(len(obs), 3, device=obs.device)


def _hold(obs: Tensor, climb: float, *, shoot: float) -> Tensor:
    """Climb away from the opponent; within 150 m sideways keep the present side."""
    side = torch.where(obs[:, 6].abs() > 0.150, -obs[:, 6], obs[:, 1])
    outward = torch.where(side < 0.0, -math.cos(climb), math.cos(climb))
    return steer(obs, outward, torch.full_like(outward, math.sin(climb)), torch.full_like(outward, shoot))


def _reverse(obs: Tensor, distance: float) -> Tensor:
    """Fly away from the opponent beyond `distance` km, towards it and shooting within."""
    near = obs[:, 12] < distance
    sign = torch.where(near, 1.0, -1.0)
    return steer(obs, sign * obs[:, 6], sign * obs[:, 7], near.to(obs.dtype))


def _zoom(obs: Tensor, height: float) -> Tensor:
    """Dive from `height` km above the opponent or from the ceiling down to its altitude; climb otherwise."""
    above, top = -obs[:, 7], obs[:, 5] > _CEILING
    dive = (above > height) | (top & (above > 0.040)) | ((obs[:, 2] < -0.2) & (above > 0.0))
    meets = obs[:, 12] / 0.400 * 0.250 * obs[:, 8]
    """Kilometres that the opponent flies while a bullet of 400 m/s covers the distance."""
    to_x, to_y = obs[:, 6] + meets * obs[:, 9], obs[:, 7] + meets * obs[:, 10]
    climb = torch.where(top, 0.0, torch.where(obs[:, 0] < _SLOW, math.radians(20.0), math.radians(60.0)))
    side = torch.where(obs[:, 1] < 0.0, -1.0, 1.0)
    x, y = torch.where(dive, to_x, side * climb.cos()), torch.where(dive, to_y, climb.sin())
    aligned = dive & (angle_to(obs, torch.stack([to_x, to_y], 1)).abs() < _ALIGNED)
    return steer(obs, x, y, aligned.to(obs.dtype))
