"""Decisions from a server's answers: legal or replaced, and exact or not, with the reason.

A decision is exact if the server read the prompt as the same tokens, generated tokens that the constraint allows, and
drew each of them from the constrained distribution at our temperature.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sparring.agents.llm.backend import FALLBACK, Decision
from sparring.agents.llm.decoding.constraint import Steps
from sparring.agents.llm.endpoint.locked_constraint import Spelling
from sparring.agents.llm.endpoint.logprob_check import logprobs_of
from sparring.agents.llm.endpoint.meter import Meter
from sparring.agents.llm.endpoint.request_writer import Writing
from sparring.envs.text import FreeText, Menu, MenuReading, TextFormat


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
            return Decision((), why_inexact="free text of a server is not checked", free_text=writing.text)
        ids = writing.token_ids
        steps = None if self._spelling is None or ids is None else self._spelling.replay(choices, ids)
        if steps is not None:
            return self._checked(np.array(prompt, dtype=np.int32), steps, writing)
        reading = self._format.read(writing.text, choices)
        self._meter.add("orders_read", reading.orders_extracted)
        self._meter.add("lines_unread", len(reading.problems))
        if reading.complete:
            reason = self.reason or "its tokens are not those in which the tokenizer writes the same lines"
            return Decision(reading.chosen, why_inexact=reason)
        problem = _problem(writing)
        self._meter.add(f"errors/{problem}")
        return Decision(reading.chosen, finish_reason=FALLBACK, why_inexact=f"the answer is {problem}{_first(reading)}")

    def fallback(self, choices: Menu | FreeText, reason: str) -> Decision:
        """Return a legal decision for a request without an answer."""
        if isinstance(choices, FreeText):
            return Decision((), finish_reason=FALLBACK, why_inexact=reason)
        return Decision(self._format.read("", choices).chosen, finish_reason=FALLBACK, why_inexact=reason)

    def _checked(self, prompt: np.ndarray, steps: Steps, writing: Writing) -> Decision:
        logprobs, reason = logprobs_of(steps, writing.alternatives, self._limit)
        reason = self.reason or reason
        if not writing.same_prompt:
            reason = reason or "the server reads the prompt as other tokens, or does not say as which"
        if reason:
            return Decision(steps.chosen, why_inexact=reason)
        done = replace(steps, logprobs=logprobs)
        return Decision(
            done.chosen, prompt, done.token_ids, done.logprobs, done.allowed_ids, done.allowed_counts, exact=True
        )


def _first(reading: MenuReading) -> str:
    """Return the first line that was not read, with its problem; empty if there is none."""
    return f": {reading.problems[0].text[:100]!r}: {reading.problems[0].problem[:200]}" if reading.problems else ""


def _problem(writing: Writing) -> str:
    if writing.cut:
        return "truncated"  # also if all of it was reasoning, which some servers send apart from the text
    return "illegal" if writing.text.strip() else "empty"
