"""A game of OpenSpiel on the page: the person sees its texts of observations and information states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from sparring.envs.imported.browser.table import CHANCE, PersonTable, Seen, TableStep
from sparring.envs.imported.evaluation.players.state_players import open_player
from sparring.envs.imported.states import first_state, has_text, is_open
from sparring.eval.paired.response_game import Choices


class SpielTable(PersonTable):
    """A game of OpenSpiel. Raises `InputError` for an unknown player, as `open_player` does."""

    def __init__(self, game: Any, opponent: str, seat: int, seed: int) -> None:
        self.game, self.title, self.name = game, game.get_type().long_name, str(game)
        self.seats, self.told = game.num_players(), is_open(game)
        self._player, self._random = open_player(opponent, game), Random(seed)
        super().__init__(opponent, seat)

    @property
    def yours(self) -> bool:
        """See `PersonTable.yours`."""
        return not self.state.is_terminal() and self.state.current_player() == self.seat

    @property
    def returns(self) -> Sequence[float]:
        """See `PersonTable.returns`."""
        return [*self.state.returns()] if self.state.is_terminal() else []

    def _deal(self) -> None:
        self.state = first_state(self.game)
        self._draw_chance()

    def _legal(self) -> list[tuple[int, str]]:
        return [(action, self.state.action_to_string(self.seat, action)) for action in self.state.legal_actions()]

    def _take(self, action: int) -> None:
        self._apply(action)
        self._draw_chance()

    def _request(self) -> Callable[[], list[Choices]]:
        state = self.state
        return lambda: self._player([state])

    def _receive(self, answer: list[Choices]) -> None:
        self._take(self._drawn(answer[0]))

    def _draw_chance(self) -> None:
        while not self.state.is_terminal() and self.state.is_chance_node():
            self._apply(self._drawn(self.state.chance_outcomes()))

    def _drawn(self, choices: Sequence[tuple[int, float]]) -> int:
        actions, weights = zip(*choices, strict=True)
        return int(self._random.choices(actions, weights)[0])

    def _apply(self, action: int) -> None:
        state, seat = self.state, self.state.current_player()
        who, text = CHANCE if state.is_chance_node() else self._who(seat), state.action_to_string(seat, action)
        self.state = state.child(action)
        self.played.append(TableStep(who, text, Seen(str(self.state))))

    def _seen(self) -> Seen:
        """Return the person's observation, and their information state where it says more."""
        state = getattr(self.state, "whole", self.state)
        if self.returns or self.told:
            return Seen(str(state))
        remembered = state.information_state_string(self.seat) if has_text(self.game) else ""
        if not self.game.get_type().provides_observation_string:
            return Seen(remembered)
        shown = state.observation_string(self.seat)
        return Seen(shown, "" if remembered == shown else remembered)
