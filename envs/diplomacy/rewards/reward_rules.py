"""Which of the rewards for language models are paid, and how high the stakes are: plain data, checked when made.

The weights that never change stand beside the sums they are in, in `rewards.py`, `final_score.py`, `sample_reward.py`.
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
    """For the winner, on top: with position scoring a solo, without it a sole leader."""
    winner_threshold_sc: int = 18
    """Centres that a sole leader needs to win. Without position scoring only: with it, it takes a solo's 18."""
    use_position_scoring: bool = True
    """Pay the place among the powers by centres."""
    reward_discount_gamma: float = 0.0
    """How much of what the next phase earns counts for the decision before it; 0 pays for the immediate phase alone."""
    use_strategic_step_scoring: bool = False
    """Step rewards by lead and balance instead of centres: the term `strategic` instead of `dense`."""
    use_trajectory_level_rewards: bool = False
    """Every decision is paid for how the game ended, and not for its own step."""
    use_elo_conditioned_rewards: bool = False
    """Pay for a better place than the ratings of those who play would let one expect."""
    elo_scale: float = 0.5
    """Half of what each place better than expected is worth."""

    def __post_init__(self) -> None:
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if not (isfinite(value) and low <= value <= high):
                raise InputError(f"{name}={value}: must be in [{low:g}, {high:g}]")
