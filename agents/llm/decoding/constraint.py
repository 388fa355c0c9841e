"""Legal answers alone: which tokens may come next in an answer, for many answers at once, and what was chosen.

A `Constraint` belongs to a tokenizer. From menus it compiles an `Automaton`: a trie for the options of every line that
an answer can come to, the last token of a line leading to the next line's trie, and after the last line the end tag and
the end of text. Each answer is one path. `Walks` are answers under way; `Steps` is what they did, for a trainer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparring.agents.llm.decoding.automaton import Automaton, with_free_text
from sparring.agents.llm.decoding.line_tokens import LineTokens
from sparring.agents.llm.decoding.trie import Tries, build_tries
from sparring.envs.text import FreeText, Menu, Option, TextFormat

END = -1


class Constraint:
    """The legal answers in the tokens of one tokenizer. Raises `TokenizerError` where they have no single spelling."""

    def __init__(self, tokenizer: Any, text_format: TextFormat) -> None:
        self.lines, self._vocabulary = LineTokens(tokenizer, text_format), len(tokenizer)

    def compile(self, asked: Sequence[Menu | FreeText]) -> Automaton:
        """One automaton for all of them; a text is encoded when it is first met, and then never again."""
        menus = _Menus()
        first = [END if isinstance(choices, FreeText) else menus.add(choices) for choices in asked]
        return with_free_text(self._lines(menus, first), asked, self._vocabulary, int(self.lines.closing[-1]))

    def _lines(self, menus: _Menus, first: list[int]) -> Automaton:
        if not menus.options:
            return self._join(None, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), first, [])
        number = np.array(self.lines.numbers([option.text for option in menus.options]))
        menu = np.repeat(np.arange(len(menus.sizes)), menus.sizes)
        order = np.argsort(menu * len(self.lines.rank) + self.lines.rank[number])
        lengths = self.lines.lengths[number[order]]
        tries = build_tries(self.lines.tokens[number[order], : int(lengths.max())], lengths, menu)
        return self._join(tries, order, np.array(menus.goals)[order], first, menus.options)

    def replay(self, choices: Menu, token_ids: Sequence[int]) -> Steps:
        """What was allowed at each step of an answer; raises `ValueError` for one that is not legal or not whole."""
        walks = Walks(self.compile([choices]), [0])
        for place, token in enumerate(token_ids):
            edges, _ = walks.allowed(np.zeros(1, dtype=np.int64))
            taken = np.flatnonzero(walks.automaton.token[edges] == token)
            if not len(taken):
                allowed = walks.automaton.token[edges].tolist()
                raise ValueError(f"token {token} at step {place} is not allowed: {allowed}")
            walks.take(np.zeros(1, dtype=np.int64), edges[taken])
        if walks.count[0]:
            raise ValueError(f"the answer ends after {len(token_ids)} tokens and is not whole")
        return walks.steps()[0]

    def _join(
        self, tries: Tries | None, order: np.ndarray, goals: np.ndarray, first: list[int], options: list[Option]
    ) -> Automaton:
        """Lead the leaves of tries to the menus that come next, and the last ones to the closing tokens."""
        closing = self.lines.closing
        inner = 0 if tries is None else len(tries.token)
        after = np.arange(inner + 1, inner + len(closing) + 1)
        follows = np.append(np.ones(len(closing) - 1, dtype=np.int64), 0)
        roots = np.array([[inner, 1]])  # of the end, which is menu -1
        if tries is None:
            return Automaton(closing, after, follows, np.full(len(closing), -1), options, roots[first])
        roots, leaves = np.concatenate([tries.roots, roots]), np.flatnonzero(tries.leaf >= 0)
        goal = goals[tries.leaf[leaves]]
        tries.start[leaves], tries.count[leaves] = roots[goal].T
        chosen = np.where(tries.leaf >= 0, order[tries.leaf], -1)
        return Automaton(
            np.concatenate([tries.token, closing]),
            np.concatenate([tries.start, after]),
            np.concatenate([tries.count, follows]),
            np.concatenate([chosen, np.full(len(closing), -1)]),
            options,
            roots[first],
        )


class _Menus:
    """The lines of several menus one after the other: their options, and the menu that follows each of these."""

    def __init__(self) -> None:
        self.options: list[Option] = []
        self.goals: list[int] = []
        self.sizes: list[int] = []
        self._seen: dict[int, int] = {}

    def add(self, choices: Menu) -> int:
        """The number of the first line; the same object again adds nothing."""
        if id(choices) not in self._seen:
            self._seen[id(choices)] = self._walk(choices)
        return self._seen[id(choices)]

    def _walk(self, choices: Menu) -> int:
        begin = len(self.sizes)
        if choices.independent:
            for line in range(1, choices.lines + 1):
                menu = choices.menu(line - 1)
                self._append(menu, [begin + line if line < choices.lines else END] * len(menu))
        else:
            self._walk_dependent(choices, begin)
        return begin if choices.lines else END

    def _walk_dependent(self, choices: Menu, begin: int) -> None:
        """Every menu that an answer can come to, by its line and the slot of the line before."""
        numbers, waiting = {(0, -1): begin}, [(0, -1)]
        for line, last in waiting:
            menu = choices.menu(line, last)
            for slot in dict.fromkeys(option.slot for option in menu):
                if line + 1 < choices.lines and (line + 1, slot) not in numbers:
                    numbers[line + 1, slot] = begin + len(numbers)
                    waiting.append((line + 1, slot))
            self._append(menu, [numbers.get((line + 1, option.slot), END) for option in menu])

    def _append(self, menu: Sequence[Option], goals: list[int]) -> None:
        self.options += menu
        self.goals += goals
        self.sizes.append(len(menu))


@dataclass(frozen=True)
class Steps:
    """What one answer of T tokens did.

    Attributes: `token_ids` int32 [T]; `logprobs` float32 [T]; `allowed_ids` int32 [A], step by step; `allowed_counts`
    int32 [T]; `chosen`, the options.

    """

    token_ids: np.ndarray
    logprobs: np.ndarray
    allowed_ids: np.ndarray
    allowed_counts: np.ndarray
    chosen: tuple[Option, ...]


class Walks:
    """R answers under way: the state of each, and a record of the edges they took.

    `which` [R] says which of the automaton's menus each answers. `start` and `count` int64 [R] are their states;
    count 0 means that all is written.
    """

    def __init__(self, automaton: Automaton, which: Sequence[int] | np.ndarray) -> None:
        self.automaton = automaton
        self.start, self.count = automaton.begin[np.asarray(which, dtype=np.int64)].T.copy()
        self._taken: list[tuple[np.ndarray, ...]] = []

    def allowed(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Edges that may be taken by answers `rows` [r], int64 [A], and the place in `rows` of each, int64 [A]."""
        return self.automaton.edges(self.start[rows], self.count[rows])

    def take(self, rows: np.ndarray, edges: np.ndarray, logprobs: np.ndarray | float = 0.0) -> None:
        """Go along one of the allowed `edges` [r] in each of `rows` [r]."""
        logs = np.broadcast_to(np.asarray(logprobs, dtype=np.float32), rows.shape)
        self._taken.append((rows, edges, self.start[rows], self.count[rows], logs))
        self.start[rows], self.count[rows] = self.automaton.start[edges], self.automaton.count[edges]

    def forced(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Take every edge that is the only one, in `rows`; yields (rows, token ids) as far as some still go on."""
        while len(rows := rows[self.count[rows] == 1]):
            edges = self.start[rows]
            self.take(rows, edges)
            yield rows, self.automaton.token[edges]

    def steps(self) -> list[Steps]:
        """The record of every answer, in their order."""
        walks = range(len(self.count))
        rows, edges, start, count, logs = (np.concatenate(part) for part in zip(*self._taken, strict=True))
        order = np.argsort(rows, kind="stable")
        edges, count, logs = edges[order], count[order], logs[order]
        allowed, step = self.automaton.edges(start[order], count)
        per_row = np.cumsum(np.bincount(rows, minlength=len(walks)))[:-1]
        tokens, counts = self.automaton.token[edges].astype(np.int32), count.astype(np.int32)
        cuts = np.searchsorted(step, per_row)
        parts = zip(
            np.split(tokens, per_row),
            np.split(logs, per_row),
            np.split(self.automaton.token[allowed].astype(np.int32), cuts),
            np.split(counts, per_row),
            np.split(self.automaton.chosen[edges], per_row),
            strict=True,
        )
        return [Steps(t, p, a, c, self._options(done)) for t, p, a, c, done in parts]

    def _options(self, chosen: np.ndarray) -> tuple[Option, ...]:
        return tuple(self.automaton.options[number] for number in chosen[chosen >= 0].tolist())
