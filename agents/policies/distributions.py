"""Densities of actions, with gradients in closed form: small batches are bound by the number of operations.

An action has C independent Gaussians, then independent Bernoullis with values 0.0 or 1.0. The actor's output has their
means mu and logits l; s is log sigma, [C], or [..., C] if it depends on the state. With z = (a - mu) / sigma and
p = sigmoid(l),

    log pi = sum(-z^2 / 2 - s - log(2 pi) / 2) + sum(log sigmoid((2 a - 1) l))
    d log pi / d mu = z / sigma,   d log pi / ds = z^2 - 1,   d log pi / dl = a - p
    H = sum(s + log(2 pi e) / 2) + sum(softplus(l) - p l),   dH / ds = 1,   dH / dl = -l p (1 - p)

State-dependent exploration, gSDE (Raffin, Kober and Stulp 2021, arXiv:2005.05719), has noise that is a linear function
of the state, constant over several steps, so that exploration is smooth:

    a = mu(s) + phi(s) W,   W_ij ~ N(0, sigma_ij^2)   =>   a_j ~ N(mu_j(s), sum_i phi_i(s)^2 sigma_ij^2)

phi are the features before the actor's head, without gradient, and log sigma [L, C] is learned.
`...` stands for any batch, A for the columns of these actions, L for the number of features.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from sparring.agents.distributed.processes import ShardedGenerator, draw

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class Density(torch.autograd.Function):
    """`Density.apply(output, log_std, actions)`: log pi(a | s) and the entropy of pi(. | s), [...] each."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, log_std: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Compute both, and keep z, 1 / sigma, and of the Bernoullis l, p and a - p."""
        z, inverse = standardized(output, log_std, actions)
        log_prob, spread = gaussian_log_probability(z, log_std), gaussian_entropy(log_std)
        kept = [log_std, z, inverse]
        (_, logit), (_, taken) = split(output, log_std), split(actions, log_std)
        if logit.shape[-1]:
            logit = logit.contiguous()  # softplus of a strided view takes four times as long
            p = logit.sigmoid()
            log_prob = log_prob + bernoulli_log_probability(logit, taken)
            spread = spread + bernoulli_entropy(logit, p)
            kept += [logit, p, taken - p]
        ctx.save_for_backward(*kept)
        return log_prob, spread.expand_as(log_prob)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_log_prob: Tensor, by_entropy: Tensor) -> tuple[Tensor, Tensor, None]:
        """Return the gradients of output and log_std from those of both results [...]."""
        log_std, z, inverse, *bernoulli = ctx.saved_tensors
        by_log_prob, by_entropy = by_log_prob.unsqueeze(-1), by_entropy.unsqueeze(-1)
        weighted = by_log_prob * z
        by_output = weighted * inverse
        if bernoulli:
            logit, p, error = bernoulli
            by_logit = by_log_prob * error - by_entropy * (logit * p * (1.0 - p))
            by_output = torch.cat([by_output, by_logit], dim=-1)
        by_log_std = torch.addcmul(by_entropy - by_log_prob, weighted, z)
        return by_output, by_log_std.sum_to_size(log_std.shape), None


def log_probability(output: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
    """Return log pi(a | s), [...], of actions [..., A] under the actor's output [..., A]."""
    z, _ = standardized(output, log_std, actions)
    log_prob = gaussian_log_probability(z, log_std)
    (_, logit), (_, taken) = split(output, log_std), split(actions, log_std)
    return log_prob + bernoulli_log_probability(logit, taken) if logit.shape[-1] else log_prob


def standardized(output: Tensor, log_std: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Return z = (a - mu) / sigma, [..., C], and 1 / sigma."""
    (mean, _), (taken, _), inverse = split(output, log_std), split(actions, log_std), (-log_std).exp()
    return (taken - mean) * inverse, inverse


def gaussian_log_probability(z: Tensor, log_std: Tensor) -> Tensor:
    """Return log N(a; mu, sigma), [...], from z [..., C]."""
    return -0.5 * z.square().sum(-1) - (log_std + HALF_LOG_TWO_PI).sum(-1)


def gaussian_entropy(log_std: Tensor) -> Tensor:
    """Return the entropy of the Gaussians, log sigma + log(2 pi e) / 2 summed over the last dimension."""
    return (log_std + (0.5 + HALF_LOG_TWO_PI)).sum(-1)


def bernoulli_log_probability(logit: Tensor, taken: Tensor) -> Tensor:
    """Return log p or log(1 - p) of values 0.0 or 1.0, summed over the last dimension."""
    return F.logsigmoid((2.0 * taken - 1.0) * logit).sum(-1)


def bernoulli_entropy(logit: Tensor, p: Tensor) -> Tensor:
    """Return -p log p - (1 - p) log(1 - p), summed over the last dimension, from l and p = sigmoid(l)."""
    return (F.softplus(logit) - p * logit).sum(-1)


def split(actions: Tensor, log_std: Tensor) -> tuple[Tensor, Tensor]:
    """Return the columns of Gaussians and those of Bernoullis."""
    continuous = log_std.shape[-1]
    return actions[..., :continuous], actions[..., continuous:]


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
