"""State-dependent exploration, gSDE (Raffin, Kober and Stulp 2021, arXiv:2005.05719).

Noise is a linear function of the state, constant over several steps, so that exploration is smooth:

    a = mu(s) + phi(s) W,   W_ij ~ N(0, sigma_ij^2)   =>   a_j ~ N(mu_j(s), sum_i phi_i(s)^2 sigma_ij^2)

phi are the features before the actor's head, without gradient, and log sigma [L, C] is learned. B stands for any batch
of observations, L for the number of features, C for that of continuous actions.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sparring.agents.distributed.shards import ShardedGenerator, draw

SMALLEST_VARIANCE = 1e-6
"""Added to the variance, which is 0 where all features are."""


def log_spread(features: Tensor, log_std: Tensor) -> Tensor:
    """Return the actions' log standard deviations [..., C] from features [..., L] and log sigma [..., L, C]."""
    with torch.autocast(features.device.type, enabled=False):
        variance = features.detach().float().square() @ (2.0 * log_std).exp()
        return 0.5 * (variance + SMALLEST_VARIANCE).log()


def draw_matrices(log_std: Tensor, count: int, generator: torch.Generator | ShardedGenerator | None) -> Tensor:
    """Draw W [count, L, C] for so many environments from log sigma [L, C]."""
    shape = torch.Size((count, *log_std.shape))
    return draw(torch.randn, shape, generator, log_std.device) * log_std.exp()


def held_noise(features: Tensor, matrices: Tensor) -> Tensor:
    """Return phi(s) W [B, C] of features [B, L] and one matrix each [B, L, C]."""
    with torch.autocast(features.device.type, enabled=False):
        return torch.bmm(features.float().unsqueeze(1), matrices).squeeze(1)
