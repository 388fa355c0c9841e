"""Held-out opponents: simple fighters, never used in training, that measure generalization.

Results against the five training bots say little about a policy's strength: it can beat all of them and lose to a
constant turn with the trigger held. Each function below acts for N rows at once, `obs [N, D] -> actions [N, 3]` (turn,
throttle, shoot). It works on any device, in either seat and under either rule set. Training refuses their names
(`held_out:left` and so on), and a test reads every run and sweep file for them. The set `held_out` (`rules.HELD_OUT`)
adds the released policies of another recipe.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from sparring.envs.dogfight import rules
from sparring.envs.game import HELD_OUT_PREFIX

_CHALLENGE = rules.CHALLENGE_FRAMES * rules.CHALLENGE_FRAME_SIZE
_PHYSICS = 46
"""First column of the physics parameters, in observations of 59 floats."""
_GAIN = 3.0
"""Turn per radian of angle; full deflection from 19 degrees on, about the maximum turn in one decision."""
_ALIGNED = 0.1
"""Angle in radians below which the lead pursuit shoots: 11 m, a hit, at a distance of 110 m."""
_WINDOW = 240
"""Ticks, two seconds: the mean time between two draws of the random opponent."""


def pursuit(obs: Tensor) -> Tensor:
    """Turn fully towards the opponent at full throttle, with the trigger held: `Mine` of docs/opponents.md."""
    turn = torch.sign(_cross(obs[:, 1:3], _relative(obs)))
    return torch.stack([turn, torch.ones_like(turn), torch.ones_like(turn)], dim=1)


def lead(obs: Tensor) -> Tensor:
    """Aim at the intercept point for the opponent's current velocity, and shoot when aligned; always full throttle.

    With the opponent at r, velocity v and bullet speed s, |r + v t| = s t and the point is r + v t. It does not manage
    energy: it turns and climbs until it stalls.
    """
    relative = 1000.0 * _relative(obs)
    at = _other(obs)
    speed = obs[:, at + 2] * _physics(obs, "max_speed")
    velocity = speed.unsqueeze(1) * obs[:, at + 3 : at + 5]
    closing = (relative * velocity).sum(1)
    # In randomized physics opponents can be faster than bullets: the point is then far ahead, not behind.
    faster = (_physics(obs, "bullet_speed") ** 2 - speed**2).clamp_min(1.0)
    time = (closing + (closing**2 + faster * (relative**2).sum(1)).sqrt()) / faster
    angle = angle_to(obs, relative + velocity * time.unsqueeze(1))
    shoot = (angle.abs() < _ALIGNED).to(obs.dtype)
    return torch.stack([(_GAIN * angle).clamp(-1.0, 1.0), torch.ones_like(angle), shoot], dim=1)


def runner(obs: Tensor) -> Tensor:
    """Turn away from the opponent and flee at full throttle, without a shot."""
    angle = angle_to(obs, -_relative(obs))
    return torch.stack([(_GAIN * angle).clamp(-1.0, 1.0), torch.ones_like(angle), torch.zeros_like(angle)], dim=1)


class SampledActions:
    """Sample turn, throttle and shoot uniformly, and resample after a random time of up to four seconds.

    A sample is a hash of only the seed, the row, its match number and the two-second window. An evaluation therefore
    repeats bit for bit on every device. A new match is detected by an increase in the time left.
    """

    def __init__(self) -> None:
        self.reseed(0)

    def reseed(self, seed: int) -> None:
        """Restart at the first match of every row, with `seed`."""
        self._seed = seed
        self._remaining = self._match = torch.zeros(0)

    def act(self, obs: Tensor) -> Tensor:
        """Return actions [N, 3] for observations [N, D]; a different N restarts."""
        remaining = obs[:, 55 if obs.shape[1] == _CHALLENGE else 45].clone()  # time, a share of the limit
        if self._remaining.shape != remaining.shape or self._remaining.device != remaining.device:
            self._match = torch.zeros(len(remaining), dtype=torch.int64, device=remaining.device)
        else:
            self._match = self._match + (remaining > self._remaining)
        self._remaining = remaining
        ticks = ((1.0 - remaining) * rules.MAX_TICKS + 0.5).long()
        window = ticks // _WINDOW
        row = torch.arange(len(remaining), device=remaining.device)
        match = _mix(_mix(row + (self._seed << 20)) + self._match)
        # Every window resamples once, at a random tick; before that tick the last sample holds.
        drawn = ticks % _WINDOW >= _mix(match + 4 * window) % _WINDOW
        draw = match + 4 * (window + drawn.long())
        turn, throttle, shoot = (_mix(draw + k).to(obs.dtype) / 2.0**32 for k in (1, 2, 3))
        return torch.stack([2.0 * turn - 1.0, throttle, (shoot < 0.5).to(obs.dtype)], dim=1)


def _constant(obs: Tensor, *, action: tuple[float, float, float]) -> Tensor:
    return obs.new_tensor(action).expand(len(obs), -1)


_CONSTANT = {
    "left": (0.5, 0.5, 1.0),  # half rate, half throttle, the trigger held
    "right": (-0.5, 0.5, 1.0),
    "tight": (1.0, 1.0, 0.0),
    "wide": (-0.3, 1.0, 0.0),
    "straight": (0.0, 1.0, 0.0),
    "straight_fire": (0.0, 1.0, 1.0),
}
"""Turn (left above 0), throttle and shoot of the opponents that ignore observations."""
_SCRIPTS: dict[str, Callable[[Tensor], Tensor] | type[SampledActions]] = {
    **{name: partial(_constant, action=action) for name, action in _CONSTANT.items()},
    "pursuit": pursuit,
    "lead": lead,
    "runner": runner,
    "random": SampledActions,
}
HELD_OUT_SOURCES = {f"{HELD_OUT_PREFIX}{name}": source for name, source in _SCRIPTS.items()}
"""Opponents by name; the names are listed in `rules.HELD_OUT_SCRIPTS`."""


def _other(obs: Tensor) -> int:
    """Return the first column of the opponent: relative x and y, speed, cosine and sine of its heading."""
    return 8 if obs.shape[1] == _CHALLENGE else 6


def _relative(obs: Tensor) -> Tensor:
    """Return the opponent's relative position, [N, 2], in kilometres."""
    at = _other(obs)
    return obs[:, at : at + 2]


def _physics(obs: Tensor, name: str) -> Tensor | float:
    """Return a parameter of the matches, [N], in its unit; the default if it is not observed."""
    parameter = rules.PARAMETERS[rules.PARAMETER_INDEX[name]]
    if obs.shape[1] != _PHYSICS + len(rules.PARAMETERS):
        return parameter.default
    return obs[:, _PHYSICS + rules.PARAMETER_INDEX[name]] * parameter.normalizer


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]


def angle_to(obs: Tensor, towards: Tensor) -> Tensor:
    """Return the angle from the nose to a direction, [N], in radians, counter-clockwise."""
    nose = obs[:, 1:3]
    return torch.atan2(_cross(nose, towards), (nose * towards).sum(1))


def _mix(x: Tensor) -> Tensor:
    """Return a hash in [0, 2^32) of whole numbers: multiplications and shifts of 32 bits."""
    mask = 0xFFFFFFFF
    x = x & mask
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & mask
    x = ((x ^ (x >> 15)) * 0x846CA68B) & mask
    return x ^ (x >> 16)
