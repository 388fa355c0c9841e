"""Endless games, phase by phase: the prompts of all powers and the answers of their bots, or of a teacher.

`corpus` are the training texts of the game's own tokenizer: every location, power, verb and number, and such games.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from sparring.configs.core.tensor_file import check_tensors
from sparring.envs.diplomacy.batch import STATE, DiplomacyBatch, opening
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.board.tensors import power_of
from sparring.envs.diplomacy.movement_batch import OrderWriter
from sparring.envs.diplomacy.orders.choices import WAIVE, Choices, choices
from sparring.envs.diplomacy.orders.completion import chosen_by
from sparring.envs.diplomacy.orders.notation import LETTERS
from sparring.envs.diplomacy.prompts.prompts import PromptRules, render
from sparring.envs.diplomacy.prompts.requests import DIPLOMACY_TEXT
from sparring.envs.diplomacy.rollouts.games import one_of_seven, reseed
from sparring.envs.text import Option

PHASES_OF_A_GAME = 40
"""Approximate number of phases in ten years; the starts of the games are spread over as many."""
VERBS = ("H", "-", "VIA", "S", "C", "R", "D", "B")
NUMBERS = (*range(100), *range(1901, 1941))
CORPUS_PHASES, CORPUS_SEED = 40, 1901


@dataclass(frozen=True)
class BotDecision:
    """Decision of one power in one phase: the game's rows, the menu, the answer to learn, and the game's number.

    `again` is the answer with other random draws, if requested, else empty.
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
        """Prompt text."""
        return render(self.row, self.menu.power, self.menu, self.rules, last_year=self.last_year)

    @property
    def answer(self) -> str:
        """Text of the answer."""
        return DIPLOMACY_TEXT.write(self.chosen)


class BotGames:
    """`games` parallel games in which `bot` plays all powers; a finished game restarts.

    A `teacher` plays one power, i % 7 in game i, and labels all seven powers. For the six bots the labels are the
    orders that it would give instead. Orders that it does not write, such as retreats, remain the bot's. The same seed
    gives the same games. Their starts are staggered, so all years occur from the first step on.
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
        teacher: OrderWriter | None = None,
        taught_by: str = "",
    ) -> None:
        """Play the first phases; `taught_by` is the teacher's name, for `source`."""
        self._teacher, self._own = teacher, one_of_seven(games)
        reseed([teacher], seed)
        self.batch = DiplomacyBatch(games, last_year=last_year, threads=threads)
        self.batch.players.fill_(codes.BOTS.index(bot))
        self.seed, self.phases, self.rules = seed, 0, rules or PromptRules()
        self.source = f"{taught_by} among {bot}s in {games} games" if teacher else f"{bot} in {games} games"
        begins = torch.arange(games) * PHASES_OF_A_GAME // games
        for phase in range(PHASES_OF_A_GAME):
            self._order()
            self._go_on()
            self._begin(begins == phase)

    def next(self, *, twice: bool = False) -> list[list[BotDecision]]:
        """Play one phase of every game; return the decisions by game, omitting games without any.

        With `twice` they also have the orders under other random draws.
        """
        redrawn = self._order(1) if twice else None
        self.batch.orders.zero_()
        rows = {name: getattr(self.batch, name).numpy().copy() for name in STATE}
        orders = self._order()
        games = [self._decisions(game, rows, orders, redrawn) for game in range(self.batch.num_games)]
        self._go_on()
        return [decisions for decisions in games if decisions]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of all games."""
        return {"games": self.batch.snapshot(), "phases": self.phases}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`; raises `InputError`, before any change, for impossible positions."""
        self.batch.load(check_tensors(state["games"], self.batch.state, "games"))
        self.phases = state["phases"]

    def close(self) -> None:
        """Stop the worker threads."""
        self.batch.close()

    def _decisions(
        self, game: int, rows: dict[str, np.ndarray], orders: np.ndarray, redrawn: np.ndarray | None
    ) -> list[BotDecision]:
        row = {name: values[game] for name, values in rows.items()}
        listed = self.batch.legal_orders(game)
        menus = [choices(row, listed, power) for power in range(codes.NUM_POWERS)]
        return [
            BotDecision(
                row,
                menu,
                chosen_by(orders[game], menu),
                game,
                self.rules,
                self.batch.last_year,
                () if redrawn is None else chosen_by(redrawn[game], menu),
            )
            for menu in menus
            if menu.lines
        ]

    def _go_on(self) -> None:
        self.batch.process()
        self._begin(self.batch.done > 0)
        self.phases += 1

    def _begin(self, which: torch.Tensor) -> None:
        """Restart the games selected by `which`, bool [G]."""
        for name, start in opening().items():
            getattr(self.batch, name)[which] = start[0]

    @torch.no_grad()
    def _order(self, redraw: int = 0) -> np.ndarray:
        """Write the orders that are played; return those to learn, int32 [G, 75]."""
        batch = self.batch
        batch.draw_orders((self.seed + 1_000_003 * self.phases + 500_009 * redraw) % 2**31)
        if self._teacher is None:
            return batch.orders.numpy().copy()
        bots = batch.orders.clone()
        owner = power_of(batch.units)
        self._teacher.write(batch, torch.stack([(owner == power).any(1) for power in range(codes.NUM_POWERS)], 1))
        taught = batch.orders.clone()
        teacher_units = owner == self._own.int().argmax(1, keepdim=True)
        batch.orders.copy_(torch.where(teacher_units, taught, bots))
        return taught.numpy()


def corpus() -> Iterator[str]:
    """Yield the domain's words, with and without a leading space, then prompts of all kinds and answers of games."""
    words = [*standard_board().locations, *POWERS, *LETTERS, *VERBS, WAIVE, *map(str, NUMBERS)]
    yield from (f"{space}{word}" for word in words for space in ("", " "))
    games = BotGames(1, bot="dumbbot", last_year=1910, seed=CORPUS_SEED)
    kinds = list(kinds_of_prompts())
    for _ in range(CORPUS_PHASES):
        for decision in (decision for decisions in games.next() for decision in decisions):
            power, menu = decision.menu.power, decision.menu
            yield from (render(decision.row, power, menu, rules, last_year=1910) for rules in kinds)
            yield DIPLOMACY_TEXT.write(decision.chosen)
    games.close()


def kinds_of_prompts() -> Iterator[PromptRules]:
    """Yield compact and full rules with options on and off, except legal orders, whose words occur in the answers."""
    for compact in (True, False):
        plain = PromptRules(compact=compact)
        crowded = replace(plain, show_map_windows=True, show_action_counts=True)
        yield from (plain, crowded, replace(crowded, show_board_context=False))
