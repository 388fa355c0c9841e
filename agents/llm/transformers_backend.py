"""Backend that runs a transformers model in this process: batched, exact, and reproducible for each request.

Requests are sorted by the lengths of answer and prompt, so that a batch holds answers of similar length. Every draw
depends on the request's own seed; other requests in the batch affect a decision only through rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from sparring.agents.llm.backend import Decision, PromptError, check_temperature
from sparring.agents.llm.decoding.constraint import Constraint, Steps, Walks
from sparring.agents.llm.decoding.kv_cache import check_context
from sparring.agents.llm.decoding.line_tokens import beginning, decode, encode
from sparring.agents.llm.decoding.option_logprobs import LineOdds, line_odds
from sparring.agents.llm.decoding.output_layer import check_head, plain, without_dropout
from sparring.agents.llm.decoding.prefill import CacheCounts
from sparring.agents.llm.decoding.sampling import sample
from sparring.agents.llm.decoding.seeded_sampling import seeds_of
from sparring.configs.language import LanguageModelConfig
from sparring.envs.text import FreeText, Menu, Prompt


class TransformersBackend:
    """Backend for `model`, a causal language model from transformers, optionally wrapped by peft.

    Args:
        model: put into evaluation mode while it decides, then back into its previous mode.
        tokenizer: the model's.
        constraint: the legal answers in tokens of that tokenizer; backends may share it.
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
        constraint: Constraint,
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
        """True if log-probabilities are those of the sampling distribution."""
        return self.temperature > 0

    def decide(self, requests: Sequence[Prompt]) -> list[Decision]:
        """Return one decision per request, in order; requests without a line to write do not use the model.

        Raises `PromptError` for prompts that are too long or empty, before anything is drawn.
        """
        places = [place for place, request in enumerate(requests) if request.is_open]
        asked = [requests[place] for place in places]
        prompts = self._encode(asked)
        self._check_prompts(asked, prompts, places)
        automaton = self.constraint.compile([request.menu for request in asked])
        order = sorted(range(len(asked)), key=lambda row: (-asked[row].menu.lines, -len(prompts[row]), row))
        decisions = [self._nothing()] * len(requests)
        with self._playing(), without_dropout(self._model):
            for begin in range(0, len(order), self.batch_size):
                rows = order[begin : begin + self.batch_size]
                walks, seeds = Walks(automaton, rows), seeds_of([asked[row].seed for row in rows])
                sample(self._model, walks, [prompts[row] for row in rows], seeds, self.temperature, self.counts)
                for row, steps in zip(rows, walks.steps(), strict=True):
                    decisions[places[row]] = self._decision(prompts[row], steps, asked[row].menu)
        return decisions

    def odds(self, request: Prompt, decision: Decision) -> list[LineOdds]:
        """Return the probability of every option of every line, at temperature 1 if it is 0; empty for free text."""
        if not request.menu.lines:
            return []
        automaton = self.constraint.compile([request.menu])
        ids, temperature = (decision.prompt_ids, decision.token_ids), self.temperature or 1.0
        with self._playing(), without_dropout(self._model):
            return line_odds(self._model, automaton, *ids, temperature=temperature, batch_size=self.batch_size)

    def metrics(self) -> dict[str, float]:
        """Return the metrics `cache/...` of all decisions so far."""
        return self.counts.metrics()

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _encode(self, requests: Sequence[Prompt]) -> list[np.ndarray]:
        """Token ids int64 of each prompt."""
        unlike = list(dict.fromkeys(request.text for request in requests))
        encoded = (np.array([*self._begin, *ids], dtype=np.int64) for ids in encode(self._tokenizer, unlike))
        ids = dict(zip(unlike, encoded, strict=True))
        return [ids[request.text] for request in requests]

    def _check_prompts(self, requests: Sequence[Prompt], prompts: Sequence[np.ndarray], places: Sequence[int]) -> None:
        found = [self._complaint(request, len(prompt)) for request, prompt in zip(requests, prompts, strict=True)]
        wrong = {place: complaint for place, complaint in zip(places, found, strict=True) if complaint}
        if wrong:
            raise PromptError(next(iter(wrong.values())), tuple(wrong))

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
        lines = self.constraint.lines
        answer = menu.lines * int(lines.lengths.max()) + len(lines.closing)
        answer = menu.tokens + 1 if isinstance(menu, FreeText) else answer
        reach = getattr(plain(self._model).config, "max_position_embeddings", None)
        if reach and tokens + answer > reach:
            return (
                f"the prompt for {name} has {tokens} tokens and its answer may have {answer},"
                f" but the model {self.name} reads {reach} at most: show less of the board"
            )
        return ""

    def _decision(self, prompt: np.ndarray, steps: Steps, menu: Menu | FreeText | None = None) -> Decision:
        return Decision(
            chosen=steps.chosen,
            prompt_ids=prompt.astype(np.int32),
            token_ids=steps.token_ids,
            logprobs=steps.logprobs,
            allowed_ids=steps.allowed_ids,
            allowed_counts=steps.allowed_counts,
            policy_version=self.policy_version,
            exact=self.exact,
            free_text=decode(self._tokenizer, steps.token_ids[:-1].tolist()) if isinstance(menu, FreeText) else "",
        )

    def _nothing(self) -> Decision:
        """Return the decision of a seat with nothing to decide: the closing tokens."""
        closing = self.constraint.lines.closing
        ones = np.ones(len(closing), dtype=np.int32)
        return self._decision(closing[:0], Steps(closing, np.zeros(len(closing), np.float32), closing, ones, ()))
