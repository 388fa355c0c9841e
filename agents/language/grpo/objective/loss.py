"""The objective of GRPO (arXiv:2402.03300) and its relatives, over the decision tokens of a batch.

    r_t = pi(y_t) / pi_old(y_t)              loss_type grpo: a ratio for every token
    s_i = (prod_t r_t)^(1 / T_i)             loss_type gspo (arXiv:2507.18071): one for sample i, in place of its r_t
    l_t = -w_t min(r_t A_i, clip(r_t, 1 - e_low, 1 + e_high) A_i) + beta KL_t - c H_t
    L   = sum_t c_i l_t   with c_i = 1 / (B T_i)      aggregation grpo: a mean within each sample, then over samples
                                     1 / sum_j T_j                dapo (arXiv:2503.14476): a mean over all tokens
                                     1 / (B length)               dr_grpo (arXiv:2503.20783): a sum over a constant

With `ppo_delta` d the first r_t A_i is min(r_t, d) A_i (two-sided clipping, arXiv:2505.07291). Without it, the loss of
a token with A_i < 0 grows with its ratio without bound. The bound d is above 1 + e_high and does not affect A_i > 0.

B, the sum of T and the constant cover the whole batch (`Totals`). So the losses and gradients of its micro-batches add
up to the batch's, for any split between samples. T_i counts decision tokens only: a forced token has ratio 1 and
gradient 0, and would only dilute the others.

w_t is an importance weight for a sampler that differs from the trainer: another server, other arithmetic, or older
weights.

    w_t = pi_trainer(y_t) / pi_sampler(y_t)      both before the update, so a constant without a gradient

It is separate from the ratio r = pi / pi_trainer: clipping bounds this update, w corrects the sampling distribution.
Outside [1 / importance_cap, importance_cap] w is truncated (Yao et al. 2025,
https://fengyao.notion.site/off-policy-rl), or with `importance_mask` the token is left out of sums and counts
(IcePop, arXiv:2510.18855, leaves it out of the sums alone). With `loss_type` gspo a sample has one w, the
geometric mean over its tokens.

A decision token is one with more than one allowed id that no importance mask has left out. Tokens per sample and
allowed ids per token vary in number; sums over them need no padding: `part` int64 [N] is the part, of `parts`, that
each of N values belongs to, in any order.

Using the policy that played as the "reference" is an error without symptoms: the KL is near zero, the loss falls, and
nothing constrains the policy. So functions that take log-probabilities check their source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import torch
from torch import Tensor

from sparring.configs.language import GRPOConfig


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
            raise ProvenanceError(f"log-probabilities of the weights {self.weights!r}: must be of {weights!r}")
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

    def select(self, keep: Tensor) -> Tokens:
        """Return the tokens where `keep` bool [N] is true; the others leave sums and counts."""
        weight = None if self.weight is None else self.weight[keep]
        logp, old = (logprobs.map(lambda values: values[keep]) for logprobs in (self.logp, self.old))
        parts = {"sample": self.sample[keep], "entropy": self.entropy[keep], "kl": self.kl[keep]}
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


NAMES = ("ratio_mean", "ratio_max", "masked_fraction", "logp_gap_mean", "logp_gap_max")
NO_METRICS = dict.fromkeys((f"ppo/is_{name}" for name in NAMES), float("nan"))
"""Metrics of a step without tokens."""


class DisagreementError(RuntimeError):
    """Trainer and sampler give the same token clearly different probabilities under the same weights."""


@dataclass(frozen=True)
class Correction:
    """Importance weights of N tokens.

    Attributes:
        weight: [N], without a gradient.
        kept: bool [N]; False for tokens to be left out.
        metrics: `ppo/is_...`: mean and largest of w before truncation and of |log w_t| (`logp_gap`), share left out.

    """

    weight: Tensor
    kept: Tensor
    metrics: dict[str, float]


@torch.no_grad()
def correction(trainer: LogProbs, sampler: LogProbs, sample: Tensor, samples: int, config: GRPOConfig) -> Correction:
    """Compute importance weights of N tokens from the trainer, before the update, and the sampler.

    `sample` int64 [N] is the sample of each token, one of `samples`.
    """
    gap = trainer.demand(Source.TRAINER) - sampler.demand(Source.SAMPLER)  # log w_t
    log_weight = mean_per_part(gap, sample, samples)[sample] if config.loss_type == "gspo" else gap
    raw = log_weight.exp()
    low, high = 1.0 / config.importance_cap, config.importance_cap
    masked = ((raw < low) | (raw > high)) & config.importance_mask  # NaN stays, so that the step is skipped
    weight = raw if config.importance_mask else raw.clamp(low, high)
    return Correction(weight, ~masked, _metrics(raw, gap, masked))


def check_agreement(trainer: LogProbs, sampler: LogProbs, *, at_most: float) -> None:
    """Raise `DisagreementError` if log-probabilities under the same weights differ by more than `at_most` nats.

    A mask, temperature or token that differs between the two is found here long before the loss diverges.
    """
    gap = (trainer.demand(Source.TRAINER) - sampler.demand(Source.SAMPLER)).abs()
    if len(gap) and not bool((gap <= at_most).all()):
        worst = int(gap.argmax())  # NaN counts as the largest
        raise DisagreementError(
            f"token {worst} has log-probability {trainer.values[worst].item():.6g} in the trainer and "
            f"{sampler.values[worst].item():.6g} in the sampler: at most {at_most:g} apart with the same weights"
        )


def _metrics(raw: Tensor, gap: Tensor, masked: Tensor) -> dict[str, float]:
    if not len(raw):
        return NO_METRICS
    return {
        "ppo/is_ratio_mean": float(raw.mean()),
        "ppo/is_ratio_max": float(raw.max()),
        "ppo/is_masked_fraction": int(masked.sum()) / len(masked),
        "ppo/is_logp_gap_mean": float(gap.abs().mean()),
        "ppo/is_logp_gap_max": float(gap.abs().max()),
    }


@dataclass(frozen=True)
class Terms:
    """Loss of a micro-batch and its terms [N] without gradient.

    `policy` and `penalty` are the sums of -w A log pi and of beta KL. The first has the surrogate's gradient at ratio
    1, where the surrogate itself is the mean advantage, 0 in every group, and says nothing.
    `ratio` is r_t or s_i; `cut` is true where clipping left no gradient.
    """

    loss: Tensor
    ratio: Tensor
    cut: Tensor
    entropy: Tensor
    kl: Tensor
    policy: Tensor
    penalty: Tensor


def policy_loss(tokens: Tokens, totals: Totals, config: GRPOConfig, *, beta: float) -> Terms:
    """Compute L of a micro-batch of the batch that `totals` describes; without tokens it is 0.

    Raises `ProvenanceError` for log-probabilities of the wrong source, `ValueError` below float32.
    """
    logp, old = _checked(tokens)
    sample, samples = tokens.sample, len(tokens.advantage)
    log_ratio = logp - old  # log r_t
    if config.loss_type == "gspo":
        log_ratio = mean_per_part(log_ratio, sample, samples)[sample]  # log s_i = 1 / T_i sum_t log r_t
    ratio = log_ratio.exp()
    advantage = tokens.advantage[sample]  # A_i, at each token of sample i
    token_loss = -_surrogate(ratio, advantage, config)
    if tokens.weight is not None:
        token_loss = tokens.weight.detach() * token_loss  # w_t
    drawn = -advantage * logp.detach() * (1.0 if tokens.weight is None else tokens.weight)
    if beta:
        token_loss = token_loss + beta * tokens.kl  # + beta KL_t
    if config.entropy_coef:
        token_loss = token_loss - config.entropy_coef * tokens.entropy  # - c H_t
    scale = _scale(count_per_part(sample, samples).to(logp.dtype), totals, config)
    loss = (scale[sample] * token_loss).sum()  # sum_t c_i l_t
    policy, penalty = ((scale[sample] * part).sum() for part in (drawn, beta * tokens.kl.detach()))
    cut = _cut(ratio, advantage, config)
    return Terms(loss, ratio.detach(), cut, tokens.entropy.detach(), tokens.kl.detach(), policy, penalty)


@torch.no_grad()
def loss_metrics(parts: Sequence[Terms], totals: Totals) -> dict[str, float]:
    """Compute metrics of the batch that `totals` describes from the terms of all its micro-batches.

    `ppo/ratio_...`, `ppo/clip_fraction`, `policy/entropy_...` and `kl/...` are absent for a batch without decisions,
    which `processing/empty_batches` counts. With gspo a sample's ratio counts once per token. Means are over decision
    tokens; forced tokens have entropy 0 and KL 0, and the means that include them have separate keys.
    """
    counted = {"processing/empty_batches": float(totals.empty)}
    if totals.empty:
        return counted
    ratio, cut, entropy, kl = (
        torch.cat([getattr(part, name) for part in parts]) for name in ("ratio", "cut", "entropy", "kl")
    )
    # correction=0: the deviation of a single token is then 0, not NaN.
    policy, penalty = (torch.stack([getattr(part, name) for part in parts]).sum() for name in ("policy", "penalty"))
    measured = {
        "loss/policy": policy,
        "loss/kl": penalty,
        "loss/kl_share": penalty.abs() / (policy.abs() + penalty.abs() + 1e-8),
        "ppo/ratio_mean": ratio.mean(),
        "ppo/ratio_std": ratio.std(correction=0),
        "ppo/clip_fraction": cut.to(ratio.dtype).mean(),
        "policy/entropy_mean": entropy.mean(),
        "policy/entropy_mean_all_tokens": entropy.sum() / totals.all_tokens,
        "kl/mean": kl.mean(),
        "kl/mean_all_tokens": kl.sum() / totals.all_tokens,
        "kl/max": kl.max(),
        "kl/min": kl.min(),
        "kl/std": kl.std(correction=0),
    }
    # Stacked, so that the device is waited for once.
    return counted | dict(zip(measured, torch.stack(list(measured.values())).tolist(), strict=True))


def _checked(tokens: Tokens) -> tuple[Tensor, Tensor]:
    """Return the current and the old log-probabilities, after checks of source and dtype."""
    if tokens.weight is not None and tokens.old.source is Source.SAMPLER:
        raise ProvenanceError("the sampler's old log-probabilities with importance weights would correct twice")
    logp, old = tokens.logp.demand(Source.POLICY), tokens.old.demand(Source.TRAINER, Source.SAMPLER)
    if torch.finfo(logp.dtype).bits < 32:
        raise ValueError(f"log-probabilities in {logp.dtype}: ratios need float32, so score with a float32 softmax")
    return logp, old.detach()


def _surrogate(ratio: Tensor, advantage: Tensor, config: GRPOConfig) -> Tensor:
    if not config.use_ppo_clipping:
        return ratio * advantage
    clipped = ratio.clamp(1.0 - config.ppo_epsilon_low, 1.0 + config.ppo_epsilon_high)
    bounded = ratio.clamp(max=config.ppo_delta) if config.ppo_delta else ratio
    return torch.minimum(bounded * advantage, clipped * advantage)  # min(min(r, d) A, clip(r) A)


def _scale(count: Tensor, totals: Totals, config: GRPOConfig) -> Tensor:
    """Return c_i of samples with `count` [S] decision tokens T_i; grpo with `use_token_level_loss` equals dapo."""
    if config.aggregation == "dr_grpo":
        return torch.full_like(count, 1.0 / max(totals.samples * totals.length, 1))  # 1 / (B length)
    if config.aggregation == "dapo" or config.use_token_level_loss:
        return torch.full_like(count, 1.0 / max(totals.tokens, 1))  # 1 / sum_j T_j
    return 1.0 / (totals.samples * count).clamp(min=1)  # 1 / (B T_i)


@torch.no_grad()
def _cut(ratio: Tensor, advantage: Tensor, config: GRPOConfig) -> Tensor:
    """Mask where clipping left no gradient: ratio too high with A > 0, too low, or above the bound d, with A < 0."""
    beyond = (ratio > config.ppo_delta) if config.ppo_delta else torch.zeros_like(ratio, dtype=torch.bool)
    low = ((ratio < 1.0 - config.ppo_epsilon_low) | beyond) & (advantage < 0)
    high = (ratio > 1.0 + config.ppo_epsilon_high) & (advantage > 0)
    return (low | high) & config.use_ppo_clipping
