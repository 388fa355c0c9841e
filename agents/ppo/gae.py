"""Generalized advantage estimation (Schulman et al. 2016, arXiv:1506.02438) with time limits treated as truncation.

    delta_t = r_t + gamma V(s'_t) - V(s_t)
    A_t     = delta_t + gamma lambda A_{t+1}      (cut where an episode ends)

s'_t is the state after step t. With same-step autoreset the next stored observation already belongs to the next
episode. So at a time limit (truncation) V(s'_t) must be the value of the final observation, and at a true ending
(termination) it is zero. Bootstrapping at neither or at both gives the critic a wrong horizon.
"""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def gae(
    reward: Tensor,
    value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    last_value: Tensor,
    truncation_value: Tensor,
    *,
    gamma: float,
    lam: float,
) -> tuple[Tensor, Tensor]:
    """Compute advantages and returns, each [T, N].

    `reward`, `value` = V(s_t), `terminated`, `truncated` (bool) are [T, N]; `last_value` [N] is V of the observation
    after the last step; `truncation_value` [T, N] is V(final observation) where truncated and ignored elsewhere, even
    if NaN. A step both terminated and truncated counts as terminated.
    """
    # V(s_{t+1}) of the stored observations; after an ending that is the first state of the next episode.
    next_value = torch.cat([value[1:], last_value.unsqueeze(0)])
    # A time limit is no property of the state, so the value of the interrupted state is used.
    next_value = torch.where(truncated, truncation_value, next_value)
    next_value = next_value.masked_fill(terminated, 0.0)  # no reward follows a true ending
    advantage = reward + gamma * next_value - value  # delta_t
    decay = gamma * lam * (~(terminated | truncated)).to(value.dtype)
    for t in range(len(reward) - 2, -1, -1):
        advantage[t].addcmul_(decay[t], advantage[t + 1])  # A_t = delta_t + gamma lambda A_{t+1}
    return advantage, advantage + value
