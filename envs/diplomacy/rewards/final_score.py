"""Score of the position in which a trajectory ends, finished or truncated: pure functions over G games.

with position scoring     2.0 centre + 0.2 unit + 0.1 unit abroad + 0.5 for survival + 50, 25, 15, 10, 5, 2 or 0 by
                          the place among the powers, + `win_bonus` at `solo_victory_sc` centres; -30 and nothing else
                          if eliminated
without position scoring  the same without the place, + `win_bonus` to the sole leader, if it has at least
                          `winner_threshold_sc` centres; -1 and nothing else if eliminated

Places are by centres, and powers with as many share the better one. All results are [G, 7], scores float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparring.envs.diplomacy.board.tensors import State
from sparring.envs.diplomacy.rewards.phase_rewards import count_abroad, count_units
from sparring.envs.diplomacy.rewards.reward_rules import RewardRules
from sparring.envs.diplomacy.rewards.scoring import alive, count_centres

PER_CENTRE, PER_UNIT, PER_UNIT_ABROAD, SURVIVAL = 2.0, 0.2, 0.1, 0.5
BY_PLACE = (50.0, 25.0, 15.0, 10.0, 5.0, 2.0, 0.0)
ELIMINATED, ELIMINATED_WITHOUT_PLACES = -30.0, -1.0


def final_scores(state: State, rules: RewardRules) -> Tensor:
    """Return the score of every power in these positions, float64 [G, 7]."""
    if rules.use_position_scoring:
        place, lost = place_bonus(state["owner"]), ELIMINATED
        won = count_centres(state["owner"]) >= rules.solo_victory_sc
    else:
        won, lost = sole_leader(state["owner"], rules.winner_threshold_sc), ELIMINATED_WITHOUT_PLACES
        place = torch.zeros_like(won, dtype=torch.float64)
    scores = holdings(state["units"], state["owner"]) + SURVIVAL + place + rules.win_bonus * won.double()
    return torch.where(alive(state), scores, lost)


def holdings(units: Tensor, owner: Tensor) -> Tensor:
    """Return the part of the score for centres and units, float64 [G, 7]."""
    held, there, abroad = (found.double() for found in (count_centres(owner), count_units(units), count_abroad(units)))
    return PER_CENTRE * held + PER_UNIT * there + PER_UNIT_ABROAD * abroad


def ranks(owner: Tensor) -> Tensor:
    """Return the places by centres, int64 [G, 7]: 1 + the number of powers with more."""
    held = count_centres(owner)
    return 1 + (held.unsqueeze(1) > held.unsqueeze(2)).sum(dim=2)


def place_bonus(owner: Tensor) -> Tensor:
    """Return the part of the score for the place, float64 [G, 7]."""
    return torch.tensor(BY_PLACE, dtype=torch.float64, device=owner.device)[ranks(owner) - 1]


def sole_leader(owner: Tensor, threshold: int) -> Tensor:
    """Return whether a power has more centres than any other, and at least `threshold`: bool [G, 7]."""
    first = ranks(owner) == 1
    return first & (first.sum(dim=1, keepdim=True) == 1) & (count_centres(owner) >= threshold)
