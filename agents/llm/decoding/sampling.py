"""Sampling of answers token by token, over legal tokens only, for a batch of prompts.

Shared prefixes and equal prompts are read once. A token is drawn only if more than one is allowed; the forced tokens
that follow are read together with it in one step, and those at the end of an answer are not read. A finished answer
leaves the batch, and one from the end of the batch takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.llm.decoding.constraint import Walks
from sparring.agents.llm.decoding.output_layer import allowed_logits
from sparring.agents.llm.decoding.prefill import CacheCounts, read_texts
from sparring.agents.llm.decoding.seeded_sampling import first_best, gumbel, log_softmax
from sparring.agents.llm.decoding.trie import ranges


@torch.inference_mode()
def sample(
    model: Any,
    walks: Walks,
    prompts: Sequence[np.ndarray],
    seeds: np.ndarray,
    temperature: float,
    counts: CacheCounts,
) -> None:
    """Complete R `walks` after `prompts` (arrays of token ids), with draws from `seeds` uint64 [R].

    At temperature 0 the likeliest token is taken, and log-probabilities are those of temperature 1. Adds the tokens
    read and saved to `counts`.
    """
    counts.batches += 1
    counts.prompt_tokens += sum(map(len, prompts))
    started = Pieces(walks.forced(np.arange(len(prompts))), len(prompts))
    texts = np.flatnonzero(walks.count)
    if not len(texts):
        return
    whole = [np.append(prompts[text], started.of(np.array([text]))[0]) for text in texts.tolist()]
    context, hidden = read_texts(model, whole, counts)
    for step in count():
        edges, row = walks.allowed(texts)
        tokens = walks.automaton.token[edges].astype(np.int64)
        logits = _logits(model, hidden, tokens, row)
        chosen, logs = draw(logits, row, tokens, seeds[texts], step, temperature)
        walks.take(texts, edges[chosen], logs)
        piece = Pieces([(texts, tokens[chosen]), *walks.forced(texts)], len(prompts))
        going = walks.count[texts] > 0
        if not going.any():
            return
        if not going.all():
            texts = texts[context.drop(going)]
        hidden = context.read(*piece.of(texts))[:, -1]


def draw(
    logits: np.ndarray, row: np.ndarray, tokens: np.ndarray, seeds: np.ndarray, step: int, temperature: float
) -> tuple[np.ndarray, np.ndarray]:
    """Choose one of the tokens [A] with `logits` [A] for each row; `row` [A] is ascending.

    Returns the indices of the chosen, int64 [R], and their log-probabilities, float64 [R]; `seeds` is uint64 [R].
    """
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    logs = log_softmax(logits / (temperature or 1.0), row, starts)
    noise = gumbel(seeds[row], np.full(len(row), step), tokens) if temperature else 0.0
    chosen = first_best(logs + noise, row, starts)
    return chosen, logs[chosen]


def _logits(model: Any, hidden: Tensor, tokens: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return logits float64 [A] of `tokens` [A] after the texts `place` [A] of `hidden` [B, D]."""
    ids, rows = (torch.from_numpy(values).to(hidden.device) for values in (tokens, place))
    logits = allowed_logits(model, hidden, ids, rows).double().cpu().numpy()
    if not np.isfinite(logits).all():
        raise FloatingPointError("the model's logits are not finite: its weights are broken")
    return logits


class Pieces:
    """Next tokens of answers; built from parts (answers [r], a token for each [r]), earlier tokens first."""

    def __init__(self, parts: Iterable[tuple[np.ndarray, np.ndarray]], answers: int) -> None:
        nothing = np.zeros(0, dtype=np.int64)
        rows, tokens = (np.concatenate(part) for part in zip((nothing, nothing), *parts, strict=True))
        self._tokens, self._counts = tokens[np.argsort(rows, kind="stable")], np.bincount(rows, minlength=answers)
        self._start = np.cumsum(self._counts) - self._counts

    def of(self, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens of `answers` [r], answer by answer, int64 [sum], and the count of each, int64 [r]."""
        counts = self._counts[answers]
        return self._tokens[ranges(self._start[answers], counts)[0]], counts
