"""A scripted bot as a backend, which decides from the position instead of the prompt.

Whole games with bots in some seats are faster without it, since bots then move inside the simulator and no prompt is
made. Use it to replace a backend by a player of known strength.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparring.agents.llm.backend import Decision
from sparring.envs.game import game_named, load
from sparring.envs.text import Prompt, TextGame


class BotBackend:
    """Bot `name` of a `game`; its draws for a prompt do not depend on the other prompts of the batch.

    A prompt must have its `position`. Decisions have no log-probabilities, so they cannot be trained on. Raises
    `InputError` for an unknown bot or game.
    """

    exact = False

    def __init__(self, name: str, *, game: str, threads: int = 1) -> None:
        self._game: TextGame = load(game_named(game).text_game)
        self.name, self._threads = name, threads
        self._game.bot_answers(name, [])

    def decide(self, requests: Sequence[Prompt]) -> list[Decision]:
        """Return one decision per prompt, in order; raises `InputError` for a prompt without a position."""
        asked = [request for request in requests if request.is_open]
        answers = iter(self._game.bot_answers(self.name, asked, threads=self._threads))
        return [Decision(next(answers) if request.is_open else ()) for request in requests]

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
