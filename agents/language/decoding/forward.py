"""The forward pass: KV cache of many texts at once, the prefill of prompts into it, and logits of some tokens only.

A piece is padded on the left: every text's newest token is in the last column. A mask hides the padding, and position
ids count only real tokens. Texts can be dropped and duplicated, so a shared prefix is read once. Keys and values are
written into buffers with spare capacity, since transformers would copy all of them at each step.

Texts are cut into a tree of at most three levels: the prefix of all texts, a prefix for each group, and the rest of
every text. A group is neighbours in the order of token ids, since the powers of a game see one board. It ends where
neighbours share fewer tokens than a threshold, chosen to leave the fewest tokens to read, padding included. Equal texts
are read once. Keys and values depend only on the tokens before them, so sharing gives the same values as reading each
text alone, up to rounding that depends on the batch size. Nothing is kept between batches: the weights may change, and
a prefix read under old ones would be wrong.

A step of an answer needs about ten of 49,000 logits, one for each allowed token: logit of token i = h . W[i] (+ b[i]).
No logits over the vocabulary and no mask of minus infinities are computed. A model whose head does more than a product
(soft caps, scales) is rejected. Sampling, scoring and comparing run `without_dropout` to use the same function of the
weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from sparring.agents.language.backend import ModelError


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
                "restore the weights file, or choose another model with model.name"
            )


def check_computed(model: Any, values: Tensor) -> None:
    """Raise `ModelError` if computed `values` are not finite, naming the weights if these are the cause."""
    if not bool(torch.isfinite(values).all()):
        check_finite(model)
        raise ModelError(f"{type(plain(model)).__name__}: computes values that are not finite from finite weights")


@torch.no_grad()
def check_head(model: Any) -> None:
    """Raise `ModelError` unless the model's own logits are the plain product that `allowed_logits` computes."""
    inner, name = plain(model), type(plain(model)).__name__
    head = inner.get_output_embeddings() if hasattr(inner, "get_output_embeddings") else None
    if head is None or not hasattr(inner, getattr(inner, "base_model_prefix", "") or " "):
        raise ModelError(f"{name} is not a supported causal language model: it lacks its own head")
    tokens = torch.arange(4, device=head.weight.device)[None]
    with without_dropout(model):
        hidden = backbone(model)(input_ids=tokens, use_cache=False).last_hidden_state[0]
        logits = inner(input_ids=tokens, use_cache=False).logits[0].float()
    check_computed(model, logits)
    ids = torch.arange(logits.shape[1], device=logits.device)
    ours = allowed_logits(model, hidden[-1:], ids, torch.zeros_like(ids))
    if not torch.allclose(ours, logits[-1], rtol=1e-2, atol=1e-2 * float(logits.abs().max())):
        raise ModelError(f"{name} transforms its logits after the output head: exact orders need the plain product")


SPARE = 1.25
FULL = "full_attention"
TOLERANCE = 1e-2
"""Relative difference allowed between two computations in half precision; a wrong position gives far more."""
WORTH = 0.9
"""A tree must leave less than this share of the tokens to read; otherwise its extra steps do not pay."""
LEAST = 16
"""Least length of a prefix of all texts; a shorter one does not pay for a separate step."""
ROOM = 48
"""Initial capacity for tokens of an answer."""


class PlainLayer(DynamicLayer):
    """Keys and values [B, H, T, D] of one layer, stored as in transformers; gradients pass through."""

    keys: Tensor | None
    values: Tensor | None

    def select(self, rows: Tensor) -> None:
        """Keep `rows` [b] of the texts, in this order; a text may be named more than once."""
        assert self.keys is not None
        assert self.values is not None
        self.keys, self.values = self.keys.index_select(0, rows), self.values.index_select(0, rows)


class RoomyLayer(DynamicLayer):
    """Keys and values [B, H, T, D] of one layer as views of larger buffers, with an initial capacity `room` for T."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room, self._buffers = room, [torch.empty(0)] * 2

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append keys and values [B, H, t, D]; return all [B, H, T + t, D]."""
        states, used = (key_states, value_states), self.get_seq_length()
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self._buffers = [state[:, :, :0] for state in states]
        end = used + key_states.shape[2]
        if end > self._buffers[0].shape[2]:
            self._grow(used, max(self._room, int(end * SPARE)))
        for buffer, state in zip(self._buffers, states, strict=True):
            buffer[:, :, used:end] = state
        return self._show(end)

    def select(self, rows: Tensor) -> None:
        """Keep `rows` [b] of the texts, in this order; a text may be named more than once."""
        self._buffers = [buffer.index_select(0, rows) for buffer in self._buffers]
        self._show(self.get_seq_length())

    def move(self, origin: Tensor, goal: Tensor, texts: int) -> None:
        """Overwrite the texts `goal` [b] with the texts `origin` [b], and keep the first `texts`."""
        used = self.get_seq_length()
        for buffer in self._buffers:
            buffer[goal, :, :used] = buffer[origin, :, :used]
        self._buffers = [buffer[:texts] for buffer in self._buffers]
        self._show(used)

    def _grow(self, used: int, room: int) -> None:
        for index, buffer in enumerate(self._buffers):
            larger = buffer.new_empty((*buffer.shape[:2], room, buffer.shape[3]))
            larger[:, :, :used] = buffer[:, :, :used]
            self._buffers[index] = larger

    def _show(self, used: int) -> tuple[Tensor, Tensor]:
        keys, values = (buffer[:, :, :used] for buffer in self._buffers)
        self.keys, self.values = keys, values
        return keys, values


class Context:
    """B texts that `model` has read, initially one empty text; `lengths` int64 [B] are their token counts.

    `room` is the initial length of buffers. With None gradients pass through, and `drop` is not available.
    """

    def __init__(self, model: Any, *, room: int | None = None) -> None:
        self._backbone = backbone(model)
        self._device = next(model.parameters()).device
        count = range(plain(model).config.num_hidden_layers)
        self._layers = [PlainLayer() if room is None else RoomyLayer(room) for _ in count]
        self._cache = Cache(layers=list(self._layers))
        self._mask = np.zeros((1, 0), dtype=bool)
        self.lengths = np.zeros(1, dtype=np.int64)

    def read(self, tokens: np.ndarray, counts: np.ndarray) -> Tensor:
        """Read `counts` [B] more tokens of each text, all of them in `tokens` [sum], text by text.

        Returns hidden states [B, t, D] of the newest t tokens of each text; the first columns of a text with fewer new
        tokens are undefined.
        """
        width = int(counts.max())
        real = np.arange(width) >= width - counts[:, None]
        ids = np.zeros(real.shape, dtype=np.int64)
        ids[real] = tokens
        positions = np.maximum(self.lengths[:, None] + np.cumsum(real, axis=1) - 1, 0)
        self._mask = np.concatenate([self._mask, real], axis=1)
        self.lengths = self.lengths + counts
        return self._backbone(
            input_ids=self._tensor(ids),
            attention_mask=self._tensor(self._mask),
            position_ids=self._tensor(positions),
            past_key_values=self._cache,
            use_cache=True,
        ).last_hidden_state

    def select(self, texts: np.ndarray) -> None:
        """Keep only `texts` [b], in this order; one may be named more than once."""
        rows = self._tensor(texts)
        if self._mask.shape[1]:
            for layer in self._layers:
                layer.select(rows)
        self._mask, self.lengths = self._mask[texts], self.lengths[texts]

    def drop(self, keep: np.ndarray) -> np.ndarray:
        """Keep the texts where `keep` [B] is true, and move the last of them into the gaps.

        Returns the text now at each index, int64 [b]. Copies far fewer texts than `select`.
        """
        size = int(keep.sum())
        goal, origin = np.flatnonzero(~keep[:size]), size + np.flatnonzero(keep[size:])
        order = np.arange(size)
        order[goal] = origin
        for layer in self._layers:
            assert isinstance(layer, RoomyLayer)
            layer.move(self._tensor(origin), self._tensor(goal), size)
        self._mask, self.lengths = self._mask[order], self.lengths[order]
        return order

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self._device)


@torch.no_grad()
def check_context(model: Any) -> None:
    """Raise `ModelError` if reading two texts in padded pieces differs from reading each alone.

    It differs for models whose positions count padding, and for those that cache other things than keys and values.
    """
    name, config = type(plain(model)).__name__, plain(model).config
    kinds = set(getattr(config, "layer_types", None) or [FULL])
    if kinds != {FULL} or getattr(config, "sliding_window", None):
        raise ModelError(
            f"{name} does not attend to the whole text: only models with full attention in all layers are supported"
        )
    texts = [np.arange(1, 7), np.arange(2, 5)]
    try:
        with without_dropout(model):
            context = Context(model, room=2)
            context.select(np.zeros(2, dtype=np.int64))
            context.read(np.concatenate([texts[0][:4], texts[1][:1]]), np.array([4, 1]))
            pieces = context.read(np.concatenate([texts[0][4:], texts[1][1:]]), np.array([2, 2]))[:, -1]
            ids = (torch.from_numpy(text)[None].to(pieces.device) for text in texts)
            alone = torch.cat([backbone(model)(input_ids=i, use_cache=False).last_hidden_state[:, -1] for i in ids])
    except (TypeError, AttributeError, ValueError, IndexError, RuntimeError) as error:
        raise ModelError(f"{name} cannot process a text in chunks ({error})") from error
    check_computed(model, alone)
    if not torch.allclose(pieces, alone, rtol=TOLERANCE, atol=TOLERANCE * float(alone.abs().max())):
        raise ModelError(f"{name} treats padded texts differently from unpadded ones: it ignores position ids")


@dataclass(frozen=True)
class Level:
    """Pieces of text that are read next.

    `tokens` int64 [sum of `counts`] holds `counts` [g] tokens of each; `parent` [g] is the piece of the level before
    that each continues.
    """

    tokens: np.ndarray
    counts: np.ndarray
    parent: np.ndarray


def levels(texts: Sequence[np.ndarray], most: np.ndarray) -> list[Level]:
    """Return one to three levels for R `texts`, the last with one piece per text, in order.

    `most` int64 [R] limits the tokens of each text before the last level; it is below the text's length.
    """
    rows, lengths = np.arange(len(texts)), np.array([len(text) for text in texts])
    order = np.array(sorted(rows.tolist(), key=lambda row: texts[row].tobytes()))
    alike = _alike([texts[row] for row in order], most[order])
    first, shared = _groups(alike, lengths[order], most[order])
    if not len(first):
        return [_level(texts, 0 * rows, lengths, 0 * rows)]
    group = np.empty_like(rows)
    group[order] = np.repeat(np.arange(len(first)), np.diff(first, append=len(rows)))
    heads, zeros = [texts[row] for row in order[first]], np.zeros_like(first)
    common = int(alike.min()) if len(first) > 1 and alike.min() >= LEAST else 0
    root = [_level(heads[:1], zeros[:1], zeros[:1] + common, zeros[:1])] if common else []
    return [*root, _level(heads, zeros + common, shared, zeros), _level(texts, shared[group], lengths, group)]


def _alike(texts: Sequence[np.ndarray], most: np.ndarray) -> np.ndarray:
    """Return the number of tokens that each of sorted texts may share with the next, int64 [R - 1]."""
    shared = np.zeros(len(texts) - 1, dtype=np.int64)
    for index, (text, following) in enumerate(itertools.pairwise(texts)):
        reach = int(min(most[index], most[index + 1]))
        differing = np.flatnonzero(text[:reach] != following[:reach])
        shared[index] = differing[0] if len(differing) else reach
    return shared


def _groups(alike: np.ndarray, lengths: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each group's first text and shared tokens, int64 [g]; empty if sharing does not pay."""
    groups, least_cost = (np.zeros(0, np.int64), np.zeros(0, np.int64)), WORTH * len(lengths) * lengths.max()
    for cut in np.unique(alike):
        first = np.flatnonzero(np.append(-1, alike) < cut)
        sizes = np.diff(first, append=len(lengths))
        within = np.where(np.append(alike, -1) < cut, lengths.max(), np.append(alike, 0))
        shared = np.where(sizes > 1, np.minimum.reduceat(within, first), most[first])
        cost = len(first) * shared.max() + len(lengths) * (lengths - np.repeat(shared, sizes)).max()
        if cost < least_cost:
            groups, least_cost = (first, shared), cost
    return groups


def _level(texts: Sequence[np.ndarray], begin: np.ndarray, end: np.ndarray, parent: np.ndarray) -> Level:
    pieces = [text[b:e] for text, b, e in zip(texts, begin.tolist(), end.tolist(), strict=True)]
    return Level(np.concatenate(pieces), end - begin, parent)


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
    distinct = [texts[row] for row in np.unique(which, return_index=True)[1]]
    context, read = Context(model, room=max(map(len, texts)) + ROOM), 0
    for level in levels(distinct, np.array([len(text) - 1 for text in distinct])):
        context.select(level.parent)
        hidden = context.read(level.tokens, level.counts)[:, -1]
        read += len(level.tokens)
    requested = sum(map(len, texts))
    counts.total_queries += requested
    counts.total_hits += requested - read
    if len(distinct) == len(texts):
        return context, hidden
    context.select(which)
    return context, hidden[torch.from_numpy(which).to(hidden.device)]
