"""Demonstrations of OpenSpiel games as text: the moves of whole games with one player in all seats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sparring.envs.imported.states import first_state
from sparring.envs.openspiel_text.answers import MOVES
from sparring.envs.openspiel_text.config import OpenSpielAnswerConfig
from sparring.envs.openspiel_text.decisions import past_chance
from sparring.envs.openspiel_text.prompts import prompt_of
from sparring.envs.text import Option, Prompt, mix

CHANCE, MOVE, AGAIN = 1, 2, 3
"""Streams of random numbers."""
Choose = Callable[[Sequence[Any], Sequence[int]], Sequence[Option]]
"""Function from states and seeds to a player's actions."""


@dataclass(frozen=True)
class MoveDemonstration:
    """A decision, the player's action, and its action by another draw."""

    prompt: Prompt
    chosen: tuple[Option, ...]
    again: tuple[Option, ...]

    @property
    def text(self) -> str:
        """Prompt text."""
        return self.prompt.text

    @property
    def menu(self) -> Any:
        """Legal actions."""
        return self.prompt.menu

    @property
    def answer(self) -> str:
        """Text of the answer."""
        return MOVES.write(self.chosen)


class MoveDemonstrations:
    """`games` whole games in every step; step k of a `seed` is always the same."""

    def __init__(self, game: Any, choose: Choose, source: str, *, games: int, seed: int) -> None:
        self._game, self._choose, self._games, self._seed, self._steps = game, choose, games, seed, 0
        self.source = f"{source} in {games} games of {game.get_type().short_name}"

    def next(self, *, twice: bool = False) -> list[list[MoveDemonstration]]:
        """Play the games to their end, all at once; return the decisions by game."""
        seeds = [mix(self._seed, self._steps, game) for game in range(self._games)]
        states = [past_chance(first_state(self._game), mix(seed, CHANCE)) for seed in seeds]
        decisions: list[list[MoveDemonstration]] = [[] for _ in seeds]
        while playing := [game for game, state in enumerate(states) if not state.is_terminal()]:
            asked = [states[game] for game in playing]
            chosen, again = (
                self._choose(asked, [mix(seeds[game], use, len(decisions[game])) for game in playing])
                for use in (MOVE, AGAIN)
            )
            for game, first, second in zip(playing, chosen, again, strict=True):
                prompt = prompt_of(states[game], OpenSpielAnswerConfig())
                decisions[game].append(MoveDemonstration(prompt, (first,), (second,)))
                seed = mix(seeds[game], CHANCE, len(decisions[game]))
                states[game] = past_chance(states[game].child(first.value), seed)
        self._steps += 1
        return [game for game in decisions if game]

    def state_dict(self) -> dict[str, Any]:
        """Return the number of steps played."""
        return {"steps": self._steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a `state_dict`."""
        self._steps = int(state["steps"])

    def close(self) -> None:
        """Do nothing: games hold memory only."""
