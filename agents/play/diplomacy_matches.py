"""Games of Diplomacy between policies and bots: one policy against six bots of a kind, or any seven players."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch

from sparring.agents.play.learner_env import LearnerEnv
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.movement_batch import MovementBatch, OrderWriter
from sparring.envs.diplomacy.observation import observe
from sparring.envs.diplomacy.orders.order_choices import rows_of, write_orders

Seat = str | ActorCritic | OrderWriter
"""A bot by its name, a policy's network, or a Python object."""


@torch.no_grad()
def play_against(batch: DiplomacyBatch, network: ActorCritic, opponent: str | OrderWriter, *, seed: int) -> None:
    """Play every game of `batch` from start to end, the deterministic policy in seat i % 7 of game i.

    A bot as the opponent also decides the policy's retreats and adjustments, as in training; beside another opponent a
    DumbBot does. The results are in `batch`.
    """
    batch.reset()
    writers = () if isinstance(opponent, str) else (opponent,)
    movements = MovementBatch(batch, seed=seed, autoreset=False, writers=writers)
    env = LearnerEnv(movements, bots=(*codes.BOTS, *map(str, writers)), seed=0)
    number = codes.BOTS.index(opponent) if isinstance(opponent, str) else len(codes.BOTS)
    env.assign(np.full(batch.num_games, number))
    while not bool(batch.done.all()):
        actions, _ = network.act(env.obs, deterministic=True)
        env.step(actions)
    batch.check()


@torch.no_grad()
def play_alone(batch: DiplomacyBatch, one: str | OrderWriter, six: str | OrderWriter, *, seed: int) -> None:
    """Play every game of `batch` from start to end, `one` in seat i % 7 of game i against six times `six`.

    Each is a bot, or an object that orders.
    """
    batch.reset()
    seat = torch.arange(batch.num_games, device=batch.device) % codes.NUM_POWERS
    batch.players.fill_(_drawn_by(six))
    batch.players.scatter_(1, seat.unsqueeze(1), _drawn_by(one))
    while not bool(batch.done.all()):
        batch.draw_orders(seed)
        for power in range(codes.NUM_POWERS):
            for player, games in ((one, seat == power), (six, seat != power)):
                if not isinstance(player, str):
                    player.write(batch, power, games)
        batch.process()
    batch.check()


def _drawn_by(player: str | OrderWriter) -> int:
    """Return the number of the bot whose orders the simulator draws for a player, `ACTIONS` for none."""
    name = player if isinstance(player, str) else player.bot
    return codes.BOTS.index(name) if name else codes.ACTIONS


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
    if not bool(moving.any()):
        return
    powers = torch.full((batch.num_games,), power, device=batch.device)
    obs = observe(batch.state, powers, last_year=batch.last_year)
    choices, _ = network.act(obs.flatten(1), deterministic=True)
    orders = batch.orders.clone()
    write_orders(choices.long(), rows_of(obs), orders)
    batch.orders.copy_(torch.where(moving, orders, batch.orders))
