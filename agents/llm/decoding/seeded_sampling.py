"""Draws that depend only on a request's seed, the step and the token, not on other requests in the batch.

Gumbel's trick: the argument of max(log p_i + g_i), with g_i = -log(-log u_i), is a draw from p. Every u_i is a hash of
(seed, step, token id), by the finalizer of SplitMix64 (Steele, Lea and Flood 2014), so there is no state to share.
"""

from __future__ import annotations

import numpy as np

MASK = (1 << 64) - 1
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def seeds_of(seeds: list[int]) -> np.ndarray:
    """Return seeds of any size as uint64 [R], modulo 2^64."""
    return np.array([seed & MASK for seed in seeds], dtype=np.uint64)


def uniform(seed: np.ndarray, step: np.ndarray, token: np.ndarray) -> np.ndarray:
    """Return numbers in (0, 1), float64 [A], of seeds uint64 [A], steps [A] and token ids [A]."""
    mixed = _mix(_mix(seed) + GOLDEN * (step.astype(np.uint64) + np.uint64(1)))
    mixed = _mix(mixed + GOLDEN * (token.astype(np.uint64) + np.uint64(1)))
    return ((mixed >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def gumbel(seed: np.ndarray, step: np.ndarray, token: np.ndarray) -> np.ndarray:
    """Return standard Gumbel noise float64 [A], with the arguments of `uniform`."""
    return -np.log(-np.log(uniform(seed, step, token)))


def log_softmax(logits: np.ndarray, row: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return log-probabilities [A] within segments: `row` [A] is each value's segment, `starts` [R] their starts."""
    shifted = logits - np.maximum.reduceat(logits, starts)[row]
    return shifted - np.log(np.add.reduceat(np.exp(shifted), starts))[row]


def first_best(values: np.ndarray, row: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the index in `values` [A] of each segment's maximum, int64 [R], the first of equals."""
    best = np.flatnonzero(values == np.maximum.reduceat(values, starts)[row])
    return best[np.unique(row[best], return_index=True)[1]]


def _mix(value: np.ndarray) -> np.ndarray:
    value = (value ^ (value >> np.uint64(30))) * FIRST
    value = (value ^ (value >> np.uint64(27))) * SECOND
    return value ^ (value >> np.uint64(31))
