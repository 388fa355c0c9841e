"""Prefill of prompts; shared prefixes and equal texts are read once.

Keys and values depend only on the tokens before them, so sharing gives the same values as reading each text alone, up
to rounding that depends on the batch size. Nothing is kept between batches: the weights may change, and a prefix read
under old ones would be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.llm.decoding.kv_cache import Context
from sparring.agents.llm.decoding.prefix_sharing import levels

ROOM = 48
"""Initial capacity for tokens of an answer."""


@dataclass
class CacheCounts:
    """Cost of reading prompts, in tokens: those requested, and those found in the cache instead of being read."""

    total_queries: int = 0
    total_hits: int = 0
    prompt_tokens: int = 0
    batches: int = 0

    def metrics(self) -> dict[str, float]:
        """Return the metrics `cache/...`; `hit_rate` is the share of requested tokens that were found."""
        rate = self.total_hits / self.total_queries if self.total_queries else 0.0
        return {"cache/hit_rate": rate, **{f"cache/{name}": float(value) for name, value in asdict(self).items()}}


def read_texts(model: Any, texts: Sequence[np.ndarray], counts: CacheCounts) -> tuple[Context, Tensor]:
    """Read `texts` (R arrays of token ids, none empty); return the context and the last hidden states [R, D].

    Adds the requested and the found tokens to `counts`.
    """
    numbers: dict[bytes, int] = {}
    which = np.array([numbers.setdefault(text.tobytes(), len(numbers)) for text in texts])
    unlike = [texts[row] for row in np.unique(which, return_index=True)[1]]
    context, read = Context(model, room=max(map(len, texts)) + ROOM), 0
    for level in levels(unlike, np.array([len(text) - 1 for text in unlike])):
        context.select(level.parent)
        hidden = context.read(level.tokens, level.counts)[:, -1]
        read += len(level.tokens)
    wanted = sum(map(len, texts))
    counts.total_queries += wanted
    counts.total_hits += wanted - read
    if len(unlike) == len(texts):
        return context, hidden
    context.select(which)
    return context, hidden[torch.from_numpy(which).to(hidden.device)]
