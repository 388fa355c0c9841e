"""Automata of allowed answers, with tokens as edges, built from menus by `constraint.py`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparring.agents.llm.decoding.trie import ranges
from sparring.envs.text import Option


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
