"""The mirror of `envs.dogfight.mirror` on arrays of NumPy, without torch or Warp, and the columns that it changes."""

from __future__ import annotations

import numpy as np

from sparring.envs.dogfight import rules

OPPONENT_X = {"classic": 6, "challenge": 8}
"""Column of the opponent's relative x; of the four challenge frames the newest one decides for all."""
_NEGATED = {"classic": (1, 6, 9), "challenge": (1, 6, 8, 11, 16, 18, 51, 52, 53)}
"""Columns that change sign in the mirror: horizontal components, turn rates and signed angles."""
_BULLETS = {"classic": 13, "challenge": 19}
_BULLET_SIZE = 4


class ArrayMirror:
    """Columns of observations [..., D] of `rule_set` that change in the mirror, and the change itself."""

    def __init__(self, rule_set: str, obs_dim: int) -> None:
        frames = rules.CHALLENGE_FRAMES if rule_set == "challenge" else 1
        first, beyond = _BULLETS[rule_set], _BULLETS[rule_set] + _BULLET_SIZE * rules.OBSERVED_BULLETS
        self.opponent_x = OPPONENT_X[rule_set]
        columns = np.arange(obs_dim).reshape(frames, -1)
        self.bullet_x = columns[:, first:beyond:_BULLET_SIZE].flatten()
        self.bearing = columns[:, first + 3 : beyond : _BULLET_SIZE].flatten()
        negated = columns[:, list(_NEGATED[rule_set])].flatten()
        self.sign = np.ones(obs_dim, np.float32)
        self.sign[np.concatenate([negated, self.bullet_x, self.bearing])] = -1.0

    def show(self, obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return observations [B, D] with the opponent on the right, and side [B]: -1.0 where mirrored, else 1."""
        mirrored = obs[:, self.opponent_x] < 0.0
        bearing, x = obs[:, self.bearing], obs[:, self.bullet_x]
        # A bearing b, in units of pi, becomes 1 - b, or -1 - b if negative. A free slot (b = 0 and x = 0) stays 0.
        whole = np.where((bearing == 0.0) & (x <= 0.0), 0.0, np.where(bearing < 0.0, -1.0, 1.0))
        turned = obs * self.sign
        turned[:, self.bearing] = whole - bearing
        return np.where(mirrored[:, None], turned, obs), np.where(mirrored, -1.0, 1.0).astype(np.float32)

    @staticmethod
    def back(actions: np.ndarray, side: np.ndarray) -> np.ndarray:
        """Return the actions [B, 3] in the original match for actions chosen on the output of `show`."""
        return np.concatenate([actions[:, :1] * side[:, None], actions[:, 1:]], axis=1)
