"""Group ids of decisions that are compared with each other, from facts known before the decision.

All games forked from one state share `fork`. By default a group is one seat at one step of one fork's games. With
`use_state_stratified_groups` it is all decisions of one seat at one step in one `stratum`, such as similar strength at
a similar time, from any fork. Neither function reads an answer, a result or a reward, so the outcome of a decision
cannot influence its group.

The mean of such a group does not depend on the decision it is subtracted from, so the gradient stays unbiased even
after the first step, when the games of a fork differ; the baseline is then only less informative.
`mixed_share` measures how often that happens.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from sparring.envs.text import GroupFacts


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
