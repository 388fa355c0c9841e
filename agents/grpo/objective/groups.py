"""Which decisions are compared with each other: the ids of their groups, from what was known before anyone moved.

All games forked from one state share `fork`. By default a group is one power at one step of one fork's games; with
`use_state_stratified_groups` it is all decisions of one power at one step with about as many centres at about the same
time, whatever they were forked from. Neither function sees an order, a result or a reward, so that what came of a
decision cannot choose whom it is compared with.

The mean of such a group does not depend on the decision it is subtracted from, which keeps the gradient unbiased even
where, after the first step, the games of a fork stand differently; it is then only less telling.
`mixed_share` says how often that is so.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

FEW_CENTRES, SOME_CENTRES = 3, 5
EARLY_YEAR, MIDDLE_YEAR = 1902, 1905


@dataclass(frozen=True, slots=True)
class BeforeMove:
    """What is known of a decision before it is made, and all that grouping may look at.

    Attributes:
        fork: number of the state that the game was forked from.
        power: who decides, 0 to 6.
        step: phases of the calendar since the fork, five a year and counted whether or not anyone had to decide, so
            that equal steps of a fork are the same season everywhere.
        centres: what the power owns.
        year: as in 1901.
        position: a number that is the same for equal positions, such as a hash of the board.

    """

    fork: int
    power: int
    step: int
    centres: int
    year: int
    position: int


def group_ids(decisions: Sequence[BeforeMove], *, stratified: bool) -> Tensor:
    """Number the groups from 0 in the order in which they first appear: int64 [B]."""
    key = _stratum if stratified else _same_fork
    numbers: dict[Hashable, int] = {}
    return torch.tensor([numbers.setdefault(key(decision), len(numbers)) for decision in decisions], dtype=torch.int64)


def mixed_share(decisions: Sequence[BeforeMove], ids: Tensor) -> float:
    """Share of the groups of two or more that compare decisions made in different positions; 0 where there are none."""
    positions: dict[int, list[int]] = {}
    for decision, group in zip(decisions, ids.tolist(), strict=True):
        positions.setdefault(group, []).append(decision.position)
    compared = [members for members in positions.values() if len(members) > 1]
    return sum(len(set(members)) > 1 for members in compared) / max(len(compared), 1)


def _same_fork(decision: BeforeMove) -> Hashable:
    return decision.fork, decision.power, decision.step


def _stratum(decision: BeforeMove) -> Hashable:
    centres = (decision.centres > FEW_CENTRES) + (decision.centres > SOME_CENTRES)  # to 3, 4 and 5, from 6 on
    year = (decision.year > EARLY_YEAR) + (decision.year > MIDDLE_YEAR)  # to 1902, 1903 to 1905, from 1906 on
    return decision.power, centres, year, decision.step
