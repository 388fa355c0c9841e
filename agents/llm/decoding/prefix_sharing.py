"""Texts that begin alike, cut into levels so that what they share is read once: a tree of at most three levels.

First what all have in common, then a beginning for each group of neighbours in the alphabet of token ids (the powers of
one game see the same board), then every text's own rest. Groups are cut where neighbours share less than some number
of tokens, the one that leaves the fewest tokens to read, padding counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WORTH = 0.9
"""A tree that leaves more than this share of the tokens to read is not worth its further steps."""
LEAST = 16
"""Fewer tokens that all have in common are not worth a step of their own."""


@dataclass(frozen=True)
class Level:
    """Pieces of text to be read next.

    `tokens` int64 [sum of `counts`] are theirs, `counts` [g] of each; `parent` [g] says which piece of the level before
    each goes on from.
    """

    tokens: np.ndarray
    counts: np.ndarray
    parent: np.ndarray


def levels(texts: Sequence[np.ndarray], most: np.ndarray) -> list[Level]:
    """How to read R `texts`: one to three levels, the last with one piece for each text, in their order.

    `most` int64 [R] says how many tokens of each text may come before the last level; fewer than the text has.
    """
    rows, lengths = np.arange(len(texts)), np.array([len(text) for text in texts])
    order = np.array(sorted(rows.tolist(), key=lambda row: texts[row].tobytes()))
    alike = _alike([texts[row] for row in order], most[order])
    first, shared = _groups(alike, lengths[order], most[order])
    if not len(first):
        return [_level(texts, 0 * rows, lengths, 0 * rows)]
    group = np.empty_like(rows)
    group[order] = np.repeat(np.arange(len(first)), np.diff(first, append=len(rows)))
    heads, nothing = [texts[row] for row in order[first]], np.zeros_like(first)
    common = int(alike.min()) if len(first) > 1 and alike.min() >= LEAST else 0
    root = [_level(heads[:1], nothing[:1], nothing[:1] + common, nothing[:1])] if common else []
    return [*root, _level(heads, nothing + common, shared, nothing), _level(texts, shared[group], lengths, group)]


def _alike(texts: Sequence[np.ndarray], most: np.ndarray) -> np.ndarray:
    """How many tokens each of sorted texts may share with the one after it, int64 [R - 1]."""
    found = np.zeros(len(texts) - 1, dtype=np.int64)
    for place, (one, other) in enumerate(itertools.pairwise(texts)):
        reach = int(min(most[place], most[place + 1]))
        unlike = np.flatnonzero(one[:reach] != other[:reach])
        found[place] = unlike[0] if len(unlike) else reach
    return found


def _groups(alike: np.ndarray, lengths: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first text of each group, and how many tokens its texts share, int64 [g]; none where it is not worth it."""
    found, least_cost = (np.zeros(0, np.int64), np.zeros(0, np.int64)), WORTH * len(lengths) * lengths.max()
    for cut in np.unique(alike):
        first = np.flatnonzero(np.append(-1, alike) < cut)
        sizes = np.diff(first, append=len(lengths))
        within = np.where(np.append(alike, -1) < cut, lengths.max(), np.append(alike, 0))
        shared = np.where(sizes > 1, np.minimum.reduceat(within, first), most[first])
        cost = len(first) * shared.max() + len(lengths) * (lengths - np.repeat(shared, sizes)).max()
        if cost < least_cost:
            found, least_cost = (first, shared), cost
    return found


def _level(texts: Sequence[np.ndarray], begin: np.ndarray, end: np.ndarray, parent: np.ndarray) -> Level:
    pieces = [text[b:e] for text, b, e in zip(texts, begin.tolist(), end.tolist(), strict=True)]
    return Level(np.concatenate(pieces), end - begin, parent)
