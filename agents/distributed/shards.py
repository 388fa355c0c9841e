"""Which of a run's matches one process plays, and chance that does not depend on how many processes share them.

Every process draws the random numbers of all matches from the same generator and keeps those of its own rows. So the
course of a match, and the state of the generator, are those of one process that plays them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Shard:
    """Matches `first` to `first + count`, not included, of `total`."""

    first: int
    count: int
    total: int

    @property
    def whole(self) -> bool:
        """Whether one process plays all of them."""
        return self.count == self.total

    @property
    def rows(self) -> slice:
        """Where these matches lie in something that has a row per match."""
        return slice(self.first, self.first + self.count)


@dataclass(frozen=True)
class ShardedGenerator:
    """What `generator` draws for all rows `shape`, of which those at `index` (into the flattened rows) are handed out.

    It takes the place of a `torch.Generator` in `draw`.
    """

    generator: torch.Generator
    shape: tuple[int, ...]
    index: Tensor

    @classmethod
    def of(cls, share: Shard, generator: torch.Generator) -> ShardedGenerator | torch.Generator:
        """Noise for the matches of `share`, one row each; the generator itself where that is all of them."""
        if share.whole:
            return generator
        index = torch.arange(share.first, share.first + share.count, device=generator.device)
        return cls(generator, (share.total,), index)


def draw(
    kind: Callable[..., Tensor],
    shape: torch.Size,
    generator: torch.Generator | ShardedGenerator | None,
    device: torch.device,
) -> Tensor:
    """Draw `kind` (`torch.randn` or `torch.rand`) of that `shape`; a `ShardedGenerator` gives its rows of all rows."""
    if not isinstance(generator, ShardedGenerator):
        return kind(shape, generator=generator, device=device)
    rows, index = len(generator.shape), generator.index
    width = shape[index.dim() :]
    joint = kind((*generator.shape, *width), generator=generator.generator, device=device)
    return joint.flatten(0, rows - 1).index_select(0, index.flatten()).view(shape)
