"""Sampling of answers token by token for a batch of prompts: from menus over legal tokens only, or free text.

Shared prefixes and equal prompts are read once. A token is drawn only if more than one is allowed. The forced tokens
that follow are read together with it in one step; forced tokens at the end of an answer are not read. A finished answer
leaves the batch, and one from the end of the batch takes its place.

Draws depend only on a request's seed, the step and the token, not on other requests in the batch. By the Gumbel-max
trick, argmax(log p_i + g_i) with g_i = -log(-log u_i) is a draw from p. Every u_i is a hash of (seed, step, token id)
by the finalizer of SplitMix64 (Steele, Lea and Flood 2014), so no state is shared.

Free text is any tokens of the vocabulary up to a limit, ended by the end of text. Each text has its own temperature and
nucleus. Top-p (Holtzman et al. 2020, arXiv:1904.09751) only restricts the draw. Recorded log-probabilities are over the
whole vocabulary at the temperature, as a trainer recomputes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.language.decoding.constraint import Steps, Walks, ranges
from sparring.agents.language.decoding.forward import CacheCounts, all_logits, allowed_logits, read_texts

MASK = (1 << 64) - 1
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def seeds_of(seeds: list[int]) -> np.ndarray:
    """Return seeds of any size as uint64 [R], modulo 2^64."""
    return np.array([seed & MASK for seed in seeds], dtype=np.uint64)


def uniform(seed: np.ndarray, step: np.ndarray, token: np.ndarray) -> np.ndarray:
    """Return numbers in (0, 1), float64 [A], of seeds uint64 [A], steps [A] and token ids [A]."""
    mixed = _mix(_mix(seed) + GOLDEN * (step.astype(np.uint64) + np.uint64(1)))
    mixed = _mix(mixed + GOLDEN * (token.astype(np.uint64) + np.uint64(1)))
    return ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def gumbel(seed: np.ndarray, step: np.ndarray, token: np.ndarray) -> np.ndarray:
    """Return standard Gumbel noise float64 [A], with the arguments of `uniform`."""
    return -np.log(-np.log(uniform(seed, step, token)))


def log_softmax(logits: np.ndarray, row: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return log-probabilities [A] within segments: `row` [A] is each value's segment, `starts` [R] their starts."""
    shifted = logits - np.maximum.reduceat(logits, starts)[row]
    return shifted - np.log(np.add.reduceat(np.exp(shifted), starts))[row]


def first_best(values: np.ndarray, row: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the index in `values` [A] of each segment's maximum, int64 [R], the first of equals."""
    best = np.flatnonzero(values == np.maximum.reduceat(values, starts)[row])
    return best[np.unique(row[best], return_index=True)[1]]


def _mix(value: np.ndarray) -> np.ndarray:
    value = (value ^ (value >> np.uint64(30))) * FIRST
    value = (value ^ (value >> np.uint64(27))) * SECOND
    return value ^ (value >> np.uint64(31))


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

    At temperature 0 the likeliest token is taken, and log-probabilities are at temperature 1. Adds the tokens
    read and saved to `counts`.
    """
    counts.batches += 1
    counts.prompt_tokens += sum(map(len, prompts))
    started = Pieces(walks.forced(np.arange(len(prompts))), len(prompts))
    texts = np.flatnonzero(walks.count)
    if not len(texts):
        return
    beginnings = [np.append(prompts[text], started.of(np.array([text]))[0]) for text in texts.tolist()]
    context, hidden = read_texts(model, beginnings, counts)
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


def _logits(model: Any, hidden: Tensor, tokens: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return logits float64 [A] of `tokens` [A] after the texts `row` [A] of `hidden` [B, D]."""
    ids, rows = (torch.from_numpy(values).to(hidden.device) for values in (tokens, row))
    logits = allowed_logits(model, hidden, ids, rows).double().cpu().numpy()
    if not np.isfinite(logits).all():
        raise FloatingPointError("the model's logits are not finite: its weights are broken")
    return logits


class Pieces:
    """Next tokens of answers; built from parts (answers [r], a token for each [r]), earlier tokens first."""

    def __init__(self, parts: Iterable[tuple[np.ndarray, np.ndarray]], answers: int) -> None:
        empty = np.zeros(0, dtype=np.int64)
        rows, tokens = (np.concatenate(part) for part in zip((empty, empty), *parts, strict=True))
        self._tokens, self._counts = tokens[np.argsort(rows, kind="stable")], np.bincount(rows, minlength=answers)
        self._start = np.cumsum(self._counts) - self._counts

    def of(self, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens of `answers` [r], answer by answer, int64 [sum], and the count of each, int64 [r]."""
        counts = self._counts[answers]
        return self._tokens[ranges(self._start[answers], counts)[0]], counts


@dataclass(frozen=True)
class FreeRequests:
    """R texts to write.

    Attributes:
        prompts: token ids of each.
        limits: int64 [R], most tokens of each, without the end of text.
        seeds: uint64 [R].
        temperature: float64 [R]; 0 takes the likeliest token, and log-probabilities are at temperature 1.
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
def sample_free_text(
    model: Any, requests: FreeRequests, *, vocabulary: int, end: int, counts: CacheCounts
) -> list[Steps]:
    """Write all texts over the ids below `vocabulary`; `end` ends a text, and is forced after its limit.

    Adds the tokens read and saved to `counts`. Raises `FloatingPointError` for logits that are not finite.
    """
    counts.batches += 1
    counts.prompt_tokens += sum(map(len, requests.prompts))
    texts = [_Text() for _ in requests.prompts]
    context, hidden = read_texts(model, requests.prompts, counts)
    rows, step = np.arange(len(texts)), 0
    while True:
        logits = all_logits(model, hidden)[:, :vocabulary].double().cpu().numpy()
        if not np.isfinite(logits).all():
            raise FloatingPointError("the model's logits are not finite: its weights are broken")
        chosen, logs = draw_tokens(logits, requests.seeds[rows], step, requests.temperature[rows], requests.top_p[rows])
        for row, token, log in zip(rows.tolist(), chosen.tolist(), logs.tolist(), strict=True):
            _append(texts[row], token, log, vocabulary)
        going = chosen != end
        for row in rows[going & (requests.limits[rows] == step + 1)].tolist():
            _append(texts[row], end, 0.0, 1)
        going &= requests.limits[rows] > step + 1
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
    inside = np.exp(logs) >= ((1.0 - top_p) / logs.shape[1])[:, None]
    row, token = np.nonzero(inside & (top_p < 1)[:, None])
    order = np.lexsort((token, -logs[row, token], row))
    row, token = row[order], token[order]
    probability = np.exp(logs[row, token])
    total = np.cumsum(probability)
    starts = np.flatnonzero(np.diff(row, prepend=-1))
    before = total - probability - np.repeat((total - probability)[starts], np.diff(starts, append=len(row)))
    outside = before >= top_p[row]
    inside[row[outside], token[outside]] = False
    return inside
