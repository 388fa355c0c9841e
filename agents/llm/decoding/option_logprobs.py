"""Exact probability of every option of every line of an answer.

    p(option | prompt, lines before) = product over its tokens of  exp(z_a / t) / sum_b exp(z_b / t)

with b over the ids allowed at that token. The options of a line are the leaves of a trie. Each fork of the trie is read
after the prompt, the lines before and the tokens that lead to it; shared prefixes are read once. Every fork is
normalized, so the probabilities of a line's options sum to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from sparring.agents.llm.decoding.automaton import Automaton
from sparring.agents.llm.decoding.output_layer import allowed_logits
from sparring.agents.llm.decoding.prefill import CacheCounts, read_texts
from sparring.agents.llm.decoding.seeded_sampling import log_softmax
from sparring.envs.text import Option


@dataclass(frozen=True)
class LineOdds:
    """One line of an answer: the chosen option, and all `options` with their probabilities float64 [n]."""

    chosen: Option
    options: tuple[Option, ...]
    probabilities: np.ndarray

    @property
    def of_chosen(self) -> float:
        """Probability of the chosen option."""
        return float(self.probabilities[self.options.index(self.chosen)])


@dataclass
class _Forks:
    """States with more than one edge: the text before each, its edges, and the number of log-probabilities."""

    texts: list[np.ndarray] = field(default_factory=list)
    edges: list[np.ndarray] = field(default_factory=list)
    logs: int = 0

    def add(self, text: Sequence[int], start: int, count: int) -> int:
        """Add a fork; return the index of its first log-probability."""
        place, self.logs = self.logs, self.logs + count
        self.texts.append(np.array(text, dtype=np.int64))
        self.edges.append(np.arange(start, start + count))
        return place


@torch.inference_mode()
def line_odds(
    model: Any,
    automaton: Automaton,
    prompt_ids: np.ndarray,
    token_ids: np.ndarray,
    *,
    temperature: float,
    batch_size: int,
) -> list[LineOdds]:
    """Return the odds of each line of the answer `token_ids` to `prompt_ids`, for the automaton's first menu.

    `temperature` must be above 0; `batch_size` forks are read at once.
    """
    forks, lines = _Forks(), []
    text, rest = prompt_ids.tolist(), token_ids.tolist()
    start, count = automaton.begin[0].tolist()
    while len(leaves := _leaves(automaton, forks, text, start, count)):
        edge, length = _follow(automaton, rest, start, count)
        lines.append((automaton.options[int(automaton.chosen[edge])], leaves))
        text, rest = [*text, *rest[:length]], rest[length:]
        start, count = int(automaton.start[edge]), int(automaton.count[edge])
    logs = _logs(model, automaton, forks, temperature, batch_size)
    return [_odds(chosen, leaves, logs) for chosen, leaves in lines]


_Leaf = tuple[Option, tuple[int, ...]]
"""An option and the indices of the log-probabilities that lead to it."""


def _leaves(automaton: Automaton, forks: _Forks, text: list[int], start: int, count: int) -> list[_Leaf]:
    """Return every option of the line that starts in this state, none after the last; add its forks to `forks`."""
    found: list[_Leaf] = []
    waiting: list[tuple[int, int, list[int], tuple[int, ...]]] = [(start, count, text, ())]
    while waiting:
        start, count, text, way = waiting.pop()
        place = forks.add(text, start, count) if count > 1 else 0
        for edge in range(start, start + count):
            taken = (*way, place + edge - start) if count > 1 else way
            if (number := int(automaton.chosen[edge])) >= 0:
                found.append((automaton.options[number], taken))
            else:
                onward = int(automaton.start[edge]), int(automaton.count[edge])
                waiting.append((*onward, [*text, int(automaton.token[edge])], taken))
    return found


def _follow(automaton: Automaton, tokens: list[int], start: int, count: int) -> tuple[int, int]:
    """Return the edge that completes the first line of `tokens`, and the length of that line."""
    for length, token in enumerate(tokens, start=1):
        edge = start + automaton.token[start : start + count].tolist().index(token)
        if automaton.chosen[edge] >= 0:
            return edge, length
        start, count = int(automaton.start[edge]), int(automaton.count[edge])
    raise ValueError("the answer ends in the middle of a line")


def _logs(model: Any, automaton: Automaton, forks: _Forks, temperature: float, batch_size: int) -> np.ndarray:
    """Return log-probabilities float64 [sum of all forks' edges]."""
    parts = [np.zeros(0)]
    for begin in range(0, len(forks.texts), batch_size):
        _, hidden = read_texts(model, forks.texts[begin : begin + batch_size], CacheCounts())
        edges = forks.edges[begin : begin + batch_size]
        sizes = np.array([len(own) for own in edges])
        row, starts = np.repeat(np.arange(len(sizes)), sizes), np.cumsum(sizes) - sizes
        tokens = automaton.token[np.concatenate(edges)].astype(np.int64)
        ids, rows = (torch.from_numpy(values).to(hidden.device) for values in (tokens, row))
        logits = allowed_logits(model, hidden, ids, rows).double().cpu().numpy()
        parts.append(log_softmax(logits / temperature, row, starts))
    return np.concatenate(parts)


def _odds(chosen: Option, leaves: list[_Leaf], logs: np.ndarray) -> LineOdds:
    """Return the options of a line, likeliest first."""
    values = np.exp([logs[list(way)].sum() for _, way in leaves])
    order = np.argsort(-values, kind="stable")
    return LineOdds(chosen, tuple(leaves[place][0] for place in order), values[order])
