"""Sampling of free text: any tokens of the vocabulary up to a limit, ended by the end of text.

Each text has a temperature and a nucleus of its own. Top-p (Holtzman et al. 2020, arXiv:1904.09751) only restricts the
draw: recorded log-probabilities are those of the whole vocabulary at the temperature, which a trainer computes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from sparring.agents.llm.decoding.constraint import Steps
from sparring.agents.llm.decoding.output_layer import all_logits
from sparring.agents.llm.decoding.prefill import CacheCounts, read_texts
from sparring.agents.llm.decoding.seeded_sampling import first_best, gumbel


@dataclass(frozen=True)
class FreeRequests:
    """R texts to write.

    Attributes:
        prompts: token ids of each.
        limits: int64 [R], most tokens of each, without the end of text.
        seeds: uint64 [R].
        temperature: float64 [R]; 0 takes the likeliest token, and log-probabilities are those of temperature 1.
        top_p: float64 [R]; 1 draws from the whole vocabulary.

    """

    prompts: Sequence[np.ndarray]
    limits: np.ndarray
    seeds: np.ndarray
    temperature: np.ndarray
    top_p: np.ndarray


@dataclass
class _Text:
    """A text so far: its tokens, their log-probabilities and the number of ids allowed at each."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def steps(self) -> Steps:
        """Return the record; `allowed_ids` is empty, which means all ids below the count."""
        logs, counts = np.array(self.logprobs, dtype=np.float32), np.array(self.counts, dtype=np.int32)
        return Steps(np.array(self.tokens, dtype=np.int32), logs, np.zeros(0, dtype=np.int32), counts, ())


@torch.inference_mode()
def sample_free_text(model: Any, asked: FreeRequests, *, vocabulary: int, end: int, counts: CacheCounts) -> list[Steps]:
    """Write all texts over the ids below `vocabulary`; `end` ends a text, and is forced after its limit.

    Adds the tokens read and saved to `counts`. Raises `FloatingPointError` for logits that are not finite.
    """
    counts.batches += 1
    counts.prompt_tokens += sum(map(len, asked.prompts))
    texts = [_Text() for _ in asked.prompts]
    context, hidden = read_texts(model, asked.prompts, counts)
    rows, step = np.arange(len(texts)), 0
    while True:
        logits = all_logits(model, hidden)[:, :vocabulary].double().cpu().numpy()
        if not np.isfinite(logits).all():
            raise FloatingPointError("the model's logits are not finite: its weights are broken")
        chosen, logs = draw_tokens(logits, asked.seeds[rows], step, asked.temperature[rows], asked.top_p[rows])
        for row, token, log in zip(rows.tolist(), chosen.tolist(), logs.tolist(), strict=True):
            _append(texts[row], token, log, vocabulary)
        going = chosen != end
        for row in rows[going & (asked.limits[rows] == step + 1)].tolist():
            _append(texts[row], end, 0.0, 1)
        going &= asked.limits[rows] > step + 1
        if not going.any():
            break
        if not going.all():
            order = context.drop(going)
            rows, chosen = rows[order], chosen[order]
        hidden = context.read(chosen, np.ones(len(rows), dtype=np.int64))[:, -1]
        step += 1
    return [text.steps() for text in texts]


def _append(text: _Text, token: int, logprob: float, allowed: int) -> None:
    text.tokens.append(token)
    text.logprobs.append(logprob)
    text.counts.append(allowed)


def draw_tokens(
    logits: np.ndarray, seeds: np.ndarray, step: int, temperature: np.ndarray, top_p: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Draw a token per row of `logits` [R, V]: ids int64 [R], and log-probabilities float64 [R] over all of V."""
    scaled = logits / np.where(temperature > 0, temperature, 1.0)[:, None]
    shifted = scaled - scaled.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    likeliest = logs == logs.max(1, keepdims=True)
    row, token = np.nonzero(np.where((temperature > 0)[:, None], in_nucleus(logs, top_p), likeliest))
    noise = np.where(temperature[row] > 0, gumbel(seeds[row], np.full(len(row), step), token), 0.0)
    chosen = token[first_best(logs[row, token] + noise, row, np.flatnonzero(np.diff(row, prepend=-1)))]
    return chosen, logs[np.arange(len(logs)), chosen]


def in_nucleus(logs: np.ndarray, top_p: np.ndarray) -> np.ndarray:
    """Return bool [R, V], the fewest likeliest tokens of each row with a total probability of at least `top_p` [R].

    Tokens below (1 - p) / V have less than 1 - p together and lie outside, so only the others are sorted.
    """
    found = np.exp(logs) >= ((1.0 - top_p) / logs.shape[1])[:, None]
    row, token = np.nonzero(found & (top_p < 1)[:, None])
    order = np.lexsort((token, -logs[row, token], row))
    row, token = row[order], token[order]
    probability = np.exp(logs[row, token])
    total = np.cumsum(probability)
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    before = total - probability - np.repeat((total - probability)[starts], np.diff(starts, append=len(row)))
    outside = before >= top_p[row]
    found[row[outside], token[outside]] = False
    return found
