"""Advantages of samples relative to their group (DeepSeekMath, arXiv:2402.03300; Dr. GRPO, arXiv:2503.20783).

    A_i = (r_i - mean) / max(std, advantage_std_floor)      or without the division: scale_advantages = false
    A_i = clip(A_i, -advantage_clip, advantage_clip)        last, so that the bound holds

mean and std are those of the group, std with 1 / G, or 1 / (G - 1) with advantage_std = sample. Groups of fewer than
`min_group_size` samples, and groups whose std is below max(advantage_min_std, sqrt(min_reward_variance)), carry no
signal; their samples leave the batch instead of staying as zeros. So do groups with rewards that are equal up to
rounding: sums of the same terms in another order differ in the last digits, and a division by a tiny std would amplify
that.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sparring.agents.grpo.objective.segment_ops import count_per_part, mean_per_part
from sparring.configs.language import GRPOConfig

ROUNDING = 1e-6
"""Largest relative difference between rewards that count as equal: about ten roundings of float32."""


@dataclass(frozen=True)
class Advantages:
    """Advantages of B samples.

    Attributes:
        values: [B]; 0 for samples that are left out.
        used: bool [B]; False for samples that are left out.
        metrics: `advantage/...` over the samples used, absent where there is none; `processing/...` in samples.

    """

    values: Tensor
    used: Tensor
    metrics: dict[str, float]


@torch.no_grad()
def advantages(reward: Tensor, group: Tensor, config: GRPOConfig) -> Advantages:
    """Compute advantages of `reward` float [B] within the groups `group` int64 [B], numbered from 0.

    Raises `ValueError` for a reward that is not finite, which would corrupt its whole group.
    """
    _check(reward, group)
    groups = int(group.max()) + 1 if len(group) else 0
    low, high = _extreme(reward, group, groups, "amin"), _extreme(reward, group, groups, "amax")
    alike = (high - low <= ROUNDING * torch.maximum(high.abs(), low.abs()))[group]
    alone = count_per_part(group, groups)[group] < config.min_group_size
    raised = reward - low[group]  # equal rewards become exact zeros; r_i - mean stays what it was
    raw = raised - mean_per_part(raised, group, groups)[group]  # r_i - mean
    std = mean_per_part(raw.square(), group, groups).sqrt()[group]
    used = ~(alone | alike | (std < max(config.advantage_min_std, config.min_reward_variance**0.5)))
    if config.scale_advantages:
        if config.advantage_std == "sample":
            size = count_per_part(group, groups)[group]
            std = std * (size / (size - 1).clamp(min=1)).sqrt()
        raw = torch.where(used, raw / std.clamp(min=config.advantage_std_floor), 0.0)  # (r_i - mean) / max(std, floor)
    values = raw.clamp(-config.advantage_clip, config.advantage_clip) if config.advantage_clip > 0 else raw
    metrics = _value_metrics(values[used], raw[used]) | _left_out(used, alone)
    if used.any():
        spread = _extreme(values, group, groups, "amax") - _extreme(values, group, groups, "amin")
        metrics["advantage/range_mean"] = float(spread[group[used].unique()].mean())
    return Advantages(values.masked_fill(~used, 0.0), used, metrics)


def _check(reward: Tensor, group: Tensor) -> None:
    if reward.shape != group.shape or reward.dim() != 1:
        raise ValueError(f"rewards {tuple(reward.shape)} and groups {tuple(group.shape)}: must both be [B]")
    bad = (~reward.isfinite()).nonzero().flatten().tolist()
    if bad:
        raise ValueError(
            f"reward of sample {bad[0]} is {reward[bad[0]].item()}: must be finite, like those of its group"
        )


def _extreme(values: Tensor, group: Tensor, groups: int, which: str) -> Tensor:
    return values.new_zeros(groups).scatter_reduce(0, group, values, which, include_self=False)


def _value_metrics(values: Tensor, raw: Tensor) -> dict[str, float]:
    """Return statistics of the used advantages; `raw` is before the clip."""
    measured = {"clipped_count": (values != raw).sum()}
    if len(values):
        measured |= {"mean": values.mean(), "std": values.std(correction=0), "min": values.min(), "max": values.max()}
    return {f"advantage/{name}": float(number) for name, number in measured.items()}


def _left_out(used: Tensor, alone: Tensor) -> dict[str, float]:
    """Count skipped samples by reason, one reason each; groups of one count only as single samples."""
    skipped = int((~used).sum())
    return {
        "processing/skip_rate": skipped / max(len(used), 1),
        "processing/total_samples_skipped": float(skipped),
        "processing/skipped_zero_variance": float(skipped - int(alone.sum())),
        "processing/skipped_single_sample": float(alone.sum()),
        "processing/effective_batch_size": float(used.sum()),
    }
