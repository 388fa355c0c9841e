"""Output layer of a language model, computed for some tokens only: logit of token i = h . W[i] (+ b[i]).

A step of an answer needs about ten of 49,000 logits, those of the allowed tokens. No logits over the vocabulary and
no mask of minus infinities are computed. A model whose head does more than a product (soft caps, scales) is rejected.

Sampling, scoring and comparing run `without_dropout`, so that they use the same function of the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from sparring.configs.core.errors import InputError


class ModelError(InputError):
    """A model that cannot be loaded or used; the message is one line naming it and what to do."""


@contextmanager
def without_dropout(model: Any) -> Iterator[None]:
    """Put `model` into evaluation mode, and back into its previous mode on exit; gradients are still recorded.

    Sampling, scoring and comparing then use the same function of the weights.
    """
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def plain(model: Any) -> Any:
    """Return the causal language model without the peft wrapper."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def backbone(model: Any) -> Any:
    """Return the part that computes hidden states."""
    inner = plain(model)
    return getattr(inner, inner.base_model_prefix)


def allowed_logits(model: Any, hidden: Tensor, ids: Tensor, row: Tensor) -> Tensor:
    """Return logits float32 [A] of tokens `ids` [A], each for the hidden state `row` [A] of `hidden` [N, D]."""
    head = plain(model).get_output_embeddings()
    logits = (hidden.float()[row] * head.weight[ids].float()).sum(-1)
    bias = getattr(head, "bias", None)
    return logits if bias is None else logits + bias[ids].float()


def all_logits(model: Any, hidden: Tensor) -> Tensor:
    """Return logits float32 [N, V] of the whole vocabulary for `hidden` [N, D]."""
    return plain(model).get_output_embeddings()(hidden).float()


@torch.no_grad()
def check_finite(model: Any) -> None:
    """Raise `ModelError` naming the first of the model's weights that are infinite or NaN."""
    for name, parameter in plain(model).named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise ModelError(
                f"{type(plain(model)).__name__}: its weights are not finite, such as {name}; "
                "restore the file they are from, or choose another with model.name"
            )


def check_computed(model: Any, values: Tensor) -> None:
    """Raise `ModelError` if computed `values` are not finite, naming the weights if these are the cause."""
    if not bool(torch.isfinite(values).all()):
        check_finite(model)
        raise ModelError(f"{type(plain(model)).__name__}: computes what is not finite although its weights are")


@torch.no_grad()
def check_head(model: Any) -> None:
    """Raise `ModelError` unless the model's own logits are the plain product that `allowed_logits` computes."""
    inner, name = plain(model), type(plain(model)).__name__
    head = inner.get_output_embeddings() if hasattr(inner, "get_output_embeddings") else None
    if head is None or not hasattr(inner, getattr(inner, "base_model_prefix", "") or " "):
        raise ModelError(f"{name} is not a causal language model of the usual build: it has no head of its own")
    tokens = torch.arange(4, device=head.weight.device)[None]
    with without_dropout(model):
        hidden = backbone(model)(input_ids=tokens, use_cache=False).last_hidden_state[0]
        own = inner(input_ids=tokens, use_cache=False).logits[0].float()
    check_computed(model, own)
    ids = torch.arange(own.shape[1], device=own.device)
    ours = allowed_logits(model, hidden[-1:], ids, torch.zeros_like(ids))
    if not torch.allclose(ours, own[-1], rtol=1e-2, atol=1e-2 * float(own.abs().max())):
        raise ModelError(f"{name} does more to its logits than a product with its head: exact orders need a plain one")
