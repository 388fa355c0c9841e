"""A power's view of a game, for opponents in Python: `act(view) -> orders`, as text such as `A PAR - BUR`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, location_name
from sparring.envs.diplomacy.interfaces.slots import action_of, slots_by_power
from sparring.envs.diplomacy.interfaces.spaces import Slot
from sparring.envs.diplomacy.prompts.report import board_report, order_report, order_words


@dataclass(frozen=True)
class OrderView:
    """One game as the power that has to order sees it. All of it is a copy."""

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
        """Legal orders as text by province, without the default order of the phase where it has no words."""
        units = self.row["dislodged" if int(self.row["phase"]) in codes.RETREATS else "units"]
        return {
            location_name(place): tuple(order_words(order, place, int(units[place])) for order in listed if order)
            for place, listed in self.slots
        }

    @property
    def text(self) -> str:
        """The board and the legal orders in words."""
        return f"{board_report(self.row)}\nYou are {self.power}.\n{order_report(self.row, dict(self.slots))}"

    def orders(self, lines: Sequence[str], name: str) -> dict[int, int]:
        """Return order codes by province from the answer `lines` of the opponent `name`; units without one hold.

        Raises `InputError` for the first line that is no legal order.
        """
        try:
            action, answers = action_of(lines, self.power, self.slots, self.row)
        except InputError as error:
            raise InputError(f"opponent {name}: act returned no list of orders for {self.power} ({error})") from error
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
