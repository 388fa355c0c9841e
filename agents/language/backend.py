"""Requests to language models and their decisions, in one form for every kind of model.

A request is one decision, a prompt of `envs.text` with its menu. An answer from a menu is always legal; a backend
whose model gives no legal answer uses the first option of each line and sets `finish_reason` to "fallback".

A scripted bot is a backend, too, which decides from the position instead of the prompt. Whole games with bots in some
seats are faster without it, since bots then move inside the simulator and no prompt is made. Use it to replace a
backend by a player of known strength.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import InputError
from sparring.envs.game import game_named, load
from sparring.envs.text import Option, Prompt, TextGame

TEMPERATURES = "[0, 10]"
STOP, FALLBACK, CUT = "stop", "fallback", "cut"


def check_temperature(temperature: float) -> None:
    """Raise `InputError` for a temperature outside [0, 10]; 0 takes the likeliest token."""
    wrong = complaint(temperature, TEMPERATURES)
    if wrong:
        raise InputError(f"temperature={temperature}: {wrong}; 0 always selects the most likely token")


def _no_ids() -> np.ndarray:
    return np.zeros(0, dtype=np.int32)


@dataclass(frozen=True)
class Decision:
    """One decision, with the data that a trainer needs.

    T tokens were generated after P prompt tokens. `logprobs` are of the sampling distribution: at the sampling
    temperature, over only the ids allowed at each step. `allowed_ids` [sum of `allowed_counts`] lists these ids, step
    by step; empty, all ids below the count are allowed. A step with one allowed id has log-probability 0.

    Attributes:
        chosen: one option per line of the menu; empty for free text.
        free_text: the generated text without a menu.
        prompt_ids: int32 [P]; token_ids: int32 [T]; logprobs: float32 [T].
        allowed_ids: int32 [A]; allowed_counts: int32 [T].
        temperature: above 0, of the recorded log-probabilities.
        policy_version: version of the weights that decided.
        finish_reason: "stop", "fallback" where the model gave no legal answer, "cut" for free text at its limit.
        exact: whether `logprobs` are as above; others (scripted players, some servers) cannot be trained on.
        why_inexact: the reason why a backend that should be exact is not.

    """

    chosen: tuple[Option, ...]
    prompt_ids: np.ndarray = field(default_factory=_no_ids)
    token_ids: np.ndarray = field(default_factory=_no_ids)
    logprobs: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    allowed_ids: np.ndarray = field(default_factory=_no_ids)
    allowed_counts: np.ndarray = field(default_factory=_no_ids)
    temperature: float = 1.0
    policy_version: int = 0
    finish_reason: str = STOP
    exact: bool = False
    why_inexact: str = ""
    free_text: str = ""

    @property
    def text(self) -> str:
        """The chosen lines, or the free text."""
        return self.free_text or "\n".join(option.text for option in self.chosen)


class ModelError(InputError):
    """A model that cannot be loaded or used; the message is one line naming it and what to do."""


class PromptError(InputError):
    """Prompts that a model cannot read; `places` are the indices of their requests in the batch."""

    def __init__(self, text: str, places: Sequence[int]) -> None:
        super().__init__(text)
        self.places = tuple(places)


class Backend(Protocol):
    """A model that answers requests."""

    @property
    def name(self) -> str:
        """Name in messages and tables."""

    @property
    def exact(self) -> bool:
        """True if the log-probabilities of decisions are exact; the trainer rejects others."""

    def decide(self, requests: Sequence[Prompt]) -> list[Decision]:
        """Return one decision per request, in order.

        Raises `InputError` if the model cannot be reached, and `PromptError` if prompts are too long; the remaining
        requests may then be made again.
        """

    def close(self) -> None:
        """Release all resources."""


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
        open_requests = [request for request in requests if request.is_open]
        answers = iter(self._game.bot_answers(self.name, open_requests, threads=self._threads))
        return [Decision(next(answers) if request.is_open else ()) for request in requests]

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
