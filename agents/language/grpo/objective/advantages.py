"""Advantages of samples relative to their group (DeepSeekMath, arXiv:2402.03300; Dr. GRPO, arXiv:2503.20783).

    A_i = (r_i - mean) / max(std, advantage_std_floor)      or without the division: scale_advantages = false
    A_i = clip(A_i, -advantage_clip, advantage_clip)        last, so the bound holds

mean and std are over the group, std with 1 / G, or 1 / (G - 1) with advantage_std = sample. Groups of one
sample, and groups whose std is below max(MIN_STD, sqrt(min_reward_variance)), carry no signal; their samples
leave the batch instead of staying as zeros. So do groups with rewards that are equal up to rounding. Sums of the same
terms in another order differ in the last digits, and a division by a tiny std would amplify that.

A group is known before the decision. All games forked from one state share `fork`; by default a group is one seat at
one step of one fork's games. With `use_state_stratified_groups` it is all decisions of one seat at one step in one
`stratum`, such as similar strength at a similar time, from any fork. No answer, result or reward is read, so the
outcome of a decision cannot influence its group. The mean of a group does not depend on the decision it is subtracted
from. So the gradient stays unbiased even after the first step, when the games of a fork differ. The baseline is then
only less informative; `mixed_share` measures how often.

With `baseline=role` each seat has a running mean instead, as in role-conditioned advantage estimation (SPIRAL,
arXiv:2506.24119):

    b_s <- alpha b_s + (1 - alpha) R_s,   A_i = r_i - b_s,   alpha = DECAY

R_s is the mean reward of seat s for a decision over the step's games. In a game that pays at the end, it is the mean
return. The baseline b_s begins at 0 and does not change in a step without a decision of s. All samples are used.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sparring.agents.language.grpo.objective.loss import count_per_part, mean_per_part
from sparring.configs.language import GRPOConfig
from sparring.envs.text import GroupFacts

MIN_STD = 1e-8
DECAY = 0.95  # of the running mean of a seat, as in SPIRAL
ROUNDING = 1e-6
"""Largest relative difference between rewards that count as equal: about ten roundings of float32."""


def group_ids(decisions: Sequence[GroupFacts], *, stratified: bool) -> Tensor:
    """Number the groups from 0 in the order in which they first appear: int64 [B]."""
    key = _stratum if stratified else _same_fork
    numbers: dict[Hashable, int] = {}
    return torch.tensor([numbers.setdefault(key(decision), len(numbers)) for decision in decisions], dtype=torch.int64)


def mixed_share(decisions: Sequence[GroupFacts], ids: Tensor) -> float:
    """Return the share of groups of two or more with decisions from different positions; 0 without such groups."""
    positions: dict[int, list[int]] = {}
    for decision, group in zip(decisions, ids.tolist(), strict=True):
        positions.setdefault(group, []).append(decision.position)
    compared = [members for members in positions.values() if len(members) > 1]
    return sum(len(set(members)) > 1 for members in compared) / max(len(compared), 1)


def _same_fork(decision: GroupFacts) -> Hashable:
    return decision.fork, decision.seat, decision.step


def _stratum(decision: GroupFacts) -> Hashable:
    return decision.seat, decision.stratum, decision.step


@dataclass(frozen=True)
class Advantages:
    """Advantages of B samples.

    Attributes:
        values: [B]; 0 for samples that are left out.
        used: bool [B]; False for samples that are left out.
        metrics: `advantage/...` over the samples used, absent without any; `processing/...` in samples.

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
    alone = count_per_part(group, groups)[group] < 2
    raised = reward - low[group]  # equal rewards become exact zeros; r_i - mean stays what it was
    raw = raised - mean_per_part(raised, group, groups)[group]  # r_i - mean
    std = mean_per_part(raw.square(), group, groups).sqrt()[group]
    used = ~(alone | alike | (std < max(MIN_STD, config.min_reward_variance**0.5)))
    if config.scale_advantages:
        if config.advantage_std == "sample":
            size = count_per_part(group, groups)[group]
            std = std * (size / (size - 1).clamp(min=1)).sqrt()
        raw = torch.where(used, raw / std.clamp(min=config.advantage_std_floor), 0.0)  # (r_i - mean) / max(std, floor)
    values = _clipped(raw, config)
    metrics = _value_metrics(values[used], raw[used]) | _left_out(used, alone)
    if used.any():
        spread = _extreme(values, group, groups, "amax") - _extreme(values, group, groups, "amin")
        metrics["advantage/range_mean"] = float(spread[group[used].unique()].mean())
    return Advantages(values.masked_fill(~used, 0.0), used, metrics)


@torch.no_grad()
def next_baseline(before: Tensor, reward: Tensor, seat: Tensor, game: Tensor) -> Tensor:
    """Return the baselines of S seats, float64 [S], after a step; `before` are those from before it.

    `reward` float [B], `seat` int64 [B] and `game` int64 [B] are of the step's decisions.
    """
    seats, games = len(before), int(game.max()) + 1 if len(game) else 0
    cell = seat * games + game
    by_game = mean_per_part(reward, cell, seats * games).view(seats, games)
    played = count_per_part(cell, seats * games).view(seats, games) > 0
    mean = (by_game * played).sum(1) / played.sum(1).clamp(min=1)  # R_s
    return torch.where(played.any(1), DECAY * before + (1.0 - DECAY) * mean, before)


@torch.no_grad()
def role_advantages(reward: Tensor, seat: Tensor, baseline: Tensor, config: GRPOConfig) -> Advantages:
    """Compute advantages of `reward` float [B], of decisions of `seat` int64 [B], over `baseline` float64 [S].

    Raises `ValueError` for a reward that is not finite.
    """
    _check(reward, seat)
    raw = reward - baseline[seat]  # r_i - b_s
    values = _clipped(raw, config)
    used = torch.ones_like(seat, dtype=torch.bool)
    own = {f"advantage/baseline_{number}": value for number, value in enumerate(baseline.tolist())}
    return Advantages(values, used, _value_metrics(values, raw) | _left_out(used, ~used) | own)


def _clipped(raw: Tensor, config: GRPOConfig) -> Tensor:
    return raw.clamp(-config.advantage_clip, config.advantage_clip) if config.advantage_clip > 0 else raw


def _check(reward: Tensor, group: Tensor) -> None:
    if reward.shape != group.shape or reward.dim() != 1:
        raise ValueError(f"rewards {tuple(reward.shape)} and groups {tuple(group.shape)}: must both be [B]")
    bad = (~reward.isfinite()).nonzero().flatten().tolist()
    if bad:
        raise ValueError(
            f"reward of sample {bad[0]} is {reward[bad[0]].item()}: must be finite, like the others of its group"
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
