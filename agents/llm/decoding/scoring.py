"""Scoring of past decisions: exact log-probabilities over the legal tokens, and entropies.

    log pi(a) = z_a / t - log sum_b exp(z_b / t),   b over only the allowed ids

This is the same function of the weights as sampling: the same ids, temperature and head, and no dropout, so that the
ratio of new to old probability is 1 before the first step. Logits are gathered, not masked: -inf times a probability
of 0 would be NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sparring.agents.llm.decoding.kv_cache import Context
from sparring.agents.llm.decoding.output_layer import all_logits, allowed_logits, backbone, without_dropout
from sparring.agents.llm.decoding.token_batch import TokenBatch


@dataclass(frozen=True)
class Scores:
    """Scores of N decision tokens with A allowed ids.

    Attributes:
        logp: float32 [N], log-probability of the chosen token.
        entropy: float32 [N], in nats.
        logps: float32 [A], of every allowed id; row: int64 [A], the decision token of each.
        sample: int64 [N], the decision of each token.

    """

    logp: Tensor
    entropy: Tensor
    logps: Tensor
    row: Tensor
    sample: Tensor


def score(model: Any, batch: TokenBatch) -> Scores:
    """Score the decision tokens of `batch` (on the model's device) at the temperatures they were drawn at."""
    hidden = _hidden(model, batch)
    if batch.vocabulary:
        return _score_free_text(model, batch, hidden)
    logits = allowed_logits(model, hidden, batch.allowed, batch.row)
    logps = segment_log_softmax(logits / batch.temperature[batch.row], batch.row)
    entropy = -segment_sum(logps.exp() * logps, batch.row, len(batch.chosen))
    return Scores(logps[batch.chosen], entropy, logps, batch.row, batch.sample)


def _score_free_text(model: Any, batch: TokenBatch, hidden: Tensor) -> Scores:
    """Score steps at which the whole vocabulary is allowed."""
    logits = all_logits(model, hidden)[:, : batch.vocabulary]
    logps = (logits / batch.temperature[:, None]).log_softmax(1)
    entropy = -(logps.exp() * logps).sum(1)
    row = torch.arange(len(logps), device=logps.device).repeat_interleave(batch.vocabulary)
    flat = logps.flatten()
    return Scores(flat[batch.chosen], entropy, flat, row, batch.sample)


def segment_log_softmax(logits: Tensor, row: Tensor) -> Tensor:
    """Return log-probabilities [A] of `logits` [A] within rows; `row` [A] is ascending, from 0, without gaps."""
    rows = int(row[-1]) + 1 if len(row) else 0
    top = logits.detach().new_full((rows,), -torch.inf).scatter_reduce(0, row, logits.detach(), "amax")
    shifted = logits - top[row]
    return shifted - segment_sum(shifted.exp(), row, rows).log()[row]


def segment_sum(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Return the sums [rows] of `values` [A] by `row` [A]."""
    return values.new_zeros(rows).index_add(0, row, values)


def _hidden(model: Any, batch: TokenBatch) -> Tensor:
    """Return the hidden state before each decision token, [N, D]."""
    if not batch.levels:
        return next(model.parameters()).new_zeros(0, backbone(model).config.hidden_size)
    context = Context(model)
    with without_dropout(model):
        for level in batch.levels:
            context.select(level.parent)
            hidden = context.read(level.tokens, level.counts)
    return hidden.flatten(0, 1)[batch.place]
