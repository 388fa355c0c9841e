"""What an update of the policy looked like, from the terms of its loss.

Means are over decision tokens. Forced tokens have entropy 0 and KL 0; with them in the mean, a completion that decides
little looks like a policy that is sure of itself, so the means over all tokens have keys of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sparring.agents.grpo.objective.loss import Terms
from sparring.agents.grpo.objective.tokens import Totals


@torch.no_grad()
def loss_metrics(parts: Sequence[Terms], totals: Totals) -> dict[str, float]:
    """Metrics of the batch that `totals` describes, given the terms of all its micro-batches.

    `ppo/ratio_...`, `ppo/clip_fraction`, `policy/entropy_...`, `kl/...`, all absent for a batch without a decision,
    which `processing/empty_batches` counts. The ratio of gspo counts once for every token of its sample.
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
