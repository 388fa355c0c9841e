"""Requests for a decision: one for all lines, or one for each line with a choice, with a constraint on the answer.

Requests are in OpenAI's protocol, optionally with the extensions of vLLM. Plain ones contain nothing that another
server might reject. A constrained one turns off everything that would truncate the distribution (by default vLLM takes
top-k and top-p from the model's files). With a tokenizer, prompts are token ids, and answers come with their token ids
and the alternatives of each.

Constraints are vLLM's `structured_outputs`. A choice and a regex constrain text: their mask allows every tokenization
of a line, also those that no tokenizer produces. A grammar of token ids constrains tokens: each state of our automaton
is a rule and each of its edges an alternative, so the server uses the mask of training. It is in the syntax of
llguidance, where `<[7]>` is token 7. None of them includes the closing tokens, since these are not part of the
decision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Any

from sparring.agents.language.decoding.constraint import Automaton, Constraint, Steps, beginning, encode
from sparring.agents.language.endpoint.answer import WHOLE, EndpointError, ServerAnswer, Usage, model_names, read_answer
from sparring.agents.language.endpoint.http import Client
from sparring.agents.language.endpoint.kept import KeptAnswers, key_of
from sparring.agents.language.endpoint.price import CHARACTERS, Forecast, Spending
from sparring.agents.language.endpoint.refused import Accepted
from sparring.agents.language.endpoint.retry import Persistence
from sparring.configs.core.errors import InputError
from sparring.configs.core.status import say
from sparring.configs.language import EndpointConfig
from sparring.envs.text import FreeText, Menu, Option, TextFormat

FOR_GUIDANCE = "%llguidance {}"
"""Only llguidance accepts this line, so vLLM selects it if the backend is automatic. xgrammar 0.2.8 reads token ids
too, but allows wrong ones at 1 in 70 tokens."""
PATHS = {"completions": "/completions", "chat": "/chat/completions"}
WHOLE_DISTRIBUTION = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
BY_ID = {"return_token_ids": True, "return_tokens_as_token_ids": True}
SEEDS = 1 << 31
ROOM = 64
"""Tokens beyond the longest answer, for text that a server writes around an unconstrained answer."""
BETWEEN_SEEDS = 7919
SPECIAL = r"([.^$*+?()\[\]{}|\\])"
"""Characters with a meaning in a server's regex."""


def line_choice(menu: Sequence[Option]) -> dict[str, list[str]]:
    """Return the choice of one line; options include the line end, so none is a prefix of another."""
    return {"choice": [f"{option.text}\n" for option in menu]}


def decision_regex(choices: Menu) -> dict[str, str]:
    """Return the regex of a menu of independent lines; dependent lines have no short regex."""
    menus = (choices.menu(line) for line in range(choices.lines))
    lines = ("|".join(re.sub(SPECIAL, r"\\\1", option.text) for option in menu) for menu in menus)
    return {"regex": "".join(f"({line})\\n" for line in lines)}


def decision_grammar(automaton: Automaton, closing: int) -> dict[str, str]:
    """Return the grammar of an automaton of one decision, without its last `closing` tokens."""
    end = len(automaton.token) - closing
    begin = int(automaton.begin[0, 0])
    rules, waiting = {}, [(begin, int(automaton.begin[0, 1]))]
    while waiting:
        state, count = waiting.pop()
        if state not in rules:
            paths = [_path(automaton, edge, end) for edge in range(state, state + count)]
            rules[state] = f"s{state}: " + " | ".join(text for text, _ in paths)
            waiting += [goal for _, goal in paths if goal[0] < end]
    return {"grammar": "\n".join([FOR_GUIDANCE, f"start: s{begin}", *rules.values()])}


def token_grammar(ids: Sequence[int]) -> dict[str, str]:
    """Return the grammar of one token, which is any of `ids`."""
    return {"grammar": "\n".join([FOR_GUIDANCE, "start: " + " | ".join(f"<[{token}]>" for token in ids)])}


def _path(automaton: Automaton, edge: int, end: int) -> tuple[str, tuple[int, int]]:
    """Return one alternative: an edge with the forced edges after it, and the state they lead to, if not the end."""
    tokens = []
    while True:
        tokens.append(f"<[{automaton.token[edge]}]>")
        state, count = int(automaton.start[edge]), int(automaton.count[edge])
        if state >= end or count != 1:
            return " ".join([*tokens, *([f"s{state}"] if state < end else [])]), (state, count)
        edge = state


class Spelling:
    """Tokenization of prompts and legal answers; raises `TokenizerError` if answers have more than one."""

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

    def compile(self, menus: Sequence[Menu]) -> Automaton:
        """Return one automaton for all menus."""
        with self._lock:
            return self._constraint.compile(menus)

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


@dataclass(frozen=True)
class Question:
    """Prompt (text or token ids), constraint on the answer (None: none), largest number of tokens, and seed."""

    prompt: str | Sequence[int]
    structured: Mapping[str, Any] | None
    max_tokens: int
    seed: int


Put = Callable[[Question], ServerAnswer]


class Asker:
    """Sender of requests to one model of one server; counts tokens. `closing` ends an unconstrained answer."""

    def __init__(self, config: EndpointConfig, client: Client, persistence: Persistence, closing: str) -> None:
        self._config, self._client, self._persistence = config, client, persistence
        self._closing, self.model = closing, config.model
        self._accepted, self._told = Accepted(), dict[str, str]()
        self.kept: KeptAnswers | None = None
        """Set by `keep`."""
        self.spending: Spending | None = None

    @property
    def notes(self) -> dict[str, str]:
        """Lines on parameters that the server refuses, by their names, and on its unknown reasons for an end."""
        return self._accepted.notes | self._told

    def keep(self, answers: KeptAnswers) -> None:
        """Take answers from a file, and what is known of the server, and add new ones."""
        self.kept = answers
        self._accepted.notes |= answers.refused

    def find_model(self, until: float) -> None:
        """If no model is named, use the server's only one; raises `InputError` unless it has one."""
        if self.model:
            return
        read = partial(model_names, hide=self._client.hide)
        names = self._persistence.ask(lambda time: self._client.ask("/models", None, time, read), seed=0, until=until)
        if len(names) != 1:
            text = f"endpoint.model: {self._config.url} has {len(names)} models: {', '.join(names)}; name one"
            raise InputError(self._client.hide(text))
        self.model = names[0]

    def ask(self, question: Question, *, temperature: float, by_id: bool, until: float) -> ServerAnswer:
        """Return the answer before `until`, with token ids and alternatives if `by_id`. Raises `EndpointError`."""
        body = self._body(question, temperature, by_id)
        first, kept = True, False
        if self.kept is None:
            answer = self._send(body, question.seed, by_id, until)
        else:
            send = partial(self._send, body, question.seed, by_id, until)
            answer, first, kept = self.kept.answer(key_of(body), send)
        if answer.unknown:
            text = f"finish_reason={answer.unknown!r} is unknown; such answers count as complete"
            self._say(f"finish {answer.unknown}", text)
        if first:
            self._count(answer.usage)
        self._persistence.meter.add("kept_answers", kept)
        if self.spending:
            self.spending.tick()
        return answer

    def _send(self, complete: Mapping[str, Any], seed: int, by_id: bool, until: float) -> ServerAnswer:
        """Send a request, without what the server refuses; raises `EndpointError`."""
        while True:
            body = self._accepted.body(complete)
            read = partial(read_answer, hide=self._client.hide)
            once = partial(self._client.ask, PATHS[self._config.api], body, read=read)
            try:
                return self._persistence.ask(once, seed=seed, until=until)
            except EndpointError as error:
                notes = self._accepted.refuse(error, body, exact=by_id)
                if notes is None:
                    raise
            for name, note in notes.items():
                say(f"warning: endpoint: {note}")
                if self.kept is not None:
                    self.kept.add_refused(name, note)

    def _count(self, usage: Usage) -> None:
        """Add the tokens of an answer; one without a count is counted as such, and said once."""
        for name, count in vars(usage).items():
            self._persistence.meter.add(f"{name}_tokens", count or 0)
        if not usage.is_counted:
            self._persistence.meter.add("uncounted_answers")
            self._say("usage", "an answer came without usage (token counts); token sums exclude it")

    def _say(self, about: str, text: str) -> None:
        """Warn of something once, and keep the text among the notes."""
        if about not in self._told:
            self._told[about] = text
            say(f"warning: endpoint: {text}")

    def _body(self, question: Question, temperature: float, by_id: bool) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.model,
            "max_completion_tokens" if self._config.max_completion_tokens else "max_tokens": question.max_tokens,
            "temperature": temperature,
            "seed": question.seed % SEEDS,
        }
        if self._config.reasoning_effort:
            body["reasoning_effort"] = self._config.reasoning_effort
        if self._config.api == "chat":
            body["messages"] = [{"role": "user", "content": question.prompt}]
        else:
            body["prompt"] = question.prompt
        if question.structured is None and not by_id:
            # A conversation ends by itself, and reasoning that names the closing tag must not end there.
            return body if self._config.api == "chat" else {**body, "stop": [self._closing]}
        if question.structured is not None:
            body["structured_outputs"] = question.structured
        return body | WHOLE_DISTRIBUTION | ({"logprobs": self._config.logprobs, **BY_ID} if by_id else {})


@dataclass
class Writing:
    """Text of an answer, built part by part.

    Attributes: `text`; `finish`, the end of the last part that is not whole (`FINISHES` in answer.py); `token_ids` and
    the `alternatives` of each, None once a part lacks them; `same_prompt`, whether the server read all prompts as the
    ids sent; `answers`, those of its parts.

    """

    text: str = ""
    finish: str = WHOLE
    token_ids: list[int] | None = field(default_factory=list)
    alternatives: list[Mapping[int, float]] | None = field(default_factory=list)
    same_prompt: bool = True
    answers: list[ServerAnswer] = field(default_factory=list)

    def add(self, question: Question, answer: ServerAnswer, end: int | None) -> None:
        """Append an answer without the id `end`, the end of text, which is not part of the decision."""
        ids, length = answer.token_ids, len(answer.token_ids or ())
        if ids and ids[-1] == end:
            length -= 1
        self.finish = answer.finish or self.finish
        self.answers.append(answer)
        self.same_prompt &= answer.prompt_ids == tuple(question.prompt)
        self.append(answer.text, ids and ids[:length], answer.alternatives and answer.alternatives[:length])

    def append(self, text: str, ids: Sequence[int] | None, alternatives: Sequence[Mapping[int, float]] | None) -> None:
        """Append a part; None if its ids or alternatives are unknown."""
        self.text += text
        self.token_ids = None if ids is None or self.token_ids is None else [*self.token_ids, *ids]
        recorded = alternatives is not None and self.alternatives is not None
        self.alternatives = [*(self.alternatives or ()), *(alternatives or ())] if recorded else None


class Writer:
    """Requester of decisions; `structured` is tokens, choice, regex or none, and `tokens` needs a spelling.

    `max_tokens` bounds each answer; 0 allows what the longest legal one needs.
    """

    def __init__(self, structured: str, spelling: Spelling | None, max_tokens: int = 0) -> None:
        self.structured, self._spelling, self._max_tokens = structured, spelling, max_tokens
        self._end = spelling.end if spelling else None

    def write(self, prompt: str | list[int], choices: Menu | FreeText, seed: int, put: Put) -> Writing:
        """Return a decision written through questions to `put`, whose `EndpointError` propagates."""
        structured: Mapping[str, str] | None = None
        if not isinstance(choices, FreeText):
            if self._by_line(choices):
                return self._write_lines(prompt, choices, seed, put)
            if self.structured == "tokens" and self._spelling:
                structured = self._spelling.grammar(choices)
            elif self.structured == "regex":
                structured = decision_regex(choices)
        question = Question(prompt, structured, self._most(choices), seed)
        writing = Writing()
        writing.add(question, put(question), self._end)
        return writing

    def forecast(self, prompt: str, choices: Menu | FreeText) -> Forecast:
        """Return the requests and tokens of one decision; a line's prompt repeats those before it."""
        requests, most = 1, self._most(choices)
        if not isinstance(choices, FreeText) and self._by_line(choices):
            requests = sum(len(choices.menu(line)) > 1 for line in range(choices.lines))
            most = self._max_tokens or choices.longest + 2
        return Forecast(requests, requests * len(prompt) // CHARACTERS, requests * most)

    def _by_line(self, choices: Menu) -> bool:
        """Return whether each line with a choice is a request."""
        return self.structured == "choice" or (self.structured == "regex" and not choices.independent)

    def _most(self, choices: Menu | FreeText) -> int:
        """Return the most tokens of an answer: one for a character of the longest one, and for its end."""
        if isinstance(choices, FreeText):
            return self._max_tokens or choices.tokens
        return self._max_tokens or choices.lines * (choices.longest + 1) + (ROOM if self.structured == "none" else 1)

    def _write_lines(self, prompt: str | list[int], choices: Menu, seed: int, put: Put) -> Writing:
        """Write line by line, until one is not legal; earlier lines are part of the next line's prompt."""
        writing, last = Writing(), -1
        for line in range(choices.lines):
            menu = choices.menu(line, last)
            if len(menu) > 1:
                option = self._ask_line(writing, prompt, menu, seed + line * BETWEEN_SEEDS, put)
                if option is None:
                    break
                ids = self._spelling.line(option) if self._spelling else []
            else:
                option = menu[0]
                ids = self._spelling.line(option) if self._spelling else []
                writing.append(f"{option.text}\n", ids, [{token: 0.0} for token in ids])
            prompt, last = f"{prompt}{option.text}\n" if isinstance(prompt, str) else [*prompt, *ids], option.slot
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
