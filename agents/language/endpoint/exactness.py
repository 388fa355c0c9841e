"""Decisions from a server's answers: legal or replaced, and exact or not, with the reason.

A decision is exact if the server read the prompt as the same tokens, generated tokens that the constraint allows, and
drew each from the constrained distribution at our temperature. At every token of an answer the server's possible ids
must be the ids that the constraint allows. With another mask there are more, and raw log-probabilities cover all
tokens; with top-k or top-p there are fewer. Their probabilities must sum to 1.

A server is tested when it is opened: by its config, then by a trial with a token at two temperatures and a decision.
Differences between log-probabilities are inversely proportional to the temperature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sparring.agents.language.backend import CUT, FALLBACK, STOP, Decision
from sparring.agents.language.decoding.constraint import Steps
from sparring.agents.language.endpoint.answer import CUT as LENGTH
from sparring.agents.language.endpoint.answer import ServerAnswer
from sparring.agents.language.endpoint.request import Question, Spelling, Writer, Writing
from sparring.agents.language.endpoint.retry import PROBLEM_OF, Meter
from sparring.configs.core.errors import InputError
from sparring.configs.language import EndpointConfig
from sparring.envs.text import FreeText, Menu, TextFormat

TOLERANCE = 1e-3
"""Absolute error of a sum of probabilities, and of the temperature times a difference of log-probabilities."""
PROCESSED = "vLLM needs --logprobs-mode processed_logprobs"
NOT_BY_ID = "the server returns no log-probabilities by token id"
LEAST_SPREAD = 0.05
"""Least spread of the tokens' scaled log-probabilities, in nats, to determine a temperature."""


def logprobs_of(steps: Steps, alternatives: Sequence[Mapping[int, float]] | None, limit: int) -> tuple[np.ndarray, str]:
    """Return log-probabilities float32 [T] of an answer's steps, and why they are not exact; empty if they are.

    Args:
        steps: the answer under our constraint, with the closing tokens, which are not requested.
        alternatives: for each token before these, the possible ids and their log-probabilities.
        limit: number of alternatives requested.

    """
    logprobs = np.zeros(len(steps.token_ids), dtype=np.float32)
    if alternatives is None:
        return logprobs, NOT_BY_ID
    allowed = np.split(steps.allowed_ids, np.cumsum(steps.allowed_counts)[:-1])
    for step, (options, ids) in enumerate(zip(alternatives, allowed, strict=False)):
        if problem := difference(options, set(ids.tolist()), limit):
            return logprobs, f"at token {step} {problem}"
        if len(ids) > 1:
            logprobs[step] = options[int(steps.token_ids[step])]
    return logprobs, ""


def difference(alternatives: Mapping[int, float], allowed: set[int], limit: int) -> str:
    """Return the difference of a server's distribution from one over the allowed ids; empty if none."""
    if extra := sorted(set(alternatives) - allowed):
        return f"the server may return {len(extra)} ids that the constraint forbids, such as {extra[0]}"
    if fewer := sorted(allowed - set(alternatives)):
        if len(allowed) > limit:
            return f"{len(allowed)} ids are allowed and endpoint.logprobs={limit} shows fewer"
        return f"the server cannot return {len(fewer)} ids that the constraint allows, such as {fewer[0]}"
    total = float(np.exp(np.array(list(alternatives.values()), dtype=np.float64)).sum())
    return "" if abs(total - 1.0) <= TOLERANCE else f"probabilities sum to {total:.4f}"


def temperature_problem(
    first: Mapping[int, float], second: Mapping[int, float], temperature: float, other_temperature: float
) -> str:
    """Return why log-probabilities of one token are not at two temperatures; empty if they are."""
    common = sorted(set(first) & set(second))
    if len(common) < 2:
        return "the server returns too few alternatives to determine its temperature"
    answers = zip((first, second), (temperature, other_temperature), strict=True)
    scaled = [degree * np.array([answer[token] for token in common], dtype=np.float64) for answer, degree in answers]
    logits, other_logits = (values - values.max() for values in scaled)
    if -logits.min() < LEAST_SPREAD:
        return "all tokens are equally likely, so its temperature cannot be determined"
    worst = float(np.abs(logits - other_logits).max())
    if worst > 0.01 * float(-logits.min()) + TOLERANCE:
        return f"its log-probabilities do not match the requested temperature (off by {worst:.2g}); {PROCESSED}"
    return ""


class Judge:
    """Converter of writings to decisions. `reason` is why none of them can be exact, empty if they may be."""

    def __init__(
        self, text_format: TextFormat, spelling: Spelling | None, meter: Meter, limit: int, reason: str
    ) -> None:
        self._format, self._spelling, self._meter = text_format, spelling, meter
        self._limit, self.reason = limit, reason

    def decision(self, prompt: str | list[int], choices: Menu | FreeText, writing: Writing) -> Decision:
        """Return the written decision; if it is not legal, its legal part with the rest filled in."""
        if isinstance(choices, FreeText):
            if writing.finish:
                self._meter.add(f"errors/{PROBLEM_OF[writing.finish]}")
            ended = CUT if writing.finish == LENGTH else STOP
            why = "free text from a server is not checked"
            return Decision((), finish_reason=ended, why_inexact=why, free_text=writing.text)
        ids = writing.token_ids
        steps = None if self._spelling is None or ids is None else self._spelling.replay(choices, ids)
        if steps is not None:
            return self._checked(np.array(prompt, dtype=np.int32), steps, writing)
        reading = self._format.read(writing.text, choices)
        self._meter.add("orders_due", choices.lines)
        self._meter.add("orders_read", reading.orders_extracted)
        self._meter.add("orders_illegal", reading.illegal)
        self._meter.add("lines_unread", len(reading.problems))
        if reading.complete:
            reason = self.reason or "its tokens differ from the tokenizer's for the same lines"
            return Decision(reading.chosen, why_inexact=reason)
        # Truncated also if all of it was reasoning, which some servers send apart from the text.
        problem = PROBLEM_OF.get(writing.finish) or ("illegal" if writing.text.strip() else "empty")
        self._meter.add(f"errors/{problem}")
        unread = next(iter(reading.problems), None)
        first = f": {unread.text[:100]!r}: {unread.problem[:200]}" if unread else ""
        return Decision(reading.chosen, finish_reason=FALLBACK, why_inexact=f"the answer is {problem}{first}")

    def fallback(self, choices: Menu | FreeText, reason: str) -> Decision:
        """Return a legal decision for a request without an answer."""
        if isinstance(choices, FreeText):
            return Decision((), finish_reason=FALLBACK, why_inexact=reason)
        return Decision(self._format.read("", choices).chosen, finish_reason=FALLBACK, why_inexact=reason)

    def _checked(self, prompt: np.ndarray, steps: Steps, writing: Writing) -> Decision:
        logprobs, reason = logprobs_of(steps, writing.alternatives, self._limit)
        reason = self.reason or reason
        if not writing.same_prompt:
            reason = reason or "the server tokenizes the prompt differently, or does not return its tokens"
        if reason:
            return Decision(steps.chosen, why_inexact=reason)
        done = replace(steps, logprobs=logprobs)
        return Decision(
            done.chosen, prompt, done.token_ids, done.logprobs, done.allowed_ids, done.allowed_counts, exact=True
        )


def checked_spelling(
    config: EndpointConfig,
    temperature: float,
    tokenizer: Any,
    text_format: TextFormat,
    put: Callable[[Question], ServerAnswer],
) -> tuple[Spelling | None, str]:
    """Return the spelling to check answers with, if any, and the reason why no answer can be exact, if any.

    Raises `InputError` if a required tokenizer is missing, or differs from the server's.
    """
    reason = _hopeless(config, temperature, tokenizer)
    if config.structured == "tokens" and tokenizer is None:
        raise InputError("endpoint.structured=tokens: needs the model's tokenizer; without it, use choice or regex")
    if tokenizer is None or config.api == "chat" or config.structured == "none":
        return None, reason
    spelling = Spelling(tokenizer, text_format)
    if _reads_alike(spelling, text_format.sample, put):
        return spelling, reason
    if config.structured == "tokens":
        raise InputError("endpoint.structured=tokens: the server returns no token ids; use choice, regex or none")
    return None, reason or NOT_BY_ID


def _hopeless(config: EndpointConfig, temperature: float, tokenizer: Any) -> str:
    if config.api == "chat":
        return "endpoint.api=chat wraps the prompt in the server's own chat template"
    if config.structured == "none":
        return "endpoint.structured=none restricts nothing"
    if tokenizer is None:
        return "its answers cannot be checked without a tokenizer"
    return "" if temperature > 0 else "at temperature 0 nothing is sampled"


def _reads_alike(spelling: Spelling, sample: str, put: Callable[[Question], ServerAnswer]) -> bool:
    """Return True if the server reads a text as the same token ids, False if it does not return its ids.

    Raises `InputError` if they differ, since prompts sent as ids would then be meaningless.
    """
    read, ours = put(Question(sample, None, 1, 0)).prompt_ids, spelling.prompt(sample)
    if read is not None and list(read) != ours:
        raise InputError(
            f"endpoint: the server reads {sample[:11]!r} as tokens {list(read)[:4]}, the tokenizer given as {ours[:4]}:"
            " name the server's model in model.name"
        )
    return read is not None


def trial(
    prompt: list[int], menu: Menu, temperature: float, writer: Writer, judge: Judge, put: Callable[..., ServerAnswer]
) -> str:
    """Return why a server's decisions are not exact; empty if a first one is. `put` takes a question and a temperature.

    Raises `EndpointError` if the server does not answer.
    """
    question = Question(prompt, None, 1, 0)
    other = 2 * temperature if temperature <= 1 else temperature / 2  # servers allow at most 2
    answers = [put(question, degree).alternatives for degree in (temperature, other)]
    if not all(answers):
        return NOT_BY_ID
    first, second = (alternatives[0] for alternatives in answers if alternatives)
    if problem := temperature_problem(first, second, temperature, other):
        return problem
    writing = writer.write(prompt, menu, 0, lambda question: put(question, temperature))
    decision = judge.decision(prompt, menu, writing)
    if decision.finish_reason == FALLBACK:
        return f"endpoint.structured={writer.structured} does not keep its answers legal: it wrote {writing.text!r}"
    return decision.why_inexact
