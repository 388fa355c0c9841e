"""Metrics of a policy update, from the terms of its loss.

Means are over decision tokens. Forced tokens have entropy 0 and KL 0. With them in the mean, a completion with few
decisions looks like a confident policy, so the means over all tokens have separate keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sparring.agents.grpo.objective.loss import Terms
from sparring.agents.grpo.objective.tokens import Totals


@torch.no_grad()
def loss_metrics(parts: Sequence[Terms], totals: Totals) -> dict[str, float]:
    """Compute metrics of the batch that `totals` describes from the terms of all its micro-batches.

    `ppo/ratio_...`, `ppo/clip_fraction`, `policy/entropy_...` and `kl/...` are absent for a batch without decisions,
    which `processing/empty_batches` counts. With gspo a sample's ratio counts once per token.
    """
    counted = {"processing/empty_batches": float(totals.empty)}
    if totals.empty:
        return counted
    ratio, cut, entropy, kl = (
        torch.cat([getattr(part, name) for part in parts]) for name in ("ratio", "cut", "entropy", "kl")
    )
    measured = {
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
    return counted | dict(zip(measured, torch.stack(list(measured.values())).tolist(), strict=True))
