"""Decision tokens of a micro-batch, the input of the loss, and the totals that make micro-batch losses add up.

A decision token is one with more than one allowed id that no importance mask has left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from sparring.agents.grpo.objective.logprob_source import LogProbs


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
