"""Training data of a clone: the prompt and the bot's answer of every seat, one group per step of a game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparring.agents.llm.cloning.packing import Example, Group
from sparring.agents.llm.decoding.line_tokens import encode
from sparring.envs.text import Demonstration, Demonstrations


class CloneDataset:
    """Groups of examples, in tokens of `tokenizer`, from endless games; no position is repeated."""

    def __init__(self, games: Demonstrations, tokenizer: Any) -> None:
        self.games, self._tokenizer = games, tokenizer

    def next(self) -> list[Group]:
        """Return the next step of all games."""
        return self.examples(self.games.next())

    def examples(self, positions: Sequence[Sequence[Demonstration]]) -> list[Group]:
        """Return the decisions as examples, in their groups; all are encoded at once."""
        flat = [decision for position in positions for decision in position]
        prompts = encode(self._tokenizer, [one.text for one in flat])
        answers = encode(self._tokenizer, [one.answer for one in flat])
        end = self._tokenizer.eos_token_id
        examples = iter(Example(prompt, [*answer, end]) for prompt, answer in zip(prompts, answers, strict=True))
        return [[next(examples) for _ in position] for position in positions]
