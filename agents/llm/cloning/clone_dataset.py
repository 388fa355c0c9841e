"""What a clone learns from: the prompt and the bot's answer of every power, a game's phase being one group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparring.agents.llm.cloning.bot_games import BotDecision, BotGames
from sparring.agents.llm.cloning.packing import Example, Group
from sparring.agents.llm.decoding.line_tokens import encode
from sparring.envs.diplomacy.orders.completion import write
from sparring.envs.diplomacy.text.prompts import PromptRules, render


class CloneDataset:
    """Groups of examples, in the tokens of `tokenizer`, from games that never end and are never seen twice."""

    def __init__(self, games: BotGames, tokenizer: Any, rules: PromptRules) -> None:
        self.games = games
        self._tokenizer, self._rules = tokenizer, rules

    def next(self) -> list[Group]:
        """The next phase of all games."""
        return self.examples(self.games.next())

    def examples(self, positions: Sequence[Sequence[BotDecision]]) -> list[Group]:
        """The decisions as examples, in their groups; all are encoded at once."""
        flat = [decision for position in positions for decision in position]
        prompts, answers = encode(self._tokenizer, self._prompts(flat)), encode(self._tokenizer, _answers(flat))
        end = self._tokenizer.eos_token_id
        examples = iter(Example(prompt, [*answer, end]) for prompt, answer in zip(prompts, answers, strict=True))
        return [[next(examples) for _ in position] for position in positions]

    def _prompts(self, decisions: Sequence[BotDecision]) -> list[str]:
        last_year = self.games.batch.last_year
        return [render(one.row, one.choices.power, one.choices, self._rules, last_year=last_year) for one in decisions]


def _answers(decisions: Sequence[BotDecision]) -> list[str]:
    return [write(one.chosen) for one in decisions]
