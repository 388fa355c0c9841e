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
        size = obs_dim // frames
        bullets = [_BULLETS[rule_set] + _BULLET_SIZE * k for k in range(rules.OBSERVED_BULLETS)]
        columns = lambda inside: [f * size + c for f in range(frames) for c in inside]  # noqa: E731
        bullet_x, bearing = columns(bullets), columns([c + 3 for c in bullets])
        self.opponent_x = OPPONENT_X[rule_set]
        self.sign = torch.ones(obs_dim, device=device)
        self.sign[columns(_NEGATED[rule_set]) + bullet_x + bearing] = -1.0
        self.bullet_x = torch.tensor(bullet_x, device=device)
        self.bearing = torch.tensor(bearing, device=device)

    def show(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Return observations with the opponent on the right, and side [...]: -1.0 where they were mirrored, else 1."""
        swapped = obs[..., self.opponent_x] < 0.0
        bearing = obs.index_select(-1, self.bearing)
        ahead = ((bearing == 0.0) & (obs.index_select(-1, self.bullet_x) > 0.0)).float()
        # A bearing b, in units of pi, becomes 1 - b, or -1 - b if negative. A free slot (b = 0 and x = 0) stays 0.
        image = (obs * self.sign).index_add_(-1, self.bearing, bearing.sign() + ahead)
        return torch.where(swapped.unsqueeze(-1), image, obs), 1.0 - 2.0 * swapped.float()

    @staticmethod
    def back(actions: Tensor, side: Tensor) -> Tensor:
        """Return the actions [..., 3] in the original match for actions chosen on the output of `show`."""
        turn, others = actions[..., :1], actions[..., 1:]
        return torch.cat([turn * side.unsqueeze(-1), others], dim=-1)
