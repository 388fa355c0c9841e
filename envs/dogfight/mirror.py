"""A match seen so that the opponent is always on the right: as it is, or in a mirror that swaps left and right.

The physics has no left and right: in the mirror (x to -x) a match is another legal match. A policy that is shown
one side only learns every situation once instead of twice. The scripted bots do have a left and a right (their altitude
biases and first dodges turn counter-clockwise and clockwise whichever way they fly), so against them the mirror is an
approximation: the policy cannot tell which of two slightly different opponents it meets. Observations are [..., D]
float32 of either rule set, with or without physics parameters; actions [..., 3].
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparring.envs.dogfight import rules

OPPONENT_X = {"classic": 6, "challenge": 8}
"""Where an observation has the opponent's relative x; of the challenge's four frames the newest decides for all."""
_NEGATED = {"classic": (1, 6, 9), "challenge": (1, 6, 8, 11, 16, 18, 51, 52, 53)}
"""What changes its sign in the mirror: horizontal components, turn rates and signed angles."""
_BULLETS = {"classic": 13, "challenge": 19}
_BULLET_SIZE = 4


class Mirror:
    """Shows observations of `rule_set` with the opponent on the right, and takes actions back."""

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
        """The observations with the opponent on the right, and side [...]: -1.0 where that took the mirror, else 1."""
        swapped = obs[..., self.opponent_x] < 0.0
        bearing = obs.index_select(-1, self.bearing)
        ahead = ((bearing == 0.0) & (obs.index_select(-1, self.bullet_x) > 0.0)).float()
        # A bearing b, in units of pi, becomes 1 - b, or -1 - b where it is negative; no bullet stays no bullet.
        image = (obs * self.sign).index_add_(-1, self.bearing, bearing.sign() + ahead)
        return torch.where(swapped.unsqueeze(-1), image, obs), 1.0 - 2.0 * swapped.float()

    @staticmethod
    def back(actions: Tensor, side: Tensor) -> Tensor:
        """Actions [..., 3] for the match as it is, of actions chosen for what `show` showed with `side` [...]."""
        turn, others = actions[..., :1], actions[..., 1:]
        return torch.cat([turn * side.unsqueeze(-1), others], dim=-1)
