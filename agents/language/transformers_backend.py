"""Backend that runs a transformers model in this process: batched, exact, and reproducible for each request.

Requests are sorted by the lengths of answer and prompt; a batch holds answers of similar length. Every draw depends on
the request's own seed; other requests in the batch affect a decision only through rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from sparring.agents.language.backend import CUT, STOP, Decision, ModelError, PromptError, check_temperature
from sparring.agents.language.decoding.constraint import Constraint, Steps, Walks, beginning, decode, encode
from sparring.agents.language.decoding.forward import CacheCounts, check_context, check_head, plain, without_dropout
from sparring.agents.language.decoding.sampling import FreeRequests, sample, sample_free_text, seeds_of
from sparring.agents.language.decoding.scoring import LineOdds, line_odds, option_probabilities
from sparring.configs.language import LanguageModelConfig
from sparring.envs.text import FreeText, Menu, Prompt


class TransformersBackend:
    """Backend for `model`, a causal language model from transformers, optionally wrapped by peft.

    Args:
        model: put into evaluation mode while it decides, then back into its previous mode.
        tokenizer: the model's.
        constraint: the legal answers in tokens of that tokenizer; backends may share it. None: only free text.
        temperature: sampling temperature; 0 takes the likeliest token, for evaluation; these decisions are not exact.
        batch_size: decisions sampled at once.
        max_prompt_tokens: longer prompts are rejected.
        playing: context manager entered while the model decides, to select the adapter that plays.
        name: name in messages and tables.

    Raises `ModelError` if the model cannot give exact answers, and `InputError` for a temperature outside [0, 10].
    `policy_version` is copied into decisions; the trainer sets it. Nothing computed from the weights is kept between
    calls, so they may change.

    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        constraint: Constraint | None,
        temperature: float = 1.0,
        batch_size: int = 128,
        max_prompt_tokens: int = 2048,
        playing: Callable[[], AbstractContextManager[Any]] = nullcontext,
        name: str = "model",
    ) -> None:
        check_temperature(temperature)
        check_head(model)
        check_context(model)
        self.constraint = constraint
        self.temperature, self.batch_size, self.max_prompt_tokens = temperature, batch_size, max_prompt_tokens
        self.name, self.policy_version, self.counts = name, 0, CacheCounts()
        self._model, self._tokenizer, self._playing = model, tokenizer, playing
        self._begin = beginning(tokenizer)

    @classmethod
    def of(cls, config: LanguageModelConfig, model: Any, tokenizer: Any, **options: Any) -> TransformersBackend:
        """Build a backend with the temperature and sizes of `config`; `options` are the remaining arguments."""
        for name in ("temperature", "batch_size", "max_prompt_tokens"):
            options[name] = getattr(config, name)
        return cls(model, tokenizer, **options)

    @property
    def exact(self) -> bool:
        """True if log-probabilities are of the sampling distribution."""
        return self.temperature > 0

    def decide(self, requests: Sequence[Prompt]) -> list[Decision]:
        """Return one decision per request, in order; requests without a line to write do not use the model.

        Raises `PromptError` for prompts that are too long or empty, before anything is drawn.
        """
        places = [index for index, request in enumerate(requests) if request.is_open]
        open_requests = [requests[index] for index in places]
        prompts = self._readable(open_requests, places)
        free = [isinstance(request.menu, FreeText) for request in open_requests]
        decisions: list[Decision | None] = [None] * len(requests)
        with self._playing(), without_dropout(self._model):
            for kind, write in ((False, self._choose), (True, self._write)):
                rows = [row for row, is_free in enumerate(free) if is_free is kind]
                order = sorted(rows, key=lambda row: (-open_requests[row].menu.lines, -len(prompts[row]), row))
                for begin in range(0, len(order), self.batch_size):
                    part = order[begin : begin + self.batch_size]
                    written = write([open_requests[row] for row in part], [prompts[row] for row in part])
                    for row, decision in zip(part, written, strict=True):
                        decisions[places[row]] = decision
        return [self._nothing() if decision is None else decision for decision in decisions]

    def at(self, temperature: float) -> TransformersBackend:
        """Return a backend of the same model at another temperature."""
        check_temperature(temperature)
        other = copy(self)
        other.temperature = temperature
        return other

    def of_player(self, name: str, playing: Callable[[], AbstractContextManager[Any]]) -> TransformersBackend:
        """Return a backend of the same model for the player `name`, in whose context `playing` it decides."""
        other = copy(self)
        other.name, other.counts, other._playing = name, CacheCounts(), playing
        return other

    def policies(self, requests: Sequence[Prompt]) -> list[np.ndarray]:
        """Return the probabilities of the options of each menu of one line, float64 [n], in the menu's order.

        At temperature 0 the option that is decided has 1. Raises as `decide` does.
        """
        menus = [self._menu_of(request) for request in requests]
        options = [menu.menu(0) for menu in menus]
        if not self.temperature:
            chosen = [decision.chosen[0] for decision in self.decide(requests)]
            lines = [{option: float(option == one) for option in of} for of, one in zip(options, chosen, strict=True)]
        else:
            assert self.constraint is not None
            prompts, automaton = self._readable(requests, range(len(requests))), self.constraint.compile(menus)
            with self._playing(), without_dropout(self._model):
                lines = option_probabilities(
                    self._model, automaton, prompts, temperature=self.temperature, batch_size=self.batch_size
                )
        return [np.array([line[option] for option in of]) for line, of in zip(lines, options, strict=True)]

    def odds(self, request: Prompt, decision: Decision) -> list[LineOdds]:
        """Return the probability of every option of every line, at temperature 1 if it is 0; empty for free text."""
        if isinstance(request.menu, FreeText) or not request.menu.lines:
            return []
        assert self.constraint is not None
        automaton = self.constraint.compile([request.menu])
        ids, temperature = (decision.prompt_ids, decision.token_ids), self.temperature or 1.0
        with self._playing(), without_dropout(self._model):
            return line_odds(self._model, automaton, *ids, temperature=temperature, batch_size=self.batch_size)

    def metrics(self) -> dict[str, float]:
        """Return the metrics `cache/...` of all decisions so far."""
        return self.counts.metrics()

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _menu_of(self, request: Prompt) -> Menu:
        if self.constraint is None or isinstance(request.menu, FreeText) or request.menu.lines != 1:
            raise ModelError(f"model {self.name}: offers exact probabilities for one-line menus only")
        return request.menu

    def _readable(self, requests: Sequence[Prompt], places: Sequence[int]) -> list[np.ndarray]:
        """Return the token ids of prompts, which are at `places`; raises `PromptError` for those that are not read."""
        prompts = self._encode(requests)
        complaints = [self._complaint(request, len(ids)) for request, ids in zip(requests, prompts, strict=True)]
        if wrong := {index: complaint for index, complaint in zip(places, complaints, strict=True) if complaint}:
            raise PromptError(next(iter(wrong.values())), tuple(wrong))
        return prompts

    def _choose(self, requests: Sequence[Prompt], prompts: Sequence[np.ndarray]) -> list[Decision]:
        """Return the answers from menus."""
        if self.constraint is None:
            raise ModelError(f"model {self.name}: is configured for free text and cannot answer from a menu")
        menus = [request.menu for request in requests if not isinstance(request.menu, FreeText)]
        walks = Walks(self.constraint.compile(menus), range(len(menus)))
        sample(self._model, walks, prompts, _seeds(requests), self.temperature, self.counts)
        return [self._decision(*pair, self.temperature) for pair in zip(prompts, walks.steps(), strict=True)]

    def _write(self, requests: Sequence[Prompt], prompts: Sequence[np.ndarray]) -> list[Decision]:
        """Return the answers in free text."""
        menus = [request.menu for request in requests if isinstance(request.menu, FreeText)]
        temperature = np.array([menu.drawn_at(self.temperature) for menu in menus])
        limits, top_p = np.array([menu.tokens for menu in menus]), np.array([menu.top_p for menu in menus])
        texts = FreeRequests(prompts, limits, _seeds(requests), temperature, top_p)
        sizes = {"vocabulary": len(self._tokenizer), "end": self._tokenizer.eos_token_id}
        answers = sample_free_text(self._model, texts, **sizes, counts=self.counts)
        decisions = map(self._decision, prompts, answers, temperature.tolist())
        written = (decode(self._tokenizer, steps.token_ids[:-1].tolist()) for steps in answers)
        ends = [CUT if steps.allowed_counts[-1] == 1 else STOP for steps in answers]  # at its limit the end is forced
        return [
            replace(decision, free_text=text, finish_reason=end)
            for decision, text, end in zip(decisions, written, ends, strict=True)
        ]

    def _encode(self, requests: Sequence[Prompt]) -> list[np.ndarray]:
        """Token ids int64 of each prompt."""
        distinct = list(dict.fromkeys(request.text for request in requests))
        encoded = (np.array([*self._begin, *ids], dtype=np.int64) for ids in encode(self._tokenizer, distinct))
        ids = dict(zip(distinct, encoded, strict=True))
        return [ids[request.text] for request in requests]

    def _complaint(self, request: Prompt, tokens: int) -> str:
        """Return the problem with a prompt of `tokens` tokens, empty if it can be read."""
        name, menu = request.menu.name, request.menu
        if not tokens:
            return f"the prompt for {name} is empty: it ends with the line that begins the answer"
        if tokens > self.max_prompt_tokens:
            return (
                f"model.max_prompt_tokens={self.max_prompt_tokens}: the prompt for {name} has {tokens} tokens;"
                " allow more, or show less of the board"
            )
        answer = menu.tokens + 1 if isinstance(menu, FreeText) else self._most_tokens(menu.lines)
        reach = getattr(plain(self._model).config, "max_position_embeddings", None)
        if reach and tokens + answer > reach:
            return (
                f"the prompt for {name} has {tokens} tokens and its answer may have {answer},"
                f" but the model {self.name} accepts at most {reach}: show less of the board"
            )
        return ""

    def _most_tokens(self, lines: int) -> int:
        """Return the largest number of tokens of an answer with this many lines."""
        if self.constraint is None:
            return 0
        return lines * int(self.constraint.lines.lengths.max()) + len(self.constraint.lines.closing)

    def _decision(self, prompt: np.ndarray, steps: Steps, temperature: float) -> Decision:
        return Decision(
            chosen=steps.chosen,
            prompt_ids=prompt.astype(np.int32),
            token_ids=steps.token_ids,
            logprobs=steps.logprobs,
            allowed_ids=steps.allowed_ids,
            allowed_counts=steps.allowed_counts,
            temperature=temperature or 1.0,
            policy_version=self.policy_version,
            exact=temperature > 0,
        )

    def _nothing(self) -> Decision:
        """Return the decision of a seat with nothing to decide: the closing tokens."""
        if self.constraint is None:
            return Decision(())
        closing = self.constraint.lines.closing
        counts = np.ones(len(closing), dtype=np.int32)
        return self._decision(
            closing[:0], Steps(closing, np.zeros(len(closing), np.float32), closing, counts, ()), self.temperature
        )


def _seeds(requests: Sequence[Prompt]) -> np.ndarray:
    return seeds_of([request.seed for request in requests])
