"""The one place where a name, a file or a Python object becomes a player of Diplomacy.

A bot plays inside the simulator. A policy orders the moves of all games in one forward; a bot decides its retreats and
adjustments, as in training. A Python object, `act(view) -> orders`, is asked game by game, in every phase in which its
power has an order to give.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sparring.agents.opponents.players import act_function, find_player
from sparring.agents.play.diplomacy_matches import order_moves
from sparring.agents.policies.actor_critic import ActorCritic
from sparring.agents.policies.checkpoint import load_checkpoint
from sparring.configs.core.errors import InputError
from sparring.configs.opponents import is_code, named_source, registered, registered_name, source_name
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.interfaces.opponents import order_view

_POLICIES = replace(GAME, text_game="")
"""Diplomacy without language models."""


class PolicyOrders:
    """A policy that orders moves."""

    bot = "dumbbot"
    """Bot of its retreats and adjustments."""

    def __init__(self, network: ActorCritic) -> None:
        self.network = network

    def write(self, batch: DiplomacyBatch, power: int, games: torch.Tensor) -> None:
        """Write the orders of a power in `games` bool [G], which must be all that a policy plays it in."""
        order_moves(batch, self.network, power, games)


class PythonOrders:
    """A Python object that orders."""

    bot = ""

    def __init__(self, source: Any, name: str) -> None:
        self.name, self._ask = name, act_function(source, name)

    def write(self, batch: DiplomacyBatch, power: int, games: torch.Tensor) -> None:
        """Write the orders of a power in `games` bool [G]. Raises `InputError` for an order that is not legal."""
        for game in torch.nonzero(games & ~batch.done.bool()).flatten().tolist():
            view = order_view(batch, game, power)
            if view.slots:
                for province, order in view.orders(self._ask(view), self.name).items():
                    batch.orders[game, province] = order


def order_player(x: Any, device: str | torch.device = "cpu") -> str | PolicyOrders | PythonOrders:
    """Return the player that `x` means, a bot by its name; raises `InputError` for an unknown or unusable one.

    A policy's network is put on `device`.
    """
    if isinstance(x, str):
        if is_code(x):
            return _python(named_source(x), x)
        x = find_player(x, _POLICIES, bare=(*GAME.bots, *registered()))
    if isinstance(x, str):
        return x
    if isinstance(x, Path):
        return PolicyOrders(_network(x).to(device))
    return _python(x, "")


def _python(source: Any, name: str) -> PythonOrders:
    return PythonOrders(source, registered_name(source) or name or source_name(source))


def _network(path: Path) -> ActorCritic:
    checkpoint = load_checkpoint(path)
    if checkpoint.contract["id"] != GAME.id:
        raise InputError(f"{path}: plays {checkpoint.contract['id']}, not {GAME.id}; give a policy of {GAME.id}")
    return checkpoint.network
