"""Canonical orientation of observations: mirrored left to right whenever the opponent is on the left.

The physics is symmetric under x -> -x: the mirror image of a match is a legal match. A policy that sees one side only
learns every situation once instead of twice. The scripted bots are not symmetric (their altitude biases and first
dodges turn counter-clockwise and clockwise whichever way they fly), so against them the mirror is an approximation.
Observations are [..., D] float32 of either rule set, with or without physics parameters; actions [..., 3].
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparring.envs.dogfight import rules

OPPONENT_X = {"classic": 6, "challenge": 8}
"""Column of the opponent's relative x; of the four challenge frames the newest one decides for all."""
_NEGATED = {"classic": (1, 6, 9), "challenge": (1, 6, 8, 11, 16, 18, 51, 52, 53)}
"""Columns that change sign in the mirror: horizontal components, turn rates and signed angles."""
_BULLETS = {"classic": 13, "challenge": 19}
_BULLET_SIZE = 4


class Mirror:
    """Mirrors observations of `rule_set` so that the opponent is on the right, and maps actions back."""

    def __init__(self, rule_set: str, obs_dim: int, device: torch.device | str = "cpu") -> None:
        frames = rules.CHALLENGE_FRAMES if rule_set == "challenge" else 1
        first, beyond = _BULLETS[rule_set], _BULLETS[rule_set] + _BULLET_SIZE * rules.OBSERVED_BULLETS
        self.frame_shape = (frames, obs_dim // frames)
        self.opponent_x = OPPONENT_X[rule_set]
        # Slices of a frame: indexing by columns takes several times as long, in every step of a rollout.
        self._x, self._angle = slice(first, beyond, _BULLET_SIZE), slice(first + 3, beyond, _BULLET_SIZE)
        columns = torch.arange(obs_dim, device=device).view(self.frame_shape)
        self.bullet_x, self.bearing = (columns[:, inside].flatten() for inside in (self._x, self._angle))
        negated = columns[:, list(_NEGATED[rule_set])].flatten()
        self.sign = torch.ones(obs_dim, device=device)
        self.sign[torch.cat([negated, self.bullet_x, self.bearing])] = -1.0

    def show(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return observations with the opponent on the right, and side [...]: -1.0 where they were mirrored, else 1."""
        swapped = obs[..., self.opponent_x] < 0.0
        frames, image = self._by_frame(obs), obs * self.sign
        bearing = frames[..., self._angle]
        ahead = (bearing == 0.0) & (frames[..., self._x] > 0.0)
        # A bearing b, in units of pi, becomes 1 - b, or -1 - b if negative. A free slot (b = 0 and x = 0) stays 0.
        self._by_frame(image)[..., self._angle] += bearing.sign() + ahead
        return torch.where(swapped.unsqueeze(-1), image, obs), 1.0 - 2.0 * swapped.float()

    def _by_frame(self, obs: Tensor) -> Tensor:
        """Return a view [..., frames, D / frames] of observations [..., D]."""
        return obs.unflatten(-1, self.frame_shape)

    @staticmethod
    def back(actions: Tensor, side: Tensor) -> Tensor:
        """Return the actions [..., 3] in the original match for actions chosen on the output of `show`."""
        turn, others = actions[..., :1], actions[..., 1:]
        return torch.cat([turn * side.unsqueeze(-1), others], dim=-1)
