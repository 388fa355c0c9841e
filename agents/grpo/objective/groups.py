"""Which decisions are compared with each other: the ids of their groups, from what was known before any move.

All games forked from one state share `fork`. By default a group is one seat at one step of one fork's games; with
`use_state_stratified_groups` it is all decisions of one seat at one step in one `stratum`, such as about as much
strength at about the same time, whatever they were forked from. Neither function sees an answer, a result or a reward,
so that what came of a decision cannot choose what it is compared with.

The mean of such a group does not depend on the decision it is subtracted from, which keeps the gradient unbiased even
where, after the first step, the games of a fork stand differently; it is then only less telling.
`mixed_share` says how often that is so.
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
    """Share of the groups of two or more that compare decisions made in different positions; 0 where there are none."""
    positions: dict[int, list[int]] = {}
    for decision, group in zip(decisions, ids.tolist(), strict=True):
        positions.setdefault(group, []).append(decision.position)
    compared = [members for members in positions.values() if len(members) > 1]
    return sum(len(set(members)) > 1 for members in compared) / max(len(compared), 1)


def _same_fork(decision: GroupFacts) -> Hashable:
    return decision.fork, decision.seat, decision.step


def _stratum(decision: GroupFacts) -> Hashable:
    return decision.seat, decision.stratum, decision.step
