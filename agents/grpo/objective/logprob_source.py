"""Log-probabilities tagged with their source, so that one kind cannot be used in place of another.

Using the policy that played as the "reference" is an error without symptoms: the KL is near zero, the loss falls, and
nothing constrains the policy. So functions that take log-probabilities check the source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from torch import Tensor


class Source(Enum):
    """Origin of log-probabilities."""

    POLICY = "policy"
    """The weights in training, with a gradient."""
    TRAINER = "trainer"
    """The same code as `POLICY`, before the update, without a gradient."""
    SAMPLER = "sampler"
    """Recorded with the decisions by the sampler that drew them."""
    REFERENCE = "reference"
    """The reference policy, by the same code as `POLICY`."""


class ProvenanceError(ValueError):
    """Log-probabilities from the wrong source or of the wrong weights."""


@dataclass(frozen=True)
class LogProbs:
    """Log-probabilities `values` of any shape, computed by `source` under the weights named `weights` ("policy@17")."""

    values: Tensor
    source: Source
    weights: str

    def demand(self, *sources: Source, weights: str | None = None) -> Tensor:
        """Return the values; raise `ProvenanceError` unless they match `sources` and, if given, `weights`."""
        if self.source not in sources:
            wanted = " or ".join(source.value for source in sources)
            raise ProvenanceError(
                f"log-probabilities of the {self.source.value} ({self.weights}): needs the {wanted}'s"
            )
        if weights is not None and self.weights != weights:
            raise ProvenanceError(f"log-probabilities of the weights {self.weights!r}: needs those of {weights!r}")
        return self.values

    def map(self, change: Callable[[Tensor], Tensor]) -> LogProbs:
        """Return a copy with `change` applied to the values."""
        return LogProbs(change(self.values), self.source, self.weights)
