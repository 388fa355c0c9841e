"""Samples, their minibatches, and the losses of PPO (Schulman et al. 2017, arXiv:1707.06347).

    L = E[ -min(r A, clip(r) A) ] + c_v L_V - c_e H,      r = pi(a | s) / pi_old(a | s),   clip(r) in [1 - e, 1 + e]
    d L / d log pi = -r A / N where r A <= clip(r) A, else 0
    L_V = E[ max((V - R)^2, (V_old + clip(V - V_old) - R)^2) ],   without its clip E[(V - R)^2]

Gradients are in closed form: the time of small minibatches depends on the number of operations, and this takes less
than half of autograd's. B is the number of samples here, N of the whole minibatch. Other processes may hold the rest;
the parts add up.

The order of an epoch covers the samples of all processes and is drawn identically in each. A process gets the samples
of a minibatch that it holds. Advantages are normalized over the whole minibatch, and `Minibatch.mean` divides by its
whole size. So gradients and statistics of the processes add up to the values of a single process with all samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sparring.agents.distributed.processes import Processes
from sparring.agents.policies.memory import Sequences
from sparring.configs.schema import PPOConfig

LOG_RATIO_CLAMP = 20.0
"""Bound on |log pi - log pi_old|, in nats."""


class Samples(NamedTuple):
    """Training samples of one update; the first dimension of every tensor is the sample index."""

    obs: Tensor
    actions: Tensor
    log_prob: Tensor
    value: Tensor
    advantage: Tensor
    returns: Tensor

    def minibatches(
        self, config: PPOConfig, generator: torch.Generator, joint: Joint | None = None
    ) -> Iterator[Minibatch]:
        """Yield the minibatches of `epochs` passes, each in a new order, in equal parts of at most `minibatch_size`.

        With `joint`, the parts cover all processes' samples; these are this process's.
        """
        for order, chunks in orders(len((joint or self).advantage), config, generator):
            for index, rows in zip(chunks, joint.mine(order, chunks) if joint else chunks, strict=True):
                yield gathered(self, rows, joint.advantage.index_select(0, index) if joint else None)


ADVANTAGE_EPSILON = 1e-5
"""Added to the standard deviation: advantages that differ only by rounding are not scaled up to size 1."""


class Minibatch(NamedTuple):
    """`Samples` of this process, with advantages normalized over all `size` samples of all processes."""

    obs: Tensor | Sequences
    actions: Tensor
    log_prob: Tensor
    value: Tensor
    advantage: Tensor
    returns: Tensor
    size: int

    def mean(self, x: Tensor) -> Tensor:
        """Return this process's part of the mean of x over the minibatch; the mean itself in a single process."""
        return x.mean() if len(x) == self.size else x.sum() / self.size

    def pieces(self, rows: int) -> Iterator[Minibatch]:
        """Yield the minibatch in pieces of at most `rows` samples, whose gradients and means add up to its own."""
        if len(self.actions) <= rows:
            yield self
            return
        columns: Any = self[:-1]
        for first in range(0, len(self.actions), rows):
            yield Minibatch(*Samples(*(tensor[first : first + rows] for tensor in columns)), self.size)


class Joint(NamedTuple):
    """Tensors [R] over the samples of all processes, in the order of their keys; processes may hold unequal numbers."""

    row: Tensor
    """Row of each among the samples of this process, int64; -1 for samples of other processes."""
    advantage: Tensor
    value: Tensor
    returns: Tensor

    @classmethod
    def gather(cls, samples: Sequence[Tensor], key: Tensor, processes: Processes) -> Joint:
        """Gather advantages, values and returns of every process, with their keys, int64 and all different."""
        counts = processes.gather(torch.tensor([len(key)], device=key.device)).tolist()
        before, count_here = sum(counts[: processes.rank]), len(key)

        def everyone(rows: Tensor) -> Tensor:
            padded = rows.new_zeros(len(rows), max(counts))
            padded[:, :count_here] = rows
            parts = processes.gather(padded, dim=1).split(max(counts), dim=1)
            return torch.cat([part[:, :count] for part, count in zip(parts, counts, strict=True)], dim=1)

        order = everyone(key.unsqueeze(0))[0].argsort()
        row = torch.full_like(order, -1)
        row[before : before + count_here] = torch.arange(count_here, device=row.device)
        joint = everyone(torch.stack([*samples]))
        return cls(row[order], *joint[:, order])

    def mine(self, order: Tensor, chunks: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Return the rows of every chunk of the order that this process holds."""
        rows = self.row[order]
        counts = torch.stack([(chunk >= 0).sum() for chunk in rows.tensor_split(len(chunks))])
        return rows[rows >= 0].split(counts.tolist())


def orders(total: int, config: PPOConfig, generator: torch.Generator) -> Iterator[tuple[Tensor, tuple[Tensor, ...]]]:
    """Yield a new order of `total` samples for each epoch, and its equal parts of at most `minibatch_size`."""
    for _ in range(config.epochs):
        order = torch.randperm(total, generator=generator, device=generator.device)
        yield order, order.tensor_split(parts(total, config))


def gathered(samples: Samples, rows: Tensor, everyone: Tensor | None = None) -> Minibatch:
    """Return the minibatch of the samples in `rows`; `everyone` are the advantages of all processes' part of it."""
    chosen = Samples(*(tensor.index_select(0, rows) for tensor in samples))
    size = len(rows) if everyone is None else len(everyone)
    return Minibatch(*chosen._replace(advantage=normalize(chosen.advantage, everyone)), size)


def normalize(advantage: Tensor, everyone: Tensor | None = None) -> Tensor:
    """Normalize advantages by the mean and standard deviation of `everyone`, by default of themselves."""
    std, mean = torch.std_mean(advantage if everyone is None else everyone, correction=0)
    return (advantage - mean) / (std + ADVANTAGE_EPSILON)


def parts(total: int, config: PPOConfig) -> int:
    """Return the number of minibatches in an epoch over `total` samples."""
    return -(-total // config.minibatch_size)


class Surrogate(torch.autograd.Function):
    """`Surrogate.apply(log_prob, old, advantage, clip, N)`: the clipped policy loss of a minibatch.

    With it, without gradient, KL, clipped fraction and largest ratio. Advantages must have mean 0 and deviation 1.
    """

    @staticmethod
    def forward(
        ctx: Any, log_prob: Tensor, old: Tensor, advantage: Tensor, clip: float, size: int
    ) -> tuple[Tensor, ...]:
        """Compute all four, and keep d L / d log pi [B]."""
        change = log_prob - old
        # In nats; the clamp keeps exp finite (float32 overflows at 88) when one action has become very likely.
        log_ratio = change.clamp(-LOG_RATIO_CLAMP, LOG_RATIO_CLAMP)
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
        return slope * (by_loss / -ctx.size), None, None, None, None


class ValueLoss(torch.autograd.Function):
    """`ValueLoss.apply(value, old, returns, clip, N)`: the mean squared error of a minibatch.

    With `clip` > 0, each sample's larger error: V's own, or V's clipped to within `clip` of its old value.
    """

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


def explained_variance(value: Tensor, returns: Tensor) -> Tensor:
    """Compute 1 - Var(R - V) / Var(R): 1 for a perfect critic, 0 for a constant one; 0 if R does not vary."""
    variance = returns.var(correction=0)
    unexplained = (returns - value).var(correction=0) / variance
    return torch.where(variance > 0, 1.0 - unexplained, torch.zeros_like(variance))
