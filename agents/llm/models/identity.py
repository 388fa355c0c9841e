"""Identity of a language model, as hashes: of its base, and of what a fixed minibatch computes with it.

Adapters, training states and leagues are valid only for their base. Its hash covers name, shape and all values of all
weights except the adapters', in 1/3 s for 135 million. Older hashes, without the prefix "all:", cover the first 256
values of each weight and are compared in that form. The fixed minibatch is next-token cross-entropy of made-up text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import cross_entropy

from sparring.agents.llm.decoding.output_layer import all_logits, backbone, plain, without_dropout
from sparring.agents.run.fidelity import minibatch_sha256

ALL = "all:"
SAMPLED = 256
_KNOWN: WeakKeyDictionary[Module, tuple[object, str]] = WeakKeyDictionary()
"""For each hashed model, the addresses and version counters of its weights, and the hash."""
ROWS, TOKENS, SCORED = 2, 32, 4
"""Rows, tokens a row, and tokens a row with logits: the whole vocabulary for all of them would be large."""


def base_identity(model: Any) -> str:
    """Return a hash that identifies the base model; adapters do not change it."""
    base = plain(model)
    stamp = tuple((value.data_ptr(), value._version) for _, value in _weights(base))
    if base not in _KNOWN or _KNOWN[base][0] != stamp:
        _KNOWN[base] = (stamp, ALL + _hash(base))
    return _KNOWN[base][1]


def first_identity(model: Any) -> str:
    """Return the hash of the first values of each weight, the earlier form."""
    return _hash(plain(model), SAMPLED)


def identity_like(written: str, model: Any) -> str:
    """Return the hash of `model` in the form of the hash `written`, for comparison."""
    return base_identity(model) if written.startswith(ALL) else first_identity(model)


def _hash(base: Module, most: int | None = None) -> str:
    digest = hashlib.sha256()
    for name, value in _weights(base):
        digest.update(f"{name.replace('.base_layer', '')} {tuple(value.shape)}".encode())
        digest.update(value.flatten()[:most].float().cpu().numpy().data)
    return digest.hexdigest()[:16]


def _weights(base: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield all weights except the adapters', in the order of their names."""
    for name, parameter in sorted(base.named_parameters()):
        if ".lora_" not in name:
            yield name, parameter.detach()


def language_model_sha256(model: Any, parameters: Iterable[Tensor]) -> str:
    """Return the hash of the loss of `model` and of its gradients in `parameters`; dropout is off."""

    def loss(generator: torch.Generator) -> Tensor:
        known = plain(model).get_input_embeddings().num_embeddings
        tokens = torch.randint(known, (ROWS, TOKENS + 1), generator=generator).to(next(model.parameters()).device)
        hidden = backbone(model)(input_ids=tokens[:, :-1], use_cache=False).last_hidden_state[:, -SCORED:]
        return cross_entropy(all_logits(model, hidden.flatten(0, 1)), tokens[:, -SCORED:].flatten())

    with without_dropout(model):
        return minibatch_sha256(loss, parameters)
