"""Which base model it is, as a short hash: adapters, training states and leagues mean nothing on another one.

The hash takes in name, shape and every value of all weights but the adapters', a third of a second for 135 million. It
took the first 256 values of each once; what was written then begins with no "all:" and is compared in its own form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor
from torch.nn import Module

from sparring.agents.llm.decoding.output_layer import plain

ALL = "all:"
SAMPLED = 256
_KNOWN: WeakKeyDictionary[Module, tuple[object, str]] = WeakKeyDictionary()
"""Of models that were hashed, where their weights were, how often these had been changed, and the hash."""


def base_identity(model: Any) -> str:
    """A hash that tells base models apart; adapters do not change it."""
    base = plain(model)
    stamp = tuple((value.data_ptr(), value._version) for _, value in _weights(base))
    if base not in _KNOWN or _KNOWN[base][0] != stamp:
        _KNOWN[base] = (stamp, ALL + _hash(base))
    return _KNOWN[base][1]


def first_identity(model: Any) -> str:
    """The hash of the first values of each weight, as it was once written."""
    return _hash(plain(model), SAMPLED)


def identity_like(written: str, model: Any) -> str:
    """The hash of `model` in the form of one that was `written`, to be compared with that."""
    return base_identity(model) if written.startswith(ALL) else first_identity(model)


def _hash(base: Module, most: int | None = None) -> str:
    digest = hashlib.sha256()
    for name, value in _weights(base):
        digest.update(f"{name.replace('.base_layer', '')} {tuple(value.shape)}".encode())
        digest.update(value.flatten()[:most].float().cpu().numpy().data)
    return digest.hexdigest()[:16]


def _weights(base: Module) -> Iterator[tuple[str, Tensor]]:
    """All weights but the adapters', in the order of their names."""
    for name, parameter in sorted(base.named_parameters()):
        if ".lora_" not in name:
            yield name, parameter.detach()
