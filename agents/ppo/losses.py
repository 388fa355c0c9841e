"""The losses of PPO (Schulman et al. 2017, arXiv:1707.06347), with gradients in closed form.

    L = E[ -min(r A, clip(r) A) ] + c_v L_V - c_e H,      r = pi(a | s) / pi_old(a | s),   clip(r) in [1 - e, 1 + e]
    d L / d log pi = -r A / N where r A <= clip(r) A, else 0
    L_V = E[ max((V - R)^2, (V_old + clip(V - V_old) - R)^2) ],   without its clip E[(V - R)^2]

Small minibatches are bound by the number of operations; this takes less than half of what autograd takes. B is the
number of samples here, N that of the whole minibatch, of which other processes may hold the rest: the parts add up.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sparring.agents.ppo.rollout import Minibatch, Samples
from sparring.configs.schema import PPOConfig


class Surrogate(torch.autograd.Function):
    """The clipped policy loss and, without gradient, KL, clipped fraction and largest ratio."""

    @staticmethod
    def forward(
        ctx: Any, log_prob: Tensor, old: Tensor, advantage: Tensor, clip: float, clamp: float, size: int
    ) -> tuple[Tensor, ...]:
        """Compute all four, and keep d L / d log pi [B]."""
        change = log_prob - old
        # In nats; the clamp keeps exp finite (float32 overflows at 88) when one action has become very likely.
        log_ratio = change.clamp(-clamp, clamp)
        ratio = log_ratio.exp()
        near = ratio.clamp(1.0 - clip, 1.0 + clip)
        gain, bounded = ratio * advantage, near * advantage
        ctx.save_for_backward(gain * ((gain <= bounded) & (change == log_ratio)))
        ctx.size = size
        loss = torch.minimum(gain, bounded).sum() / -size
        kl = (ratio - 1.0 - log_ratio).sum() / size  # E[(r - 1) - log r], never negative
        clip_fraction = (ratio != near).sum() / size
        largest = ratio.max() if len(ratio) else ratio.new_zeros(())
        ctx.mark_non_differentiable(kl, clip_fraction, largest)
        return loss, kl, clip_fraction, largest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_loss: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of log_prob [B]."""
        (slope,) = ctx.saved_tensors
        return slope * (by_loss / -ctx.size), None, None, None, None, None


class ValueLoss(torch.autograd.Function):
    """Mean squared error; with `clip` > 0 the larger of it and that of V within `clip` of its old value."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, old: Tensor, returns: Tensor, clip: float, size: int) -> Tensor:
        """Compute the loss, and keep half of the derivative of each sample's error."""
        error = value - returns
        square = error.square()
        if clip > 0:  # the larger error: a step beyond the clip does not lower the loss
            change = value - old
            moved = change.clamp(-clip, clip)
            other = old + moved - returns
            other_square = other.square()
            error = torch.where(other_square > square, other * (change == moved), error)
            square = torch.maximum(square, other_square)
        ctx.save_for_backward(error)
        ctx.size = size
        return square.sum() / size

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_loss: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient of V [B]."""
        (error,) = ctx.saved_tensors
        return error * (2.0 / ctx.size * by_loss), None, None, None, None


def surrogate(
    log_prob: Tensor, batch: Samples | Minibatch, config: PPOConfig, size: int = 0
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Return the clipped policy loss of a minibatch and, without gradient, (KL, clipped fraction, largest ratio).

    The advantages must have mean 0 and standard deviation 1. `size` is N, by default B.
    """
    options = (config.clip, config.log_ratio_clamp, size or len(log_prob))
    loss, *measured = Surrogate.apply(log_prob, batch.log_prob, batch.advantage, *options)  # type: ignore[no-untyped-call]
    kl, clip_fraction, largest = measured
    return loss, (kl, clip_fraction, largest)


def value_loss(value: Tensor, old: Tensor, returns: Tensor, clip: float, size: int = 0) -> Tensor:
    """Return the loss of values [B] with returns [B]; `clip` > 0 holds them near the old ones. `size` is N, or B."""
    loss: Tensor = ValueLoss.apply(value, old, returns, clip, size or len(value))  # type: ignore[no-untyped-call]
    return loss


def explained_variance(value: Tensor, returns: Tensor) -> Tensor:
    """Compute 1 - Var(R - V) / Var(R): 1 for a perfect critic, 0 for a constant one; 0 if R does not vary."""
    variance = returns.var(correction=0)
    unexplained = (returns - value).var(correction=0) / variance
    return torch.where(variance > 0, 1.0 - unexplained, torch.zeros_like(variance))
