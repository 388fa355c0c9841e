"""A fixed minibatch for a language model: next-token cross-entropy of made-up text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from sparring.agents.llm.decoding.output_layer import all_logits, backbone, plain, without_dropout
from sparring.agents.run.fidelity import minibatch_sha256

ROWS, TOKENS, SCORED = 2, 32, 4
"""Rows, tokens a row, and tokens a row with logits: the whole vocabulary for all of them would be large."""


def language_model_sha256(model: Any, parameters: Iterable[Tensor]) -> str:
    """Return the hash of the loss of `model` and of its gradients in `parameters`; dropout is off."""

    def loss(generator: torch.Generator) -> Tensor:
        known = plain(model).get_input_embeddings().num_embeddings
        tokens = torch.randint(known, (ROWS, TOKENS + 1), generator=generator).to(next(model.parameters()).device)
        hidden = backbone(model)(input_ids=tokens[:, :-1], use_cache=False).last_hidden_state[:, -SCORED:]
        return cross_entropy(all_logits(model, hidden.flatten(0, 1)), tokens[:, -SCORED:].flatten())

    with without_dropout(model):
        return minibatch_sha256(loss, parameters)
