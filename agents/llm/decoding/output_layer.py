"""The last layer of a language model, asked for some tokens alone: logit of token i = h . W[i] (+ b[i]).

Of 49,000 logits a step of an answer needs those of about ten allowed tokens, so that no logits over the vocabulary and
no mask of minus infinities are ever made. A model whose head does more than a product (soft caps, scales) is refused.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sparring.agents.llm.decoding.dropout import without_dropout
from sparring.configs.core.errors import InputError


class ModelError(InputError):
    """A model that cannot be loaded or used; the message is one line naming it and what to do."""


def plain(model: Any) -> Any:
    """The causal language model itself, beneath peft's wrapping."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def backbone(model: Any) -> Any:
    """The part that makes hidden states."""
    inner = plain(model)
    return getattr(inner, inner.base_model_prefix)


def allowed_logits(model: Any, hidden: Tensor, ids: Tensor, row: Tensor) -> Tensor:
    """Logits float32 [A] of tokens `ids` [A], each after the hidden state `row` [A] of `hidden` [N, D]."""
    head = plain(model).get_output_embeddings()
    logits = (hidden.float()[row] * head.weight[ids].float()).sum(-1)
    bias = getattr(head, "bias", None)
    return logits if bias is None else logits + bias[ids].float()


def all_logits(model: Any, hidden: Tensor) -> Tensor:
    """Logits float32 [N, V] of the whole vocabulary after `hidden` [N, D]."""
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
    """Raise `ModelError` where `values` that the model computed are not finite, naming its weights if it is them."""
    if not bool(torch.isfinite(values).all()):
        check_finite(model)
        raise ModelError(f"{type(plain(model)).__name__}: computes what is not finite although its weights are")


@torch.no_grad()
def check_head(model: Any) -> None:
    """Raise `ModelError` unless the model's own logits are the plain product that `allowed_logits` takes them for."""
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
