"""The opponents of a Diplomacy environment: powers that are played by bots, policies or Python objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from sparring.configs.core.errors import InputError, choose
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.game import load


class PowerOpponents:
    """Players of some powers in the only game of `batch`, by power; bots draw from `seed`.

    Raises `InputError` for an unknown power or player, and if no power is left for an agent.
    """

    def __init__(self, batch: DiplomacyBatch, opponents: Mapping[str, Any]) -> None:
        self._batch, self.seed = batch, 0
        players = {choose("power", power, POWERS): x for power, x in opponents.items()}
        if len(players) == len(POWERS):
            raise InputError(f"opponents={list(players)}: every power has one; leave at least one to an agent")
        self.players = {power: load(GAME.opponents)(x) if x not in codes.BOTS else x for power, x in players.items()}
        batch.players.fill_(codes.ACTIONS)
        for power, player in self.players.items():
            bot = player if isinstance(player, str) else getattr(player, "bot", "")
            batch.players[0, POWERS.index(power)] = codes.BOTS.index(bot) if bot else codes.ACTIONS

    def write(self) -> None:
        """Write the orders of all opponents for the current phase."""
        if not self.players:
            return
        self._batch.draw_orders(self.seed)
        game = torch.ones(1, dtype=torch.bool, device=self._batch.device)
        for power, player in self.players.items():
            if not isinstance(player, str):
                player.write(self._batch, POWERS.index(power), game)
