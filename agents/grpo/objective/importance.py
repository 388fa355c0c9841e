"""Importance weights for a sampler that differs from the trainer: another server, other arithmetic, or older weights.

    w_t = pi_trainer(y_t) / pi_sampler(y_t)      both before the update, so a constant without a gradient

It is separate from the ratio of the loss, r = pi / pi_trainer: clipping bounds this update, w corrects the sampling
distribution. Outside [1 / importance_cap, importance_cap] w is truncated (Yao et al. 2025,
https://fengyao.notion.site/off-policy-rl), or with `importance_mask` the token is left out of sums and counts
(IcePop, arXiv:2510.18855, leaves it out of the sums alone). With `loss_type` gspo a sample has one w, the
geometric mean over its tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sparring.agents.grpo.objective.logprob_source import LogProbs, Source
from sparring.agents.grpo.objective.segment_ops import mean_per_part
from sparring.configs.language import GRPOConfig

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
