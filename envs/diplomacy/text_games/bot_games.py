"""Games between bots, phase by phase without end: what every power was asked, and what its bot answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch, opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.orders.choices import Choices, choices
from sparring.envs.diplomacy.orders.completion import chosen_by
from sparring.envs.diplomacy.text.prompts import PromptRules, render
from sparring.envs.text import Option

PHASES_OF_A_GAME = 40
"""About as many as there are in ten years; over so many the games' beginnings are spread."""


@dataclass(frozen=True)
class BotDecision:
    """One power in one phase: the game's rows, what it was asked, the bot's answer, and the game's number.

    `again` is what the bot answers with other draws, where that was asked for.
    """

    row: dict[str, np.ndarray]
    menu: Choices
    chosen: tuple[Option, ...]
    game: int
    rules: PromptRules
    last_year: int
    again: tuple[Option, ...] = ()

    @property
    def text(self) -> str:
        """The prompt."""
        return render(self.row, self.menu.power, self.menu, self.rules, last_year=self.last_year)


class BotGames:
    """`games` side by side in which `bot` plays all powers; a game that is over begins again.

    The same seed gives the same games. They begin one after the other, so that from the start there are positions of
    all years side by side.
    """

    def __init__(
        self,
        games: int,
        *,
        bot: str,
        last_year: int,
        seed: int,
        rules: PromptRules | None = None,
        threads: int = 1,
    ) -> None:
        self.batch = DiplomacyBatch(games, last_year=last_year, threads=threads)
        self.batch.players.fill_(codes.BOTS.index(bot))
        self.seed, self.phases, self.rules = seed, 0, rules or PromptRules()
        begins = torch.arange(games) * PHASES_OF_A_GAME // games
        for phase in range(PHASES_OF_A_GAME):
            self._draw()
            self._go_on()
            self._begin(begins == phase)

    def next(self, *, twice: bool = False) -> list[list[BotDecision]]:
        """Play one phase of every game; returns the decisions of each game in which there was one to make.

        With `twice` they have what the bots would order if they drew other lots, too.
        """
        again = self._ordered_again() if twice else None
        self._draw()
        rows = {name: getattr(self.batch, name).numpy().copy() for name in STATE}
        orders = self.batch.orders.numpy().copy()
        found = [self._decisions(game, rows, orders, again) for game in range(self.batch.num_games)]
        self._go_on()
        return [decisions for decisions in found if decisions]

    def _ordered_again(self) -> np.ndarray:
        """Orders of the present phase by other draws, int32 [G, 75]."""
        self._draw(1)
        orders = self.batch.orders.numpy().copy()
        self.batch.orders.zero_()
        return orders

    def state_dict(self) -> dict[str, Any]:
        """Where all games are."""
        return {"games": self.batch.snapshot(), "phases": self.phases}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict`."""
        self.batch.load(state["games"])
        self.phases = state["phases"]

    def close(self) -> None:
        """End the worker threads."""
        self.batch.close()

    def _decisions(
        self, game: int, rows: dict[str, np.ndarray], orders: np.ndarray, again: np.ndarray | None
    ) -> list[BotDecision]:
        row = {name: values[game] for name, values in rows.items()}
        listed = self.batch.legal_orders(game)
        asked = [choices(row, listed, power) for power in range(codes.NUM_POWERS)]
        return [
            BotDecision(
                row,
                one,
                chosen_by(orders[game], one),
                game,
                self.rules,
                self.batch.last_year,
                () if again is None else chosen_by(again[game], one),
            )
            for one in asked
            if one.lines
        ]

    def _go_on(self) -> None:
        self.batch.process()
        self._begin(self.batch.done > 0)
        self.phases += 1

    def _begin(self, which: torch.Tensor) -> None:
        """Begin games again where `which` [G] says so."""
        for name, start in opening().items():
            getattr(self.batch, name)[which] = start[0]

    def _draw(self, again: int = 0) -> None:
        self.batch.draw_orders((self.seed + 1_000_003 * self.phases + 500_009 * again) % 2**31)
