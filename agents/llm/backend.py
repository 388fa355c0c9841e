"""What a language model is asked for, and what it answers: the same for every kind of model.

A request is one decision, a prompt of `envs.text` with its menu. An answer from a menu always is legal; a backend that
could not get one from its model falls back on the first option of each line and says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import InputError
from sparring.envs.text import Option, Prompt

TEMPERATURES = "[0, 10]"
STOP, FALLBACK = "stop", "fallback"


def check_temperature(temperature: float) -> None:
    """Refuse a temperature that nothing can be drawn at; 0 takes the likeliest. Raises `InputError`."""
    wrong = complaint(temperature, TEMPERATURES)
    if wrong:
        raise InputError(f"temperature={temperature}: {wrong}; 0 takes the likeliest token each time")


def _no_ids() -> np.ndarray:
    return np.zeros(0, dtype=np.int32)


@dataclass(frozen=True)
class Decision:
    """What was decided, and everything a trainer needs to know of how.

    T tokens were written after P prompt tokens. `logprobs` are of the distribution they were drawn from: at the
    sampling temperature, over the ids allowed at each step and no others. `allowed_ids` [sum of `allowed_counts`]
    lists these, step by step; a step with one allowed id has the log-probability 0.

    Attributes:
        chosen: one option for every line of the menu; none for free text.
        free_text: what was written where there was no menu.
        prompt_ids: int32 [P]; token_ids: int32 [T]; logprobs: float32 [T].
        allowed_ids: int32 [A]; allowed_counts: int32 [T].
        policy_version: of the weights that decided.
        finish_reason: "stop", or "fallback" where the model gave no legal answer.
        exact: whether `logprobs` are as said; without it (scripted players, some servers) nothing can learn from it.
        why_inexact: the reason, where a backend is meant to be exact and is not.

    """

    chosen: tuple[Option, ...]
    prompt_ids: np.ndarray = field(default_factory=_no_ids)
    token_ids: np.ndarray = field(default_factory=_no_ids)
    logprobs: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.float32))
    allowed_ids: np.ndarray = field(default_factory=_no_ids)
    allowed_counts: np.ndarray = field(default_factory=_no_ids)
    policy_version: int = 0
    finish_reason: str = STOP
    exact: bool = False
    why_inexact: str = ""
    free_text: str = ""

    @property
    def text(self) -> str:
        """The lines that were chosen, or the free text."""
        return self.free_text or "\n".join(option.text for option in self.chosen)


class PromptError(InputError):
    """Prompts that a model cannot read; `places` are those of their requests among all that were made."""

    def __init__(self, text: str, places: Sequence[int]) -> None:
        super().__init__(text)
        self.places = tuple(places)


class Backend(Protocol):
    """A model that answers requests."""

    @property
    def name(self) -> str:
        """What messages and tables call it."""
        ...

    @property
    def exact(self) -> bool:
        """Whether the log-probabilities in its decisions are exact; the trainer refuses those that are not."""
        ...

    def decide(self, requests: Sequence[Prompt]) -> list[Decision]:
        """One decision for each request, in order.

        Raises `InputError` where the model cannot be reached at all, or a prompt is too long for it: `PromptError`,
        where the others may be asked for again.
        """
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...
