"""Start positions: games played by a bot or the base model for a few phases, then forked.

In each group's master game one player has all seats for the number of phases in its plan, or the players of the game
have their own; every fork is a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from sparring.envs.diplomacy.batch import DiplomacyBatch, opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.rewards.phase_rewards import first_influence, influence_after
from sparring.envs.diplomacy.text.order_requests import pending_requests, seat_bots, written_orders
from sparring.envs.diplomacy.text.prompts import PromptRules
from sparring.envs.text import DecidePrompts, GroupPlan, mix

OWN_PLAYERS = "players"
"""Name of a warm-up by the players of the game."""
BEFORE_THE_FORK = 1
"""Separates a model's random draws before the fork from those after it."""


@dataclass(frozen=True)
class Warmup:
    """Play before the fork: name of the bot or model, or `OWN_PLAYERS`, rules of prompts, collector of answers."""

    player: str
    rules: PromptRules
    decide: DecidePrompts


@dataclass
class Masters:
    """Snapshot of positions [G, ...] of the groups, with the reasons of those that failed.

    `influence` [G, 75] is the influence on provinces from the games up to the fork (`envs.diplomacy.rewards.scorer`).
    """

    positions: dict[str, torch.Tensor]
    influence: torch.Tensor
    failed: dict[int, str] = field(default_factory=dict)


def warmed_up(masters: DiplomacyBatch, groups: Sequence[GroupPlan], warmup: Warmup) -> Masters:
    """Play the groups' games to their forks; `masters` has a game for each and is overwritten.

    No game is played beyond the start of its last year. A game that ends earlier stays in the position before its end.
    """
    masters.load(opening())
    seat_bots(masters, _players(groups, warmup))
    masters.game_id.copy_(torch.tensor([group.seed for group in groups]))
    phases = torch.tensor([group.warmup_phases for group in groups], device=masters.device)
    ended = torch.zeros(len(groups), dtype=torch.bool, device=masters.device)
    influence = first_influence(masters.units)
    failed: dict[int, str] = {}
    for phase in range(int(phases.max())):
        waiting = ended | (phases <= phase) | (masters.year >= masters.last_year)
        masters.done.copy_(waiting)
        before = masters.snapshot()
        masters.orders.copy_(_orders(masters, groups, warmup, phase, failed))
        masters.draw_orders(phase)
        masters.process()
        over = ~waiting & (masters.done > 0)
        for name, values in before.items():
            masters.state[name][over] = values[over]
        influence, ended = influence_after(influence, before, masters.units), ended | over
    masters.check()
    masters.done.zero_()
    return Masters(masters.snapshot(), influence, failed)


def forked(masters: Masters, samples: int) -> Masters:
    """Return all rows `samples` times [G x samples, ...], with the forks of a group in sequence."""

    def many(values: torch.Tensor) -> torch.Tensor:
        return values.repeat_interleave(samples, dim=0)

    failed = {group * samples + fork: why for group, why in masters.failed.items() for fork in range(samples)}
    return Masters({name: many(values) for name, values in masters.positions.items()}, many(masters.influence), failed)


def _players(groups: Sequence[GroupPlan], warmup: Warmup) -> list[list[str]]:
    if warmup.player == OWN_PLAYERS:
        return [list(group.players) for group in groups]
    return [[warmup.player] * codes.NUM_POWERS for _ in groups]


def _orders(
    masters: DiplomacyBatch, groups: Sequence[GroupPlan], warmup: Warmup, phase: int, failed: dict[int, str]
) -> torch.Tensor:
    """Return a model's orders int32 [G, 75], 0 for bots. Games without an answer are added to `failed`."""
    waiting = pending_requests(
        masters,
        _players(groups, warmup),
        warmup.rules,
        lambda game, power: mix(groups[game].seed, game, phase, power, BEFORE_THE_FORK),
    )
    going = [prompt for prompt in waiting if prompt.game not in failed]
    return written_orders(masters, warmup.decide(going, lambda games, why: failed.update(dict.fromkeys(games, why))))
