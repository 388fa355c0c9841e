"""Rewards of a language model for its decisions: pure functions over G games of T phases.

dense    0.8 * sum over k of gamma^k * step reward k phases later + 0.2 * final score + 0.3 * gap + 0.2 * balance
sparse   final score + 0.3 * gap + 0.2 * balance, for every decision of the trajectory alike
final    2.0 centre + 0.2 unit + 0.1 unit abroad + 0.5 for survival + 50, 25, 15, 10, 5, 2 or 0 by the place among the
         powers, + `win_bonus` at 18 centres; -30 and nothing else if eliminated. Without position
         scoring no place, but `win_bonus` to the sole leader with `winner_threshold_sc` centres; -1 if eliminated
gap      -(g - 3) / 18 for a power g > 3 centres behind the leader, else 0
balance  1 - std / mean of the centres of powers that own any, at least 0, for a power that does not lead; 0 where fewer
         than two powers own one
Elo      + 2 s * (expected place - place), on top of either

The weights 0.8, 0.2, 0.3, 0.2 and the 3 of the gap are options, `rules` below. With `reward_discount_per` decision
the k-th later phase is the k-th in which the power had something to order. That leaves out what its other phases
earned, such as a centre that it takes in a fall in which only others retreat.

Step rewards are `scoring.step_rewards`; all other terms use the position in which the trajectory ended, finished
or truncated. Places are by centres, and powers with as many share the better one. The expected place of power i is
7 - the sum over its six opponents j of 1 / (1 + 10^((R_j - R_i) / 400)), the chance to beat each. It is constant among
games with the same opponents and therefore cancels from advantages within a group.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparring.configs.core.errors import InputError
from sparring.configs.language import GRPOConfig
from sparring.envs.diplomacy.board.codes import NUM_POWERS, SOLO
from sparring.envs.diplomacy.board.tensors import State
from sparring.envs.diplomacy.rewards.scoring import (
    alive,
    balance,
    centres_behind,
    count_abroad,
    count_centres,
    count_units,
)

ELO_SCALE, FREE_GAP, WHOLE_GAP = 0.5, 3, 18
"""Weight of the Elo-conditioned reward, centres behind the leader at no cost, and beyond them for a penalty of 1."""
PER_CENTRE, PER_UNIT, PER_UNIT_ABROAD, SURVIVAL = 2.0, 0.2, 0.1, 0.5
BY_PLACE = (50.0, 25.0, 15.0, 10.0, 5.0, 2.0, 0.0)
ELIMINATED, ELIMINATED_WITHOUT_PLACES = -30.0, -1.0


def sample_rewards(
    steps: Tensor, end: State, rules: GRPOConfig, *, ratings: Tensor | None = None, decided: Tensor | None = None
) -> Tensor:
    """Return the rewards float64 [T, G, 7] of the decisions of each power in each phase.

    `steps` float64 [T, G, 7] is what the phases earned (0 after a game's end), `end` the positions in which the games
    ended. `ratings` [G, 7], the players' Elo points, are needed for Elo-conditioned rewards only. `decided` bool [T, G,
    7], whether a power had something to order, is needed with `reward_discount_per` decision only. Raises `InputError`
    if needed ratings are missing or not finite.
    """
    final = final_scores(end, rules)
    shared = rules.leader_gap_penalty_weight * leader_gap(end["owner"])
    shared = shared + rules.balance_bonus_weight * balance_bonus(end["owner"])
    if rules.use_elo_conditioned_rewards:
        shared = shared + elo_reward(end["owner"], _checked(ratings, final), ELO_SCALE)
    if rules.use_trajectory_level_rewards:
        return (final + shared).expand_as(steps).clone()
    decided = decided if rules.reward_discount_per == "decision" else None
    earned = discounted(steps, rules.reward_discount_gamma, decided)
    return rules.step_reward_weight * earned + rules.final_reward_weight * final + shared


def discounted(steps: Tensor, gamma: float, counted: Tensor | None = None) -> Tensor:
    """Return the discounted sums float64 [T, G, 7] of step rewards from each phase on.

    Phases that `counted` bool [T, G, 7] leaves out neither contribute nor discount.
    """
    total = steps.double().clone()
    counts = torch.ones_like(total, dtype=torch.bool) if counted is None else counted
    later = torch.zeros_like(total[0])
    for t in range(len(total) - 1, -1, -1):
        later = torch.where(counts[t], total[t] + gamma * later, later)  # R_t = d_t + gamma R_(t+1)
        total[t] = later
    return total


def leader_gap(owner: Tensor) -> Tensor:
    """Return the penalty for being more than `FREE_GAP` centres behind the leader, float64 [G, 7], at most 0."""
    return -(centres_behind(owner).double() - FREE_GAP).clamp(min=0.0) / WHOLE_GAP


def balance_bonus(owner: Tensor) -> Tensor:
    """Return the balance of the powers, float64 [G, 7]; 0 for leaders, tied ones included, and for a sole owner's."""
    shared = (count_centres(owner) > 0).sum(dim=1, keepdim=True) > 1
    return torch.where(shared & (centres_behind(owner) > 0), balance(owner).unsqueeze(1), 0.0)


def expected_ranks(ratings: Tensor) -> Tensor:
    """Return the expected places float64 [G, 7] of Elo ratings [G, 7]: 7 - 6 * the mean chance to beat an opponent.

    They sum to 28 in each game, like places without ties.
    """
    elo = ratings.double()
    ahead = 1.0 / (1.0 + 10.0 ** ((elo.unsqueeze(1) - elo.unsqueeze(2)) / 400.0))  # [G, i, j] i ends before j
    against_itself = 0.5
    return NUM_POWERS - (ahead.sum(dim=2) - against_itself)


def elo_reward(owner: Tensor, ratings: Tensor, scale: float) -> Tensor:
    """Return the reward for a better place than expected, float64 [G, 7]; negative for a worse place."""
    return scale * 2.0 * (expected_ranks(ratings) - ranks(owner))


def _checked(ratings: Tensor | None, scores: Tensor) -> Tensor:
    if ratings is None or ratings.shape != scores.shape:
        problem = "missing" if ratings is None else f"of shape {tuple(ratings.shape)}"
        raise InputError(f"ratings: {problem}; Elo-conditioned rewards need one per power, {tuple(scores.shape)}")
    if not bool(torch.isfinite(ratings).all()):
        raise InputError("ratings: not all are finite; give Elo points")
    return ratings


def final_scores(state: State, rules: GRPOConfig) -> Tensor:
    """Return the score of every power in these positions, float64 [G, 7]."""
    if rules.use_position_scoring:
        bonus = torch.tensor(BY_PLACE, dtype=torch.float64, device=state["owner"].device)
        by_place, lost = bonus[ranks(state["owner"]) - 1], ELIMINATED
        won = count_centres(state["owner"]) >= SOLO
    else:
        won, lost = sole_leader(state["owner"], rules.winner_threshold_sc), ELIMINATED_WITHOUT_PLACES
        by_place = torch.zeros_like(won, dtype=torch.float64)
    scores = holdings(state["units"], state["owner"]) + SURVIVAL + by_place + rules.win_bonus * won.double()
    return torch.where(alive(state), scores, lost)


def holdings(units: Tensor, owner: Tensor) -> Tensor:
    """Return the part of the score for centres and units, float64 [G, 7]."""
    centres, on_board = count_centres(owner).double(), count_units(units).double()
    return PER_CENTRE * centres + PER_UNIT * on_board + PER_UNIT_ABROAD * count_abroad(units).double()


def ranks(owner: Tensor) -> Tensor:
    """Return the places by centres, int64 [G, 7]: 1 + the number of powers with more."""
    centres = count_centres(owner)
    return 1 + (centres.unsqueeze(1) > centres.unsqueeze(2)).sum(dim=2)


def sole_leader(owner: Tensor, threshold: int) -> Tensor:
    """Return whether a power has more centres than any other, and at least `threshold`: bool [G, 7]."""
    first = ranks(owner) == 1
    return first & (first.sum(dim=1, keepdim=True) == 1) & (count_centres(owner) >= threshold)
