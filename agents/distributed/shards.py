"""Shards: the matches of one process, with random numbers that do not depend on the number of processes.

Every process draws the random numbers of all matches from the same generator and keeps those of its own rows. So each
match, and the state of the generator, are the same as in a run of one process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Shard:
    """Matches `first` to `first + count` (exclusive) of `total`."""

    first: int
    count: int
    total: int

    @property
    def whole(self) -> bool:
        """True if the shard is all matches."""
        return self.count == self.total

    @property
    def rows(self) -> slice:
        """Slice of these matches in an array with one row per match."""
        return slice(self.first, self.first + self.count)


@dataclass(frozen=True)
class ShardedGenerator:
    """Generator that draws for all rows `shape` and returns those at `index` (into the flattened rows).

    It replaces a `torch.Generator` in `draw`.
    """

    generator: torch.Generator
    shape: tuple[int, ...]
    index: Tensor

    @classmethod
    def of(cls, shard: Shard, generator: torch.Generator) -> ShardedGenerator | torch.Generator:
        """Make a generator for the matches of `shard`, one row each; if these are all matches, return `generator`."""
        if shard.whole:
            return generator
        index = torch.arange(shard.first, shard.first + shard.count, device=generator.device)
        return cls(generator, (shard.total,), index)


def draw(
    kind: Callable[..., Tensor],
    shape: torch.Size,
    generator: torch.Generator | ShardedGenerator | None,
    device: torch.device,
) -> Tensor:
    """Draw `kind` (`torch.randn` or `torch.rand`) of that `shape`; a `ShardedGenerator` returns its rows only."""
    if not isinstance(generator, ShardedGenerator):
        return kind(shape, generator=generator, device=device)
    rows, index = len(generator.shape), generator.index
    width = shape[index.dim() :]
    joint = kind((*generator.shape, *width), generator=generator.generator, device=device)
    return joint.flatten(0, rows - 1).index_select(0, index.flatten()).view(shape)
