"""Constraint behind a lock, for the threads of an endpoint: compiling adds new lines to its tables."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Any

from sparring.agents.llm.decoding.constraint import Constraint, Steps
from sparring.agents.llm.decoding.line_tokens import beginning, encode
from sparring.agents.llm.endpoint.constraints import decision_grammar
from sparring.envs.text import Menu, Option, TextFormat


class Spelling:
    """Tokenization of prompts and legal answers; raises `TokenizerError` if that of answers is not unique."""

    def __init__(self, tokenizer: Any, text_format: TextFormat) -> None:
        self._tokenizer, self._constraint, self._lock = tokenizer, Constraint(tokenizer, text_format), Lock()
        self._closing: list[int] = self._constraint.lines.closing.tolist()
        self._beginning = beginning(tokenizer)
        self.end = self._closing[-1]

    def prompt(self, text: str) -> list[int]:
        """Return the token ids of a prompt."""
        return [*self._beginning, *encode(self._tokenizer, [text])[0]]

    def line(self, option: Option) -> list[int]:
        """Return the token ids of a line with its line end."""
        with self._lock:
            lines = self._constraint.lines
            number = lines.numbers([option.text])[0]
            return lines.tokens[number, : lines.lengths[number]].tolist()

    def grammar(self, choices: Menu) -> dict[str, str]:
        """Return the grammar of all legal answers, without the closing tokens."""
        with self._lock:
            return decision_grammar(self._constraint.compile([choices]), len(self._closing))

    def replay(self, choices: Menu, token_ids: Sequence[int]) -> Steps | None:
        """Return the steps of an answer followed by the closing tokens; None if it is not legal."""
        with self._lock:
            try:
                return self._constraint.replay(choices, [*token_ids, *self._closing])
            except ValueError:
                return None
