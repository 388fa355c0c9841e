"""Prefix sharing: texts cut into a tree of at most three levels, so that shared prefixes are read once.

The levels are the prefix of all texts, then a prefix for each group of neighbours in the order of token ids (the powers
of one game see the same board), then the rest of every text. Groups are cut where neighbours share fewer tokens than a
threshold, chosen to leave the fewest tokens to read, padding included.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WORTH = 0.9
"""A tree must leave less than this share of the tokens to read; otherwise its extra steps do not pay."""
LEAST = 16
"""Least length of a prefix of all texts; a shorter one does not pay for a separate step."""


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
    heads, nothing = [texts[row] for row in order[first]], np.zeros_like(first)
    common = int(alike.min()) if len(first) > 1 and alike.min() >= LEAST else 0
    root = [_level(heads[:1], nothing[:1], nothing[:1] + common, nothing[:1])] if common else []
    return [*root, _level(heads, nothing + common, shared, nothing), _level(texts, shared[group], lengths, group)]


def _alike(texts: Sequence[np.ndarray], most: np.ndarray) -> np.ndarray:
    """Return the number of tokens that each of sorted texts may share with the next, int64 [R - 1]."""
    found = np.zeros(len(texts) - 1, dtype=np.int64)
    for place, (one, other) in enumerate(itertools.pairwise(texts)):
        reach = int(min(most[place], most[place + 1]))
        unlike = np.flatnonzero(one[:reach] != other[:reach])
        found[place] = unlike[0] if len(unlike) else reach
    return found


def _groups(alike: np.ndarray, lengths: np.ndarray, most: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each group's first text and shared tokens, int64 [g]; empty if sharing does not pay."""
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
