"""Automata of allowed answers, with tokens as edges: built from menus by `constraint.py`, and for free text here.

Free text is any tokens, up to a limit, then the end of text. Every token of the vocabulary is allowed at every step, so
log-probabilities are exact here too. There is one edge per token and step, so this is meant for answers of a few
words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparring.agents.llm.decoding.trie import ranges
from sparring.envs.text import FreeText, Menu, Option


@dataclass(frozen=True)
class Automaton:
    """Allowed answers to C menus, as E edges; a state is (start, count), the range of its outgoing edges.

    Attributes:
        token: int32 [E]; start, count: int64 [E], the state an edge leads to; count 0 is the end of the answer.
        chosen: int64 [E], the option in `options` that an edge completes, else -1.
        options: the options of all menus.
        begin: int64 [C, 2], the initial state of each menu.

    """

    token: np.ndarray
    start: np.ndarray
    count: np.ndarray
    chosen: np.ndarray
    options: list[Option]
    begin: np.ndarray

    def edges(self, start: np.ndarray, count: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all edges of states [R], int64 [A], and the state of each (0 to R - 1), int64 [A]."""
        return ranges(start, count)


def with_free_text(automaton: Automaton, asked: Sequence[Menu | FreeText], vocabulary: int, end: int) -> Automaton:
    """Add the free texts of `asked` to its automaton, for `vocabulary` ids; the id `end` ends a text."""
    limits = sorted({menu.tokens for menu in asked if isinstance(menu, FreeText)})
    if not limits:
        return automaton
    first = len(automaton.token) + np.cumsum([0, *(limit * vocabulary + 1 for limit in limits)])
    parts = [_edges(int(place), limit, vocabulary, end) for place, limit in zip(first, limits, strict=False)]
    token, start, count = (np.concatenate(part) for part in zip(*parts, strict=True))
    begin = automaton.begin.copy()
    for row, menu in enumerate(asked):
        if isinstance(menu, FreeText):
            begin[row] = first[limits.index(menu.tokens)], vocabulary
    return replace(
        automaton,
        token=np.concatenate([automaton.token, token.astype(automaton.token.dtype)]),
        start=np.concatenate([automaton.start, start]),
        count=np.concatenate([automaton.count, count]),
        chosen=np.concatenate([automaton.chosen, np.full(len(token), -1)]),
        begin=begin,
    )


def _edges(first: int, limit: int, vocabulary: int, end: int) -> tuple[np.ndarray, ...]:
    """Return tokens and their next states: `limit` layers of the whole vocabulary, then only the end of text."""
    token = np.append(np.tile(np.arange(vocabulary), limit), end)
    layer = np.arange(len(token)) // vocabulary + 1
    done = token == end
    start = np.where(done, 0, first + layer * vocabulary)
    count = np.where(done, 0, np.where(layer < limit, vocabulary, 1))
    return token, start, count
