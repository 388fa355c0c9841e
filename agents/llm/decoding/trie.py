"""Tries of token sequences for many menus at once, as flat arrays of edges.

Sequences are sorted by their ids, so those with a common prefix are adjacent, and the number of ids that neighbours
share gives the new edges: sequence i adds edges from the depth at which it leaves sequence i - 1. Edges are laid out
depth by depth, so that those of a node are contiguous; a node is (start, count). No sequence is a prefix of another of
its menu, since each ends in a line end; so an edge is either a leaf or leads to a node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Tries:
    """E edges of the tries of M menus over n sequences.

    Attributes:
        token: int32 [E], ascending within a node.
        start: int64 [E], first edge of the node it leads to; count: int64 [E], its number of edges, 0 for a leaf.
        leaf: int64 [E], the sequence that ends there, else -1.
        roots: int64 [M, 2], start and count of each menu's first node.

    """

    token: np.ndarray
    start: np.ndarray
    count: np.ndarray
    leaf: np.ndarray
    roots: np.ndarray


def ranges(start: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ranges start to start + count - 1 of each of R, concatenated, and the index in R of each number."""
    row = np.repeat(np.arange(len(count)), count)
    before = np.cumsum(count) - count
    return np.arange(len(row)) + (start - before)[row], row


def build_tries(tokens: np.ndarray, lengths: np.ndarray, menu: np.ndarray) -> Tries:
    """Build the tries of sequences `tokens` [n, L] of `lengths` [n] >= 1, sorted by `menu` [n] (0 to M - 1), then ids.

    Raises `ValueError` if two of a menu are equal, one is a prefix of another, or a menu is empty.
    """
    shared = _shared(tokens, lengths, menu)
    edges = int((lengths - np.maximum(shared, 0)).sum())
    token, leaf = np.empty(edges, dtype=tokens.dtype), np.full(edges, -1, dtype=np.int64)
    start, count = np.zeros(edges, dtype=np.int64), np.zeros(edges, dtype=np.int64)
    roots, above, begin = np.zeros((int(menu[-1]) + 1, 2), dtype=np.int64), np.zeros(len(menu), dtype=np.int64), 0
    for depth in range(int(lengths.max())):
        sequence = np.flatnonzero((shared <= depth) & (lengths > depth))
        first = np.flatnonzero(shared[sequence] < depth)
        sizes = np.diff(first, append=len(sequence))
        if depth:
            start[above[sequence[first]]], count[above[sequence[first]]] = begin + first, sizes
        else:
            roots[menu[sequence[first]]] = np.stack([first, sizes], axis=1)
        places = begin + np.arange(len(sequence))
        token[places] = tokens[sequence, depth]
        ends = lengths[sequence] == depth + 1
        leaf[places[ends]] = sequence[ends]
        above[sequence], begin = places, begin + len(sequence)
    if not roots[:, 1].all():
        raise ValueError(f"menu {int(np.argmin(roots[:, 1]))} is empty")
    return Tries(token, start, count, leaf, roots)


def _shared(tokens: np.ndarray, lengths: np.ndarray, menu: np.ndarray) -> np.ndarray:
    """Return the ids shared by each sequence and the one before in its menu, int64 [n]; -1 for a menu's first."""
    equal = tokens[1:] == tokens[:-1]
    shared = np.concatenate([[-1], np.where(menu[1:] == menu[:-1], np.argmin(equal, axis=1), -1)])
    repeated = np.append(False, equal.all(axis=1) | (shared[1:] >= lengths[:-1])) & (shared >= 0)
    if repeated.any():
        row = int(np.argmax(repeated))
        raise ValueError(f"menu {int(menu[row])} has a line that is another's beginning, or the same: row {row}")
    return shared
