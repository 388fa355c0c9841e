"""Whose log-probabilities these are, carried along with the numbers so that no kind can be mistaken for another.

A "reference" that was really the policy which had played is a mistake that leaves no trace: the KL is near zero, the
loss falls, and nothing holds the policy back. So whatever takes log-probabilities says which ones it wants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from torch import Tensor


class Source(Enum):
    """Who computed log-probabilities."""

    POLICY = "policy"
    """The weights in training, with a gradient."""
    TRAINER = "trainer"
    """The same code as `POLICY`, before the update, without a gradient."""
    SAMPLER = "sampler"
    """What came with the decisions, from whatever drew them."""
    REFERENCE = "reference"
    """The reference policy, by the same code as `POLICY`."""


class ProvenanceError(ValueError):
    """Log-probabilities of another kind, or of other weights, than are needed here."""


@dataclass(frozen=True)
class LogProbs:
    """Log-probabilities `values`, of any shape, by `source` under the weights called `weights` ("policy@17")."""

    values: Tensor
    source: Source
    weights: str

    def demand(self, *sources: Source, weights: str | None = None) -> Tensor:
        """Return the values if they are of one of `sources` and, where given, `weights`; else `ProvenanceError`."""
        if self.source not in sources:
            wanted = " or ".join(source.value for source in sources)
            raise ProvenanceError(
                f"log-probabilities of the {self.source.value} ({self.weights}): needs the {wanted}'s"
            )
        if weights is not None and self.weights != weights:
            raise ProvenanceError(f"log-probabilities of the weights {self.weights!r}: needs those of {weights!r}")
        return self.values

    def map(self, change: Callable[[Tensor], Tensor]) -> LogProbs:
        """The same with other values, such as a part of them."""
        return LogProbs(change(self.values), self.source, self.weights)
