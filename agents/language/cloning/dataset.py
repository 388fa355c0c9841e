"""Training data of a clone: the prompt and the bot's answer of every seat, packed into batches.

Examples with a common prompt prefix share its computation. A row of a batch is one group of examples, here the powers
of one position. First comes the prefix that all prompts share, then the rest of each prompt with its answer:

    [ instructions, board ][ "AUSTRIA : ..." answer ][ "ENGLAND : ..." answer ] ...

Positions continue from the shared part in each branch. A token attends only to the shared part and to its own branch.
So every example is computed as if alone (tested). Rows are padded on the right with tokens that no
token attends to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.agents.language.decoding.constraint import beginning, encode
from sparring.configs.core.errors import InputError
from sparring.envs.text import Demonstration, Demonstrations

IGNORED = -100
"""Target of tokens without a loss."""


@dataclass(frozen=True)
class Example:
    """Token ids of a prompt and of its answer, which ends with the end of text."""

    prompt: list[int]
    answer: list[int]


@dataclass(frozen=True)
class Batch:
    """B rows of L tokens.

    Attributes:
        input_ids: int64 [B, L].
        position_ids: int64 [B, L].
        attention_mask: float32 [B, 1, L, L], 0 where the row's token may attend to the column's, else the lowest float.
        targets: int64 [B, L], the next answer token, else `IGNORED`.

    """

    input_ids: Tensor
    position_ids: Tensor
    attention_mask: Tensor
    targets: Tensor

    def to(self, device: torch.device) -> Batch:
        """Return the batch on a device."""
        return Batch(*(getattr(self, name).to(device) for name in self.__dataclass_fields__))


Group = Sequence[Example]


def packed_length(group: Group) -> int:
    """Return the number of tokens in the row of a group."""
    shared = shared_length(group)
    return shared + sum(len(example.prompt) + len(example.answer) - shared for example in group)


def shared_length(group: Group) -> int:
    """Return the number of tokens that all prompts share; the last is never shared, since the answers differ."""
    prompts = [example.prompt[:-1] for example in group]
    first, last = min(prompts), max(prompts)  # in lexicographic order: a prefix of these two is a prefix of all
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))


def pack(groups: Sequence[Group], *, pad_id: int) -> Batch:
    """Return a batch with one row per group."""
    rows = [_row(group) for group in groups]
    size = (len(rows), max(len(row[0]) for row in rows))
    columns = (np.full(size, fill, dtype=np.int64) for fill in (pad_id, 0, -1, IGNORED))
    ids, positions, branches, targets = columns
    for number, row in enumerate(rows):
        for column, values in zip((ids, positions, branches, targets), row, strict=True):
            column[number, : len(values)] = values
    tensors = (torch.from_numpy(column) for column in (ids, positions, targets))
    input_ids, position_ids, target_ids = tensors
    return Batch(input_ids, position_ids, _mask(torch.from_numpy(branches)), target_ids)


def batches(groups: Sequence[Group], most_tokens: int) -> list[list[Group]]:
    """Split groups, sorted by length, into batches of at most `most_tokens`, padding included, or of one group."""
    parts: list[list[Group]] = []
    for group in sorted(groups, key=packed_length):
        if not parts or (len(parts[-1]) + 1) * packed_length(group) > most_tokens:
            parts.append([])
        parts[-1].append(group)
    return parts


def halve(groups: Sequence[Group]) -> list[list[Group]]:
    """Split groups into two parts of about equal tokens; a single group gives one part."""
    parts: list[list[Group]] = [[], []]
    sizes = [0, 0]
    for group in sorted(groups, key=packed_length, reverse=True):
        smaller = sizes.index(min(sizes))
        parts[smaller].append(group)
        sizes[smaller] += packed_length(group)
    return [part for part in parts if part]


def _row(group: Group) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return ids, positions, branch (0 is shared) and targets of one row."""
    shared = shared_length(group)
    ids, positions = list(group[0].prompt[:shared]), list(range(shared))
    branches, targets = [0] * shared, [IGNORED] * shared
    for number, example in enumerate(group, start=1):
        rest = example.prompt[shared:]
        ids += rest + example.answer
        positions += range(shared, shared + len(rest) + len(example.answer))
        branches += [number] * (len(rest) + len(example.answer))
        targets += [*[IGNORED] * (len(rest) - 1), *example.answer, IGNORED]
    return ids, positions, branches, targets


def _mask(branches: Tensor) -> Tensor:
    """Return the attention mask of branches [B, L]; each token attends at least to itself, so no row is empty."""
    length = branches.shape[1]
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    same_branch = branches[:, :, None] == branches[:, None, :]
    allowed = earlier & (same_branch | (branches[:, None, :] == 0)) | torch.eye(length, dtype=torch.bool)
    return torch.zeros(allowed.shape).masked_fill_(~allowed, torch.finfo(torch.float32).min)[:, None]


class CloneDataset:
    """Groups of examples, in tokens of `tokenizer`, from endless games; no position is repeated.

    `longest` is the number of tokens that the model reads at most.
    """

    def __init__(self, games: Demonstrations, tokenizer: Any, *, longest: int | None = None) -> None:
        self.games, self._tokenizer, self._longest = games, tokenizer, longest
        self._begin = beginning(tokenizer)

    def next(self) -> list[Group]:
        """Return the next step of all games."""
        return self.examples(self.games.next())

    def examples(self, positions: Sequence[Sequence[Demonstration]]) -> list[Group]:
        """Return the decisions as examples, in their groups; all are encoded at once.

        Raises `InputError` for one that is too long for the model.
        """
        flat = [decision for position in positions for decision in position]
        prompts = encode(self._tokenizer, [decision.text for decision in flat])
        answers = encode(self._tokenizer, [decision.answer for decision in flat])
        end = self._tokenizer.eos_token_id
        pairs = zip(prompts, answers, strict=True)
        examples = [Example([*self._begin, *prompt], [*answer, end]) for prompt, answer in pairs]
        self._check_lengths(examples)
        following = iter(examples)
        return [[next(following) for _ in position] for position in positions]

    def _check_lengths(self, examples: Sequence[Example]) -> None:
        tokens = max((len(example.prompt) + len(example.answer) for example in examples), default=0)
        if self._longest and tokens > self._longest:
            raise InputError(
                f"an example has {tokens} tokens, but the model accepts at most {self._longest}: choose another with"
                " model.name, or show less in its prompts"
            )
