"""Options of the rewards for language models, as plain data with checked ranges.

Fixed weights are defined beside their sums in `phase_rewards.py` and `final_score.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from sparring.configs.core.errors import InputError, choose
from sparring.configs.language import DISCOUNTS
from sparring.envs.diplomacy.board.codes import NUM_CENTRES

LIMITS = {
    "win_bonus": (0.0, 1e6),
    "winner_threshold_sc": (1, NUM_CENTRES),
    "solo_victory_sc": (1, NUM_CENTRES),
    "leader_gap_threshold": (0, NUM_CENTRES),
    "step_reward_weight": (0.0, 1e6),
    "final_reward_weight": (0.0, 1e6),
    "leader_gap_penalty_weight": (0.0, 1e6),
    "balance_bonus_weight": (0.0, 1e6),
    "reward_discount_gamma": (0.0, 1.0),
    "elo_scale": (0.0, 1e6),
}


@dataclass(frozen=True, kw_only=True)
class RewardRules:
    """The options of the rewards. Raises `InputError` for a number outside its range."""

    win_bonus: float = 50.0
    """Bonus of the winner: with position scoring for a solo, without it for a sole leader."""
    winner_threshold_sc: int = 5
    """Centres that a sole leader needs to win; used without position scoring only."""
    solo_victory_sc: int = 18
    """Centres that win with position scoring."""
    use_position_scoring: bool = True
    """Reward the place among the powers by centres."""
    reward_discount_gamma: float = 0.0
    """Discount of later step rewards; 0 counts the immediate phase only."""
    reward_discount_per: str = "phase"
    """phase: every later phase counts and discounts; decision: only those in which the power had something to order."""
    step_reward_weight: float = 0.8
    final_reward_weight: float = 0.2
    leader_gap_penalty_weight: float = 0.3
    leader_gap_threshold: int = 3
    """Centres behind the leader without a penalty."""
    balance_bonus_weight: float = 0.2
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
        choose("reward_discount_per", self.reward_discount_per, DISCOUNTS)
