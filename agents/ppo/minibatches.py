"""Shuffled minibatches of an update's samples, in one process or in several that each hold a share of the matches.

The order of an epoch covers the samples of all processes and is drawn identically in each; a process gets the samples
of a minibatch that it holds. Advantages are normalized over the whole minibatch, and `Minibatch.mean` divides by its
whole size, so gradients and statistics of the processes add up to those of a single process with all samples.
T is the steps of a rollout, N all matches, n those of this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from sparring.agents.distributed.processes import Processes
from sparring.agents.distributed.shards import Shard
from sparring.agents.ppo.rollout import Samples
from sparring.configs.schema import PPOConfig

ADVANTAGE_EPSILON = 1e-5
"""Added to the standard deviation, so that advantages that differ only by rounding are not scaled up to size 1."""


class Minibatch(NamedTuple):
    """`Samples` of this process, with advantages normalized over all `size` samples of all processes."""

    obs: Tensor
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
        for first in range(0, max(1, len(self.obs)), rows):
            yield Minibatch(*Samples(*(tensor[first : first + rows] for tensor in self[:-1])), self.size)


class Joint(NamedTuple):
    """Tensors [T * N] over the samples of all processes, in the order of steps."""

    share: Shard
    advantage: Tensor
    value: Tensor
    returns: Tensor

    @classmethod
    def gather(cls, samples: Samples, share: Shard, processes: Processes) -> Joint:
        """Gather the T * n samples of every process."""
        mine = torch.stack([samples.advantage, samples.value, samples.returns])
        joint = processes.gather(mine.view(3, -1, share.count), dim=2)
        return cls(share, *joint.flatten(1))

    def mine(self, order: Tensor) -> tuple[Tensor, Tensor]:
        """Return a mask of the samples in `order` that this process holds, and their rows among its T * n."""
        share = self.share
        step, match = order // share.total, order % share.total - share.first
        held = (match >= 0) & (match < share.count)
        return held, (step * share.count + match)[held]


def minibatches(
    samples: Samples, config: PPOConfig, generator: torch.Generator, joint: Joint | None = None
) -> Iterator[Minibatch]:
    """Yield the minibatches of `epochs` passes, each in a new order, in equal parts of at most `minibatch_size`.

    With `joint`, the parts are of all processes' samples; `samples` are those of this process.
    """
    total, device = len((joint or samples).advantage), samples.advantage.device
    for _ in range(config.epochs):
        order = torch.randperm(total, generator=generator, device=device)
        chunks = order.tensor_split(parts(total, config))
        for index, rows in zip(chunks, chunks if joint is None else _own(joint, order, chunks), strict=True):
            chosen = Samples(*(tensor.index_select(0, rows) for tensor in samples))
            everyone = chosen.advantage if joint is None else joint.advantage.index_select(0, index)
            yield Minibatch(*chosen._replace(advantage=normalize(chosen.advantage, everyone)), len(index))


def normalize(advantage: Tensor, everyone: Tensor | None = None) -> Tensor:
    """Normalize advantages by the mean and standard deviation of `everyone`, by default of themselves."""
    std, mean = torch.std_mean(advantage if everyone is None else everyone, correction=0)
    return (advantage - mean) / (std + ADVANTAGE_EPSILON)


def parts(total: int, config: PPOConfig) -> int:
    """Return the number of minibatches in an epoch over `total` samples."""
    return -(-total // config.minibatch_size)


def _own(joint: Joint, order: Tensor, chunks: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the rows of every chunk of the order that this process holds."""
    held, rows = joint.mine(order)
    counts = torch.stack([chunk.sum() for chunk in held.tensor_split(len(chunks))])
    return rows.split(counts.tolist())
