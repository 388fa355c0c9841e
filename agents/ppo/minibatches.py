"""Shuffled minibatches of an update's samples, in one process or in several that each hold a share of the matches.

The order of an epoch runs over the samples of all processes and is drawn alike everywhere; of every minibatch a process
gets the samples it holds. Advantages are normalized over the whole minibatch, and `Minibatch.mean` divides by its whole
size, so that gradients and statistics of the processes add up to those of one process that holds everything.
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
"""Added to the standard deviation: advantages that differ by rounding alone must not be blown up to size 1."""


class Minibatch(NamedTuple):
    """`Samples` of this process, with advantages normalized over all processes' samples, `size` in all."""

    obs: Tensor
    actions: Tensor
    log_prob: Tensor
    value: Tensor
    advantage: Tensor
    returns: Tensor
    size: int

    def mean(self, x: Tensor) -> Tensor:
        """Of the mean of x over the minibatch the part of this process; the mean itself where it holds all of it."""
        return x.mean() if len(x) == self.size else x.sum() / self.size


class Joint(NamedTuple):
    """What is needed of all processes' samples, each [T * N], step by step."""

    share: Shard
    advantage: Tensor
    value: Tensor
    returns: Tensor

    @classmethod
    def gather(cls, samples: Samples, share: Shard, processes: Processes) -> Joint:
        """Bring together what every process has of its T * n."""
        mine = torch.stack([samples.advantage, samples.value, samples.returns])
        joint = processes.gather(mine.view(3, -1, share.count), dim=2)
        return cls(share, *joint.flatten(1))

    def mine(self, order: Tensor) -> tuple[Tensor, Tensor]:
        """Which of the samples `order` this process holds, as a mask, and their rows among its own T * n."""
        share = self.share
        step, match = order // share.total, order % share.total - share.first
        held = (match >= 0) & (match < share.count)
        return held, (step * share.count + match)[held]


def minibatches(
    samples: Samples, config: PPOConfig, generator: torch.Generator, joint: Joint | None = None
) -> Iterator[Minibatch]:
    """`epochs` passes over the samples, each in a new order, in equal parts of at most `minibatch_size`.

    With `joint`, parts of all processes' samples, of which `samples` are this one's.
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
    """Advantages at mean 0 and standard deviation 1, as measured over those of `everyone`, by default themselves."""
    std, mean = torch.std_mean(advantage if everyone is None else everyone, correction=0)
    return (advantage - mean) / (std + ADVANTAGE_EPSILON)


def parts(total: int, config: PPOConfig) -> int:
    """Minibatches of one epoch over `total` samples."""
    return -(-total // config.minibatch_size)


def _own(joint: Joint, order: Tensor, chunks: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The rows this process holds of every chunk of the order."""
    held, rows = joint.mine(order)
    counts = torch.stack([chunk.sum() for chunk in held.tensor_split(len(chunks))])
    return rows.split(counts.tolist())
