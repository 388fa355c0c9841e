"""A scripted bot as a backend: it answers what language models are asked, from the position instead of the prompt.

Whole games with bots in some seats are faster without it: there bots move inside the simulator, and no prompt is made.
This is for a backend's place that is to be filled with a player whose strength is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparring.agents.llm.backend import Decision
from sparring.envs.game import game_named, load
from sparring.envs.text import Prompt, TextGame


class BotBackend:
    """Bot `name` of a `game`, with the same draws for the same prompt whatever else is asked.

    A prompt must have its `position`. Decisions have no log-probabilities, so nothing can learn from them. Raises
    `InputError` for a bot or a game that there is not.
    """

    exact = False

    def __init__(self, name: str, *, game: str, threads: int = 1) -> None:
        self._game: TextGame = load(game_named(game).text_game)
        self.name, self._threads = name, threads
        self._game.bot_answers(name, [])

    def decide(self, requests: Sequence[Prompt]) -> list[Decision]:
        """One decision for each prompt, in order; raises `InputError` for a prompt without a position."""
        asked = [request for request in requests if request.is_open]
        answers = iter(self._game.bot_answers(self.name, asked, threads=self._threads))
        return [Decision(next(answers) if request.is_open else ()) for request in requests]

    def close(self) -> None:
        """Nothing to release."""
