"""Consecutive decisions of several lanes, from which a network with memory is trained.

A lane is one seat of one match. A network without memory needs only the rows; one with memory reads the decisions of
a lane in order, from the memory that it had before the first of them. Gradients end there: this is truncated
backpropagation through time, without a warm-up of decisions that are only read.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Sequences(NamedTuple):
    """C consecutive decisions of B lanes. Decisions that do not count, such as padding at the end, are finite too."""

    obs: Tensor
    """Rows [C, B, D] that the network observed."""
    memory: Tensor
    """[B, M] before the first decision."""
    fresh: Tensor
    """bool [C, B]: an episode begins with this decision, its memory is zeros."""
    rows: Tensor
    """int64 [n], rows of the flattened [C * B] that count."""

    def counted(self) -> Tensor:
        """Return the observations [n, D] that count."""
        return self.obs.flatten(0, 1).index_select(0, self.rows)
