"""Grammar constraint: the allowed next tokens of many answers at once, and the options chosen.

A `Constraint` belongs to a tokenizer. It compiles menus into an `Automaton`: a trie for the options of every line that
an answer can reach. The last token of a line leads to the next line's trie; the end tag and the end of text follow the
last line. Each answer is one path. `Walks` are unfinished answers; `Steps` record them for a trainer.

Tries of many menus are built at once, as flat arrays of edges. Sequences are sorted by their ids, so equal prefixes are
adjacent. The ids that neighbours share give the new edges: sequence i adds edges from the depth at which it leaves
sequence i - 1. Edges are laid out depth by depth, so the edges of a node are contiguous; a node is (start, count). No
sequence is a prefix of another of its menu, since each ends in a line end, so an edge is either a leaf or leads to a
node.

The ids of lines are joined, and whole answers are never encoded. Every answer therefore has exactly one path, and its
probability is exact. This requires a tokenizer that keeps lines apart: joined ids must be the ids of the joined text,
and decoding must return the text. Every text is checked when it first occurs. A tokenizer that fails (an added space
before the first word, unknown words, tokens across lines) is rejected.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.text import Menu, Option, TextFormat

PAD = -1


class TokenizerError(InputError):
    """A tokenizer that the exact constraint cannot use; the message names it and the problem."""


class LineTokens:
    """Token ids of every line seen so far; `closing` int32 is the end tag followed by the end of text.

    Attributes (T texts, the longest of L tokens): `tokens` int32 [T, L], padded with -1; `lengths` int64 [T]; `rank`
    int64 [T], the rank of each by its ids: sorting by rank sorts by ids.

    """

    def __init__(self, tokenizer: Any, text_format: TextFormat) -> None:
        self._tokenizer, self._format = tokenizer, text_format
        self._name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        self._numbers: dict[str, int] = {}
        self.tokens = np.zeros((0, 1), dtype=np.int32)
        self.lengths = self.rank = np.zeros(0, dtype=np.int64)
        if tokenizer.eos_token_id is None:
            raise TokenizerError(f"tokenizer {self._name} has no end-of-text token: set its eos_token")
        tag, opening = encode(tokenizer, [text_format.closing, text_format.opening])
        self.closing = np.array([*tag, tokenizer.eos_token_id], dtype=np.int32)
        self._around = (opening, tag)
        self.numbers(text_format.probes())

    def numbers(self, texts: Sequence[str]) -> list[int]:
        """Return the rows of lines (without line ends) in `tokens`; new lines are encoded together."""
        numbers = self._numbers
        if new := sorted({text for text in texts if text not in numbers}):
            self._learn(new)
        return [numbers[text] for text in texts]

    def _learn(self, texts: list[str]) -> None:
        lines = [f"{text}\n" for text in texts]
        encoded = encode(self._tokenizer, lines)
        self._check(lines, encoded)
        lengths = np.array([len(ids) for ids in encoded])
        longest = max(int(lengths.max()), self.tokens.shape[1])
        table = np.full((len(self.tokens) + len(lines), longest), PAD, dtype=np.int32)
        table[: len(self.tokens), : self.tokens.shape[1]] = self.tokens
        table[len(self.tokens) :][np.arange(longest) < lengths[:, None]] = np.concatenate(encoded)
        self._numbers |= {text: len(self.tokens) + index for index, text in enumerate(texts)}
        self.tokens, self.lengths = table, np.append(self.lengths, lengths)
        self.rank = np.argsort(np.lexsort(table.T[::-1]))

    def _check(self, lines: list[str], encoded: list[list[int]]) -> None:
        """Raise `TokenizerError` unless these ids, joined, are the encoding of these lines and decode to them."""
        opening, tag = self._around
        framed, joined = self._framed("".join(lines)), [*opening, *itertools.chain(*encoded), *tag]
        if encode(self._tokenizer, [framed])[0] != joined:
            line = self._culprit(lines, encoded)
            raise TokenizerError(
                f"tokenizer {self._name} encodes {line!r} with other tokens among other lines than alone; exact orders"
                " need another one: set model.name"
            )
        if decode(self._tokenizer, joined) != framed:
            read = ((line, decode(self._tokenizer, ids)) for line, ids in zip(lines, encoded, strict=True))
            line, back = next(((line, back) for line, back in read if back != line), (framed[:80], "something else"))
            raise TokenizerError(f"tokenizer {self._name} turns {line!r} into {back!r}")

    def _culprit(self, lines: list[str], encoded: list[list[int]]) -> str:
        """Return the first line whose tokens change between the opening and the end tag; else the first line."""
        opening, tag = self._around
        framed = encode(self._tokenizer, [self._framed(line) for line in lines])
        triples = zip(lines, encoded, framed, strict=True)
        return next((line for line, ids, alone in triples if alone != [*opening, *ids, *tag]), lines[0])

    def _framed(self, lines: str) -> str:
        return self._format.opening + lines + self._format.closing


def encode(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of texts, without the special tokens that a tokenizer adds."""
    options = {"return_attention_mask": False, "return_token_type_ids": False}
    return tokenizer(list(texts), add_special_tokens=False, **options)["input_ids"] if texts else []


def beginning(tokenizer: Any) -> list[int]:
    """Return the token that this tokenizer puts before every text, if any."""
    bare, tokenized = encode(tokenizer, ["A"])[0], tokenizer("A")["input_ids"]
    first = tokenizer.bos_token_id
    return [first] if first is not None and tokenized[:1] == [first] and bare[:1] != [first] else []


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """Return the exact text of token ids."""
    return tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)


END = -1


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
        raise ValueError(f"menu {int(menu[row])} has a line that equals another or is a prefix of it: row {row}")
    return shared


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


class Constraint:
    """Legal answers in tokens of one tokenizer. Raises `TokenizerError` if their tokenization is not unique."""

    def __init__(self, tokenizer: Any, text_format: TextFormat) -> None:
        self.lines = LineTokens(tokenizer, text_format)

    def compile(self, requested: Sequence[Menu]) -> Automaton:
        """Return one automaton for all of them; each text is encoded once, when it first occurs."""
        menus = _Menus()
        return self._lines(menus, [menus.add(choices) for choices in requested])

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
        """Return the steps of an answer with the ids allowed; raises `ValueError` if it is illegal or incomplete."""
        walks = Walks(self.compile([choices]), [0])
        for step, token in enumerate(token_ids):
            edges, _ = walks.allowed(np.zeros(1, dtype=np.int64))
            taken = np.flatnonzero(walks.automaton.token[edges] == token)
            if not len(taken):
                allowed = walks.automaton.token[edges].tolist()
                raise ValueError(f"token {token} at step {step} is not allowed: {allowed}")
            walks.take(np.zeros(1, dtype=np.int64), edges[taken])
        if walks.count[0]:
            raise ValueError(f"the answer ends after {len(token_ids)} tokens and is incomplete")
        return walks.steps()[0]

    def _join(
        self, tries: Tries | None, order: np.ndarray, goals: np.ndarray, first: list[int], options: list[Option]
    ) -> Automaton:
        """Connect the leaves of tries to the next menus, and the leaves of the last line to the closing tokens."""
        closing = self.lines.closing
        inner = 0 if tries is None else len(tries.token)
        after = np.arange(inner + 1, inner + len(closing) + 1)
        follows = np.append(np.ones(len(closing) - 1, dtype=np.int64), 0)
        roots = np.array([[inner, 1]])  # root of the end, which is menu -1
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


def constraint_of(tokenizer: Any, text_format: TextFormat | None) -> Constraint | None:
    """Return the constraint of a game's menus; None for a game whose answers are free text."""
    return Constraint(tokenizer, text_format) if text_format else None


class _Menus:
    """Lines of several menus, concatenated: their options, and the menu that follows each option."""

    def __init__(self) -> None:
        self.options: list[Option] = []
        self.goals: list[int] = []
        self.sizes: list[int] = []
        self._seen: dict[int, int] = {}

    def add(self, choices: Menu) -> int:
        """Return the number of the first line; the same object is added only once."""
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
        """Add every menu that an answer can reach, by its line and the slot of the line before."""
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
    """Record of one answer of T tokens.

    Attributes: `token_ids` int32 [T]; `logprobs` float32 [T]; `allowed_ids` int32 [A], step by step; `allowed_counts`
    int32 [T]; `chosen`, the options.

    """

    token_ids: np.ndarray
    logprobs: np.ndarray
    allowed_ids: np.ndarray
    allowed_counts: np.ndarray
    chosen: tuple[Option, ...]


class Walks:
    """R unfinished answers: the state of each, and the edges taken.

    `which` [R] is the automaton's menu of each answer. `start` and `count` int64 [R] are their states; count 0 is a
    finished answer.
    """

    def __init__(self, automaton: Automaton, which: Sequence[int] | np.ndarray) -> None:
        self.automaton = automaton
        self.start, self.count = automaton.begin[np.asarray(which, dtype=np.int64)].T.copy()
        self._taken: list[tuple[np.ndarray, ...]] = []

    def allowed(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the allowed edges of answers `rows` [r], int64 [A], and the index in `rows` of each, int64 [A]."""
        return ranges(self.start[rows], self.count[rows])

    def take(self, rows: np.ndarray, edges: np.ndarray, logprobs: np.ndarray | float = 0.0) -> None:
        """Take one of the allowed `edges` [r] in each of `rows` [r]."""
        logs = np.broadcast_to(np.asarray(logprobs, dtype=np.float32), rows.shape)
        self._taken.append((rows, edges, self.start[rows], self.count[rows], logs))
        self.start[rows], self.count[rows] = self.automaton.start[edges], self.automaton.count[edges]

    def forced(self, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Take forced edges in `rows` until each answer has a choice or ends; yield (rows, token ids) per step."""
        while len(rows := rows[self.count[rows] == 1]):
            edges = self.start[rows]
            self.take(rows, edges)
            yield rows, self.automaton.token[edges]

    def steps(self) -> list[Steps]:
        """Return the record of every answer, in order."""
        walks = range(len(self.count))
        rows, edges, start, count, logs = (np.concatenate(part) for part in zip(*self._taken, strict=True))
        order = np.argsort(rows, kind="stable")
        edges, count, logs = edges[order], count[order], logs[order]
        allowed, step = ranges(start[order], count)
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
