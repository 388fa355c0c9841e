"""Prompts read into a model, what they share only once: beginnings, and texts that are equal.

Keys and values depend on nothing but the tokens before them, so what is shared is the same to the bit as if each text
had been read alone, up to the rounding that the size of a batch brings. Nothing is kept from one batch to the next:
weights may change in between, and a beginning that was read under old ones would be wrong.
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
"""Tokens of an answer for which there is room at once."""


@dataclass
class CacheCounts:
    """What reading prompts cost, in tokens: those wanted in the cache, and those found there instead of being read."""

    total_queries: int = 0
    total_hits: int = 0
    prompt_tokens: int = 0
    batches: int = 0

    def metrics(self) -> dict[str, float]:
        """The metrics `cache/...`; `hit_rate` is the share of wanted tokens that were found."""
        rate = self.total_hits / self.total_queries if self.total_queries else 0.0
        return {"cache/hit_rate": rate, **{f"cache/{name}": float(value) for name, value in asdict(self).items()}}


def read_texts(model: Any, texts: Sequence[np.ndarray], counts: CacheCounts) -> tuple[Context, Tensor]:
    """A context that has read `texts` (R arrays of token ids, none empty), and the hidden state after each, [R, D].

    Adds to `counts` what was wanted and what was found.
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
