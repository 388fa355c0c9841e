"""Test for exactness of a server: by its config, then by a trial with a token at two temperatures and a decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparring.agents.llm.backend import FALLBACK
from sparring.agents.llm.endpoint.answer import Answer
from sparring.agents.llm.endpoint.ask import Question
from sparring.agents.llm.endpoint.decide import Judge
from sparring.agents.llm.endpoint.locked_constraint import Spelling
from sparring.agents.llm.endpoint.logprob_check import NOT_BY_ID, temperature_problem
from sparring.agents.llm.endpoint.request_writer import Writer
from sparring.configs.core.errors import InputError
from sparring.configs.language import EndpointConfig
from sparring.envs.text import Menu, TextFormat


def checked_spelling(
    config: EndpointConfig,
    temperature: float,
    tokenizer: Any,
    text_format: TextFormat,
    put: Callable[[Question], Answer],
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
        return "endpoint.api=chat puts the prompt into a conversation of the server's own form"
    if config.structured == "none":
        return "endpoint.structured=none restricts nothing"
    if tokenizer is None:
        return "there is no tokenizer to check its answers with"
    return "" if temperature > 0 else "at temperature 0 nothing is drawn"


def _reads_alike(spelling: Spelling, sample: str, put: Callable[[Question], Answer]) -> bool:
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
    prompt: list[int], menu: Menu, temperature: float, writer: Writer, judge: Judge, put: Callable[..., Answer]
) -> str:
    """Return why a server's decisions are not exact; empty if a first one is. `put` takes a question and a temperature.

    Raises `EndpointError` if there is no answer.
    """
    question = Question(prompt, None, 1, 0)
    other = 2 * temperature if temperature <= 1 else temperature / 2  # servers allow at most 2
    shown = [put(question, degree).alternatives for degree in (temperature, other)]
    if not all(shown):
        return NOT_BY_ID
    first, second = (alternatives[0] for alternatives in shown if alternatives)
    if problem := temperature_problem(first, second, temperature, other):
        return problem
    writing = writer.write(prompt, menu, 0, lambda question: put(question, temperature))
    decision = judge.decision(prompt, menu, writing)
    if decision.finish_reason == FALLBACK:
        return f"endpoint.structured={writer.structured} does not keep its answers legal: it wrote {writing.text!r}"
    return decision.why_inexact
