"""Batch of decisions for a model to score: texts in levels, and ragged steps.

Only steps with more than one allowed id, the decision tokens, are scored; the others have probability 1. A text is read
up to the token before its last decision token, and one without any is not read. Shared prefixes, as in forks of a game
and among the powers on a board, are read once, and their gradient is the sum over the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.llm.backend import Decision
from sparring.agents.llm.decoding.prefix_sharing import Level, levels


@dataclass(frozen=True)
class TokenBatch:
    """B texts to read, and N decision tokens in them with A allowed ids.

    Attributes:
        levels: pieces of the texts (`prefix_sharing.py`); the last level has one for each, of at most T tokens.
        place: int64 [N], the token before each step, as an index into the last level's B x T, which are padded on the
            left.
        sample: int64 [N], the decision of each step, an index into the argument of `collate`; step: int64 [N], its
            number in the answer.
        allowed: int64 [A], the allowed ids; row: int64 [A], the step of each.
        chosen: int64 [N], the index in `allowed` of the chosen token.
        sampled_logp: float32 [N], its log-probability when it was drawn.
        temperature: float32 [N], at which it was drawn.
        vocabulary: if not 0, every step allows the ids below it, `allowed` and `row` are empty, and `chosen` counts
            as if all were listed, step by step.

    """

    levels: tuple[Level, ...]
    place: Tensor
    sample: Tensor
    step: Tensor
    allowed: Tensor
    row: Tensor
    chosen: Tensor
    sampled_logp: Tensor
    temperature: Tensor
    vocabulary: int = 0

    def to(self, device: torch.device | str) -> TokenBatch:
        """Return the batch with its tensors on another device."""
        tensors = {field.name: getattr(self, field.name).to(device) for field in fields(self)[1:-1]}
        return TokenBatch(self.levels, **tensors, vocabulary=self.vocabulary)


def collate(decisions: Sequence[Decision], *, share: bool = True) -> TokenBatch:
    """Return one batch of decisions; without `share` every text is read separately.

    Raises `ValueError` if a chosen token is not among those allowed, a prompt is missing, or answers from menus are
    mixed with free text.
    """
    steps = [np.flatnonzero(decision.allowed_counts > 1) for decision in decisions]
    read = [number for number, own in enumerate(steps) if len(own)]
    texts = [_text(decisions[number], int(steps[number][-1])) for number in read]
    before = np.array([len(decisions[number].prompt_ids) - 1 for number in read], dtype=np.int64)
    if len(before) and before.min() < 0:
        raise ValueError(f"decision {read[int(before.argmin())]} has no prompt")
    first = before + np.array([steps[number][0] for number in read], dtype=np.int64)
    found = levels(texts, first if share else 0 * first) if texts else []
    return TokenBatch(
        levels=tuple(found),
        place=torch.from_numpy(_places(texts, before, [steps[number] for number in read], found)),
        sample=torch.from_numpy(np.repeat(np.arange(len(steps)), [len(own) for own in steps]).astype(np.int64)),
        step=torch.from_numpy(np.concatenate([_nothing(), *steps])),
        **(_whole(decisions, steps) if _is_free(decisions, steps) else _allowed(decisions, steps)),
    )


def _text(decision: Decision, last: int) -> np.ndarray:
    """Return the token ids of the prompt and of the answer before its step `last`."""
    return np.concatenate([decision.prompt_ids, decision.token_ids[:last]]).astype(np.int64)


def _places(
    texts: Sequence[np.ndarray], before: np.ndarray, steps: Sequence[np.ndarray], found: Sequence[Level]
) -> np.ndarray:
    """Return the index in the last level's B x T of the token before each step, int64 [N]."""
    if not texts:
        return _nothing()
    width = int(found[-1].counts.max())
    lengths = np.array([len(text) for text in texts])
    start = (np.arange(len(texts)) + 1) * width - lengths + before
    return np.concatenate([begin + own for begin, own in zip(start.tolist(), steps, strict=True)])


def _allowed(decisions: Sequence[Decision], steps: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return the fields of a batch of answers from menus."""
    counts = [decision.allowed_counts[own] for decision, own in zip(decisions, steps, strict=True)]
    ids = [d.allowed_ids[np.repeat(d.allowed_counts > 1, d.allowed_counts)] for d in decisions]
    sizes, allowed = (np.concatenate([_nothing(), *parts]) for parts in (counts, ids))
    token, drawn = _drawn(decisions, steps)
    row = np.repeat(np.arange(len(sizes)), sizes)
    chosen = np.flatnonzero(allowed == token[row])
    if not np.array_equal(row[chosen], np.arange(len(sizes))):
        wrong = np.setdiff1d(np.arange(len(sizes)), row[chosen])
        raise ValueError(f"a token that was not allowed was written: decision token {wrong[:1].tolist()} of the batch")
    arrays = {"allowed": allowed, "row": row, "chosen": chosen}
    return {name: torch.from_numpy(values) for name, values in arrays.items()} | drawn


def _is_free(decisions: Sequence[Decision], steps: Sequence[np.ndarray]) -> bool:
    """Return whether all decisions with a step are free text."""
    free = {not len(decision.allowed_ids) for decision, own in zip(decisions, steps, strict=True) if len(own)}
    if len(free) > 1:
        raise ValueError("answers from menus and free text in one batch: score them in two")
    return free == {True}


def _whole(decisions: Sequence[Decision], steps: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return the fields of a batch whose steps allow the whole vocabulary."""
    sizes = {int(size) for one, own in zip(decisions, steps, strict=True) for size in one.allowed_counts[own]}
    if len(sizes) > 1:
        raise ValueError(f"free text over vocabularies of {sorted(sizes)} tokens in one batch")
    vocabulary = sizes.pop()
    token, drawn = _drawn(decisions, steps)
    if len(token) and not 0 <= token.min() <= token.max() < vocabulary:
        raise ValueError(f"a token that was not allowed was written: {token.max()} of {vocabulary}")
    chosen = torch.from_numpy(np.arange(len(token)) * vocabulary + token)
    nothing = torch.from_numpy(_nothing())
    return {"allowed": nothing, "row": nothing, "chosen": chosen, "vocabulary": vocabulary, **drawn}


def _drawn(decisions: Sequence[Decision], steps: Sequence[np.ndarray]) -> tuple[np.ndarray, dict[str, Tensor]]:
    """Return the ids of the chosen tokens int64 [N], and `sampled_logp` and `temperature`."""
    pairs = list(zip(decisions, steps, strict=True))
    empty = np.zeros(0, dtype=np.float32)
    logp = np.concatenate([empty, *(decision.logprobs[own] for decision, own in pairs)])
    heat = np.concatenate([empty, *(np.full(len(own), one.temperature, dtype=np.float32) for one, own in pairs)])
    token = np.concatenate([_nothing(), *(decision.token_ids[own] for decision, own in pairs)])
    return token, {"sampled_logp": torch.from_numpy(logp), "temperature": torch.from_numpy(heat)}


def _nothing() -> np.ndarray:
    return np.zeros(0, dtype=np.int64)
