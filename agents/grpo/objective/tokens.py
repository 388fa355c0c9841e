"""The decision tokens of a batch as the loss sees them, and the totals that make parts of it add up to the whole.

A decision token is one at which more than one id was allowed, and which no correction has left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from sparring.agents.grpo.objective.logprob_source import LogProbs


@dataclass(frozen=True)
class Tokens:
    """N decision tokens of S samples, each of which is here with all of its tokens.

    Attributes:
        logp: log pi of the chosen ids, [N], by the policy, with a gradient; float32 or longer.
        old: the same before the update, [N]: by the trainer, or by a sampler that computes exactly as it does.
        sample: int64 [N], which of the S samples a token belongs to.
        advantage: [S].
        entropy: [N], in nats, with a gradient if `entropy_coef` > 0.
        kl: [N], to the reference, with a gradient if beta > 0 (`kl_to_reference`).
        weight: [N], from `importance.correction`, for a sampler that is not the trainer; None where it is.

    """

    logp: LogProbs
    old: LogProbs
    sample: Tensor
    advantage: Tensor
    entropy: Tensor
    kl: Tensor
    weight: Tensor | None = None

    def select(self, kept: Tensor) -> Tokens:
        """Those tokens alone where `kept` bool [N] is true; the others leave sums and counts."""
        weight = None if self.weight is None else self.weight[kept]
        logp, old = (logprobs.map(lambda values: values[kept]) for logprobs in (self.logp, self.old))
        parts = {"sample": self.sample[kept], "entropy": self.entropy[kept], "kl": self.kl[kept]}
        return replace(self, logp=logp, old=old, weight=weight, **parts)


@dataclass(frozen=True)
class Totals:
    """Of the whole batch: `samples` with a decision in them, their `tokens` that decided, and `all_tokens`.

    `length` is the constant of dr_grpo, the same throughout a run: about the decisions that a long completion has.
    """

    samples: int
    tokens: int
    all_tokens: int
    length: int

    @classmethod
    def of(cls, decision_tokens: Tensor, all_tokens: Tensor, *, length: int) -> Totals:
        """Add up tokens per sample, int64 [B] each; from a sample without a decision there is nothing to learn."""
        decisive = decision_tokens > 0
        return cls(int(decisive.sum()), int(decision_tokens.sum()), int(all_tokens[decisive].sum()), length)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to learn from: then there must be no step of the optimizer, either."""
        return self.tokens == 0
