"""Positions to begin from: games that bots have played for a few phases, then forked.

Each group's master game is played by DumbBots for as many phases as its plan says; then every fork is a copy of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from agents.grpo.plan import GroupPlan
from envs.diplomacy import codes
from envs.diplomacy.batch import DiplomacyBatch, opening

WARMUP_BOT = codes.BOTS.index("dumbbot")


def warmed_up(masters: DiplomacyBatch, groups: Sequence[GroupPlan]) -> dict[str, torch.Tensor]:
    """Positions [G, ...] of the groups, a snapshot; `masters` has a game for each and is used up."""
    masters.load(opening())
    masters.players.fill_(WARMUP_BOT)
    masters.game_id.copy_(torch.tensor([group.seed for group in groups]))
    phases = torch.tensor([group.warmup_phases for group in groups], device=masters.device)
    for phase in range(int(phases.max())):
        masters.done.copy_((phases <= phase).to(masters.done.dtype))  # these wait
        masters.draw_orders(phase)
        masters.process()
    masters.check()
    masters.done.zero_()
    return masters.snapshot()


def forked(positions: dict[str, torch.Tensor], samples: int) -> dict[str, torch.Tensor]:
    """Every position `samples` times [G x samples, ...], the forks of a group one after the other."""
    return {name: values.repeat_interleave(samples, dim=0) for name, values in positions.items()}
