"""What a language model is paid for each of its decisions: pure functions over G games and the T phases they went on.

dense    0.8 * sum over k of gamma^k * step reward k phases later + 0.2 * final score + 0.3 * gap + 0.2 * balance
sparse   final score + 0.3 * gap + 0.2 * balance, for every decision of the trajectory alike
gap      -(g - 3) / 18 for a power g > 3 centres behind the leader, else 0
balance  1 - std / mean of the centres of those who own any, at least 0, for a power that does not lead
Elo      + 2 s * (expected place - place), on top of either

Step rewards are `rewards.step_rewards`; everything else is of the position in which the trajectory ended. The expected
place of power i is 7 - the sum over its six opponents j of 1 / (1 + 10^((R_j - R_i) / 400)), the chance to beat each.
Among games with the same opponents it is a constant, which advantages within a group do not see.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.board.tensors import State
from sparring.envs.diplomacy.rewards.final_score import final_scores, ranks
from sparring.envs.diplomacy.rewards.phase_rewards import balance, centres_behind
from sparring.envs.diplomacy.rewards.reward_rules import RewardRules

STEPS, FINAL, GAP, BALANCE = 0.8, 0.2, 0.3, 0.2
FREE_GAP, WHOLE_GAP = 3, 18
"""Centres behind the leader that cost nothing, and those beyond that cost 1."""


def sample_rewards(steps: Tensor, end: State, rules: RewardRules, *, ratings: Tensor | None = None) -> Tensor:
    """Rewards float64 [T, G, 7] of what each power decided in each phase.

    `steps` float64 [T, G, 7] is what the phases earned (0 after a game's end), `end` the positions in which the games
    ended. `ratings` [G, 7] of those who played, in Elo points, are needed for Elo-conditioned rewards only, and raise
    `InputError` where they are missing or not finite.
    """
    final = final_scores(end, rules)
    whole = GAP * leader_gap(end["owner"]) + BALANCE * balance_bonus(end["owner"])
    if rules.use_elo_conditioned_rewards:
        whole = whole + elo_reward(end["owner"], _checked(ratings, final), rules.elo_scale)
    if rules.use_trajectory_level_rewards:
        return (final + whole).expand_as(steps).clone()
    return STEPS * discounted(steps, rules.reward_discount_gamma) + FINAL * final + whole


def discounted(steps: Tensor, gamma: float) -> Tensor:
    """Sums float64 [T, G, 7] of the step rewards from each phase on, `gamma` less with every phase."""
    total = steps.double().clone()
    for t in range(len(total) - 2, -1, -1):
        total[t] += gamma * total[t + 1]
    return total


def leader_gap(owner: Tensor) -> Tensor:
    """The penalty for being far behind the leader, float64 [G, 7], never above 0."""
    return -(centres_behind(owner).double() - FREE_GAP).clamp(min=0.0) / WHOLE_GAP


def balance_bonus(owner: Tensor) -> Tensor:
    """The balance of the powers, float64 [G, 7], for each that does not lead; leaders, also tied ones, get 0."""
    return torch.where(centres_behind(owner) > 0, balance(owner).unsqueeze(1), 0.0)


def expected_ranks(ratings: Tensor) -> Tensor:
    """Places float64 [G, 7] that players of these Elo ratings [G, 7] can expect, 7 - 6 * their mean chance to beat one.

    Everybody's add up to 28, as places without ties do.
    """
    elo = ratings.double()
    ahead = 1.0 / (1.0 + 10.0 ** ((elo.unsqueeze(1) - elo.unsqueeze(2)) / 400.0))  # [G, i, j] i ends before j
    against_itself = 0.5
    return NUM_POWERS - (ahead.sum(dim=2) - against_itself)


def elo_reward(owner: Tensor, ratings: Tensor, scale: float) -> Tensor:
    """What being placed better than expected is worth, float64 [G, 7]; below 0 for a worse place."""
    return scale * 2.0 * (expected_ranks(ratings) - ranks(owner))


def _checked(ratings: Tensor | None, scores: Tensor) -> Tensor:
    if ratings is None or ratings.shape != scores.shape:
        given = "missing" if ratings is None else f"of shape {tuple(ratings.shape)}"
        raise InputError(f"ratings: {given}; Elo-conditioned rewards need one per power, {tuple(scores.shape)}")
    if not bool(torch.isfinite(ratings).all()):
        raise InputError("ratings: not all are finite; give Elo points")
    return ratings
