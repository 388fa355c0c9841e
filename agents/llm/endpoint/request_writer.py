"""Requests for a decision: one for all lines, or one for each line with a choice.

With a tokenizer, prompts are token ids, and answers come with their token ids and the alternatives of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sparring.agents.llm.endpoint.answer import CUT, Answer
from sparring.agents.llm.endpoint.ask import Question
from sparring.agents.llm.endpoint.constraints import decision_regex, line_choice
from sparring.agents.llm.endpoint.locked_constraint import Spelling
from sparring.envs.text import FreeText, Menu, Option

ROOM = 64
"""Tokens beyond the longest answer, for text that a server writes around an unconstrained answer."""
BETWEEN_SEEDS = 7919

Put = Callable[[Question], Answer]


@dataclass
class Writing:
    """Text of an answer, built part by part.

    Attributes: `text`; `cut`, whether the token limit ended a part; `token_ids` and the `alternatives` of each, None
    once a part lacks them; `same_prompt`, whether the server read all prompts as the ids sent.

    """

    text: str = ""
    cut: bool = False
    token_ids: list[int] | None = field(default_factory=list)
    alternatives: list[Mapping[int, float]] | None = field(default_factory=list)
    same_prompt: bool = True

    def add(self, question: Question, answer: Answer, end: int | None) -> None:
        """Append an answer without the id `end`, the end of text, which is not part of the decision."""
        ids, kept = answer.token_ids, len(answer.token_ids or ())
        if ids and ids[-1] == end:
            kept -= 1
        self.cut |= answer.finish == CUT
        self.same_prompt &= answer.prompt_ids == tuple(question.prompt)
        self.append(answer.text, ids and ids[:kept], answer.alternatives and answer.alternatives[:kept])

    def append(self, text: str, ids: Sequence[int] | None, alternatives: Sequence[Mapping[int, float]] | None) -> None:
        """Append a part; None if its ids or alternatives are unknown."""
        self.text += text
        self.token_ids = None if ids is None or self.token_ids is None else [*self.token_ids, *ids]
        known = alternatives is not None and self.alternatives is not None
        self.alternatives = [*(self.alternatives or ()), *(alternatives or ())] if known else None


class Writer:
    """Requester of decisions; `structured` is tokens, choice, regex or none, and `tokens` needs a spelling.

    `max_tokens` bounds each answer; 0 allows what the longest legal one needs.
    """

    def __init__(self, structured: str, spelling: Spelling | None, max_tokens: int = 0) -> None:
        self.structured, self._spelling, self._max_tokens = structured, spelling, max_tokens
        self._end = spelling.end if spelling else None

    def write(self, prompt: str | list[int], choices: Menu | FreeText, seed: int, put: Put) -> Writing:
        """Return a decision written through questions to `put`, whose `EndpointError` propagates."""
        if isinstance(choices, FreeText):
            question = Question(prompt, None, choices.tokens, seed)
        elif self.structured == "choice" or (self.structured == "regex" and not choices.independent):
            return self._write_lines(prompt, choices, seed, put)
        else:
            question = Question(prompt, self._structure(choices), self._most_tokens(choices), seed)
        writing = Writing()
        writing.add(question, put(question), self._end)
        return writing

    def _structure(self, choices: Menu) -> Mapping[str, str] | None:
        if self.structured == "tokens" and self._spelling:
            return self._spelling.grammar(choices)
        return decision_regex(choices) if self.structured == "regex" else None

    def _most_tokens(self, choices: Menu) -> int:
        """Return the token limit of an answer: the given one, or one per character of the longest and for the end."""
        room = ROOM if self.structured == "none" else 1
        return self._max_tokens or choices.lines * (choices.longest + 1) + room

    def _write_lines(self, prompt: str | list[int], choices: Menu, seed: int, put: Put) -> Writing:
        """Write line by line, until one is not legal; earlier lines are part of the next line's prompt."""
        writing, last = Writing(), -1
        for line in range(choices.lines):
            menu = choices.menu(line, last)
            if len(menu) > 1:
                option = self._ask_line(writing, prompt, menu, seed + line * BETWEEN_SEEDS, put)
            else:
                option, ids = menu[0], self._ids(menu[0])
                writing.append(f"{option.text}\n", ids, [{token: 0.0} for token in ids])
            if option is None:
                break
            prompt, last = self._continued(prompt, option), option.slot
        return writing

    def _ask_line(
        self, writing: Writing, prompt: str | list[int], menu: Sequence[Option], seed: int, put: Put
    ) -> Option | None:
        """Request one line; return its option, None if it is not in the menu."""
        longest = max(len(option.text) for option in menu)
        question = Question(prompt, line_choice(menu), self._max_tokens or longest + 2, seed)
        answer = put(question)
        chosen = next((option for option in menu if option.text == answer.text.strip()), None)
        if chosen is not None:
            answer = replace(answer, text=f"{chosen.text}\n")  # some servers strip the line end
        writing.add(question, answer, self._end)
        return chosen

    def _ids(self, option: Option) -> list[int]:
        return self._spelling.line(option) if self._spelling else []

    def _continued(self, prompt: str | list[int], option: Option) -> str | list[int]:
        return f"{prompt}{option.text}\n" if isinstance(prompt, str) else [*prompt, *self._ids(option)]
