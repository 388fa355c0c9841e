"""Opponents of a Diplomacy environment: powers that are played by bots, policies or Python objects.

A Python object sees an `OrderView`: `act(view) -> orders`, as text such as `A PAR - BUR`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from sparring.configs.core.errors import InputError, choose
from sparring.envs.diplomacy import GAME
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, location_name
from sparring.envs.diplomacy.interfaces.slots import Slot, action_of, slots_by_power
from sparring.envs.diplomacy.prompts.report import board_report, order_report, order_words
from sparring.envs.diplomacy.rollouts.games import reseed
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
        self.players = {power: load(GAME.open_player)(x) if x not in codes.BOTS else x for power, x in players.items()}
        batch.players.fill_(codes.ACTIONS)
        for power, player in self.players.items():
            bot = player if isinstance(player, str) else getattr(player, "bot", "")
            batch.players[0, POWERS.index(power)] = codes.BOTS.index(bot) if bot else codes.ACTIONS

    def begin(self, seed: int | None) -> None:
        """Begin a game with the seed of bots and stochastic players; without one, their generators continue."""
        self.seed = seed or 0
        if seed is not None:
            reseed(self.players.values(), seed)

    def write(self) -> None:
        """Write the orders of all opponents for the current phase."""
        if not self.players:
            return
        self._batch.draw_orders(self.seed)
        for power, player in self.players.items():
            if not isinstance(player, str):
                seat = torch.tensor([[power == name for name in POWERS]], device=self._batch.device)
                player.write(self._batch, seat & (self._batch.done == 0).unsqueeze(1))


@dataclass(frozen=True)
class OrderView:
    """One game from the view of the power to move. Everything is a copy."""

    power: str
    """Such as FRANCE."""
    row: Mapping[str, np.ndarray]
    """State of the game, a row of every array in docs/diplomacy_batch.md."""
    slots: Sequence[Slot]
    """Provinces of the power's orders, each with its legal orders as codes."""
    last_year: int

    @property
    def phase(self) -> str:
        """Phase with its year, such as S1901M."""
        return codes.phase_name(int(self.row["year"]), int(self.row["phase"]))

    @cached_property
    def legal(self) -> dict[str, tuple[str, ...]]:
        """Legal orders as text by province, without the phase's default order if it has no text."""
        units = self.row["dislodged" if int(self.row["phase"]) in codes.RETREATS else "units"]
        return {
            location_name(at): tuple(order_words(order, at, int(units[at])) for order in listed if order)
            for at, listed in self.slots
        }

    @property
    def text(self) -> str:
        """The board and the legal orders as text."""
        return f"{board_report(self.row)}\nYou are {self.power}.\n{order_report(self.row, dict(self.slots))}"

    def orders(self, lines: Sequence[str], name: str) -> dict[int, int]:
        """Return order codes by province from the answer `lines` of the opponent `name`; units without one hold.

        Raises `InputError` for the first line that is not a legal order.
        """
        try:
            action, answers = action_of(lines, self.power, self.slots, self.row)
        except InputError as error:
            raise InputError(
                f"opponent {name}: act did not return a list of orders for {self.power} ({error})"
            ) from error
        for line in answers:
            if line.problem:
                where = f"as {self.power} in {self.phase}"
                raise InputError(f"opponent {name}, {where}: {line.text!r} cannot be carried out: {line.problem}")
        return {province: int(listed[number]) for (province, listed), number in zip(self.slots, action, strict=False)}


def order_view(batch: DiplomacyBatch, game: int, power: int) -> OrderView:
    """Return the view of a power in one game of the batch."""
    row = {name: tensor[game].cpu().numpy().copy() for name, tensor in batch.state.items()}
    slots = slots_by_power(batch.legal_orders(game), row)
    return OrderView(POWERS[power], row, slots[POWERS[power]], batch.last_year)
