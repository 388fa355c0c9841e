"""Games of Diplomacy between policies and bots: one policy against six bots of a kind, or any seven players."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import numpy as np
import torch

from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.movement_batch import MovementBatch
from sparring.envs.diplomacy.observation import observe
from sparring.envs.diplomacy.orders.order_choices import rows_of, write_orders


class OrderWriter(Protocol):
    """A player that writes the orders of a power into a batch."""

    def write(self, batch: DiplomacyBatch, power: int, games: torch.Tensor) -> None:
        """Write the orders of a power in `games` bool [G]."""


Seat = str | ActorCritic | OrderWriter
"""A bot by its name, a policy's network, or a Python object."""


@torch.no_grad()
def play_against(batch: DiplomacyBatch, network: ActorCritic, bot: str, *, seed: int) -> None:
    """Play every game of `batch` from start to end, the deterministic policy in seat i % 7 of game i.

    The bot also decides the policy's retreats and adjustments, as in training. The results are in `batch`.
    """
    batch.reset()
    env = LearnerEnv(MovementBatch(batch, seed=seed, autoreset=False), bots=codes.BOTS, seed=0)
    env.assign(np.full(batch.num_games, codes.BOTS.index(bot)))
    while not bool(batch.done.all()):
        actions, _ = network.act(env.obs, deterministic=True)
        env.step(actions)
    batch.check()


@torch.no_grad()
def play_alone(batch: DiplomacyBatch, player: OrderWriter, bot: str, *, seed: int) -> None:
    """Play every game of `batch` from start to end, `player` in seat i % 7 of game i against six bots."""
    batch.reset()
    seat = torch.arange(batch.num_games, device=batch.device) % codes.NUM_POWERS
    batch.players.fill_(codes.BOTS.index(bot))
    batch.players.scatter_(1, seat.unsqueeze(1), codes.ACTIONS)
    while not bool(batch.done.all()):
        batch.draw_orders(seed)
        for power in range(codes.NUM_POWERS):
            player.write(batch, power, seat == power)
        batch.process()
    batch.check()


@torch.no_grad()
def play_seats(batch: DiplomacyBatch, seats: Sequence[Seat], *, fallback_bot: str, seed: int) -> None:
    """Play every game of `batch` from start to end, the seven powers by `seats` in their order.

    Policies are deterministic; the bot `fallback_bot` decides their retreats and adjustments, as in training. Python
    objects decide everything.
    """
    bots = [seat if isinstance(seat, str) else fallback_bot for seat in seats]
    writing = torch.tensor([not isinstance(seat, str | torch.nn.Module) for seat in seats])
    batch.reset()
    batch.players.copy_(torch.tensor([codes.BOTS.index(bot) for bot in bots]).masked_fill(writing, codes.ACTIONS))
    while not bool(batch.done.all()):
        batch.draw_orders(seed)
        for power, seat in enumerate(seats):
            if isinstance(seat, torch.nn.Module):
                order_moves(batch, cast(ActorCritic, seat), power)
            elif not isinstance(seat, str):
                seat.write(batch, power, ~batch.done.bool())
        batch.process()
    batch.check()


@torch.no_grad()
def order_moves(batch: DiplomacyBatch, network: ActorCritic, power: int, games: torch.Tensor | None = None) -> None:
    """Write a policy's orders for a power's units, only in the games (of `games` bool [G]) in a movement phase."""
    moving = ((batch.phase == codes.SPRING) | (batch.phase == codes.FALL)).unsqueeze(1)
    if games is not None:
        moving = moving & games.unsqueeze(1)
    powers = torch.full((batch.num_games,), power, device=batch.device)
    obs = observe(batch.state, powers, last_year=batch.last_year)
    choices, _ = network.act(obs.flatten(1), deterministic=True)
    orders = batch.orders.clone()
    write_orders(choices.long(), rows_of(obs), orders)
    batch.orders.copy_(torch.where(moving, orders, batch.orders))
