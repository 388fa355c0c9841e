"""Training data of a clone: the prompt and the bot's answer of every seat, one group per step of a game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparring.agents.llm.cloning.packing import Example, Group
from sparring.agents.llm.decoding.line_tokens import beginning, encode
from sparring.configs.core.errors import InputError
from sparring.envs.text import Demonstration, Demonstrations


class CloneDataset:
    """Groups of examples, in tokens of `tokenizer`, from endless games; no position is repeated.

    `longest` is the number of tokens that the model reads at most.
    """

    def __init__(self, games: Demonstrations, tokenizer: Any, *, longest: int | None = None) -> None:
        self.games, self._tokenizer, self._longest = games, tokenizer, longest
        self._begin = beginning(tokenizer)

    def next(self) -> list[Group]:
        """Return the next step of all games."""
        return self.examples(self.games.next())

    def examples(self, positions: Sequence[Sequence[Demonstration]]) -> list[Group]:
        """Return the decisions as examples, in their groups; all are encoded at once.

        Raises `InputError` for one that is too long for the model.
        """
        flat = [decision for position in positions for decision in position]
        prompts = encode(self._tokenizer, [one.text for one in flat])
        answers = encode(self._tokenizer, [one.answer for one in flat])
        end = self._tokenizer.eos_token_id
        pairs = zip(prompts, answers, strict=True)
        examples = [Example([*self._begin, *prompt], [*answer, end]) for prompt, answer in pairs]
        self._check_lengths(examples)
        following = iter(examples)
        return [[next(following) for _ in position] for position in positions]

    def _check_lengths(self, examples: Sequence[Example]) -> None:
        tokens = max((len(one.prompt) + len(one.answer) for one in examples), default=0)
        if self._longest and tokens > self._longest:
            raise InputError(
                f"an example has {tokens} tokens, but the model reads {self._longest} at most: choose another with"
                " model.name, or show less in its prompts"
            )
