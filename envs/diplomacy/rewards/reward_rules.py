"""Options of the rewards for language models, as plain data with checked ranges.

Fixed weights are defined beside their sums in `phase_rewards.py`, `final_score.py` and `sample_reward.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board.codes import NUM_CENTRES

LIMITS = {
    "win_bonus": (0.0, 1e6),
    "winner_threshold_sc": (1, NUM_CENTRES),
    "reward_discount_gamma": (0.0, 1.0),
    "elo_scale": (0.0, 1e6),
}


@dataclass(frozen=True, kw_only=True)
class RewardRules:
    """The options of the rewards. Raises `InputError` for a number outside its range."""

    win_bonus: float = 50.0
    """Bonus of the winner: with position scoring for a solo, without it for a sole leader."""
    winner_threshold_sc: int = 18
    """Centres that a sole leader needs to win; used without position scoring only (with it, a solo needs 18)."""
    use_position_scoring: bool = True
    """Reward the place among the powers by centres."""
    reward_discount_gamma: float = 0.0
    """Discount per phase of later step rewards; 0 counts the immediate phase only."""
    use_strategic_step_scoring: bool = False
    """Step rewards by lead and balance instead of centres: the term `strategic` instead of `dense`."""
    use_trajectory_level_rewards: bool = False
    """Reward every decision by the end of its game, without its step rewards."""
    use_elo_conditioned_rewards: bool = False
    """Add a reward for a better place than expected from the ratings of the players."""
    elo_scale: float = 0.5
    """Half of the reward per place better than expected."""

    def __post_init__(self) -> None:
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if not (isfinite(value) and low <= value <= high):
                raise InputError(f"{name}={value}: must be in [{low:g}, {high:g}]")
