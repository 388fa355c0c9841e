"""Check that a server's log-probabilities are those of our constraint at our temperature.

At every token of an answer the server's possible ids must equal those that the constraint allows, neither more (another
mask, or none: raw log-probabilities cover all tokens) nor fewer (top-k, top-p), and their probabilities must sum to 1.
The temperature is checked by the same request at a second one: differences between log-probabilities are inversely
proportional to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sparring.agents.llm.decoding.constraint import Steps

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
    for place, (shown, ids) in enumerate(zip(alternatives, allowed, strict=False)):
        if problem := _difference(shown, set(ids.tolist()), limit):
            return logprobs, f"at token {place} {problem}"
        if len(ids) > 1:
            logprobs[place] = shown[int(steps.token_ids[place])]
    return logprobs, ""


def _difference(alternatives: Mapping[int, float], allowed: set[int], limit: int) -> str:
    """Return the difference of a server's distribution from one over the allowed ids; empty if none."""
    if more := sorted(set(alternatives) - allowed):
        return f"the server might have written {len(more)} ids that the constraint forbids, such as {more[0]}"
    if fewer := sorted(allowed - set(alternatives)):
        if len(allowed) > limit:
            return f"{len(allowed)} ids are allowed and endpoint.logprobs={limit} shows fewer"
        return f"the server would not write {len(fewer)} ids that the constraint allows, such as {fewer[0]}"
    total = float(np.exp(np.array(list(alternatives.values()), dtype=np.float64)).sum())
    return "" if abs(total - 1.0) <= TOLERANCE else f"probabilities sum to {total:.4f}"


def temperature_problem(
    one: Mapping[int, float], other: Mapping[int, float], temperature: float, other_temperature: float
) -> str:
    """Return why log-probabilities of one token are not at two temperatures; empty if they are."""
    common = sorted(set(one) & set(other))
    if len(common) < 2:
        return "the server shows too few alternatives to tell its temperature"
    first, second = (np.array([shown[token] for token in common], dtype=np.float64) for shown in (one, other))
    logits, again = temperature * (first - first.max()), other_temperature * (second - second.max())
    if -logits.min() < LEAST_SPREAD:
        return "all tokens are alike, so that its temperature cannot be told"
    worst = float(np.abs(logits - again).max())
    if worst > 0.01 * float(-logits.min()) + TOLERANCE:
        return f"its log-probabilities are not at the temperature it is asked for (off by {worst:.2g}); {PROCESSED}"
    return ""
