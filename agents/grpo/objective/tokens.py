"""Decision tokens of a micro-batch, the input of the loss, with log-probabilities that know their source.

A decision token is one with more than one allowed id that no importance mask has left out. Tokens per sample and
allowed ids per token vary in number; sums over them need no padding: `part` int64 [N] is the part, of `parts`, that
each of N values belongs to, in any order. `Totals` make the losses of micro-batches add up.

Using the policy that played as the "reference" is an error without symptoms: the KL is near zero, the loss falls, and
nothing constrains the policy. So functions that take log-probabilities check the source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

import torch
from torch import Tensor


def sum_per_part(values: Tensor, part: Tensor, parts: int) -> Tensor:
    """Sum `values` [N] within the parts: [parts], 0 for one without values."""
    return values.new_zeros(parts).index_add(0, part, values)


def count_per_part(part: Tensor, parts: int) -> Tensor:
    """Count the values in each part: int64 [parts]."""
    return torch.bincount(part, minlength=parts)


def mean_per_part(values: Tensor, part: Tensor, parts: int) -> Tensor:
    """Average `values` [N] within the parts: [parts], 0 for one without values."""
    return sum_per_part(values, part, parts) / count_per_part(part, parts).clamp(min=1)


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
            allowed = " or ".join(source.value for source in sources)
            raise ProvenanceError(
                f"log-probabilities of the {self.source.value} ({self.weights}): needs the {allowed}'s"
            )
        if weights is not None and self.weights != weights:
            raise ProvenanceError(f"log-probabilities of the weights {self.weights!r}: needs those of {weights!r}")
        return self.values

    def map(self, change: Callable[[Tensor], Tensor]) -> LogProbs:
        """Return a copy with `change` applied to the values."""
        return LogProbs(change(self.values), self.source, self.weights)


@dataclass(frozen=True)
class Tokens:
    """N decision tokens of S samples; every sample is present with all of its tokens.

    Attributes:
        logp: log pi of the chosen ids, [N], by the policy, with a gradient; float32 or longer.
        old: log pi before the update, [N]: by the trainer, or by a sampler that computes exactly as it does.
        sample: int64 [N], which of the S samples a token belongs to.
        advantage: [S].
        entropy: [N], in nats, with a gradient if `entropy_coef` > 0.
        kl: [N], to the reference, with a gradient if beta > 0 (`kl_to_reference`).
        weight: [N], from `importance.correction`, for a sampler that differs from the trainer; else None.

    """

    logp: LogProbs
    old: LogProbs
    sample: Tensor
    advantage: Tensor
    entropy: Tensor
    kl: Tensor
    weight: Tensor | None = None

    def select(self, kept: Tensor) -> Tokens:
        """Return the tokens where `kept` bool [N] is true; the others leave sums and counts."""
        weight = None if self.weight is None else self.weight[kept]
        logp, old = (logprobs.map(lambda values: values[kept]) for logprobs in (self.logp, self.old))
        parts = {"sample": self.sample[kept], "entropy": self.entropy[kept], "kl": self.kl[kept]}
        return replace(self, logp=logp, old=old, weight=weight, **parts)


@dataclass(frozen=True)
class Totals:
    """Counts over the whole batch: `samples` with a decision, their decision `tokens`, and `all_tokens`.

    `length` is the constant of dr_grpo, fixed during a run: about the decisions in a long completion.
    """

    samples: int
    tokens: int
    all_tokens: int
    length: int

    @classmethod
    def of(cls, decision_tokens: Tensor, all_tokens: Tensor, *, length: int) -> Totals:
        """Add up tokens per sample, int64 [B] each; samples without a decision are not counted."""
        decisive = decision_tokens > 0
        return cls(int(decisive.sum()), int(decision_tokens.sum()), int(all_tokens[decisive].sum()), length)

    @property
    def empty(self) -> bool:
        """True without decision tokens; then the optimizer must not step either."""
        return self.tokens == 0
