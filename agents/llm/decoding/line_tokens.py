"""Lines of answers as token ids: each text is encoded once, checked for a unique tokenization, and ranked.

The constraint joins the ids of lines instead of encoding whole answers, so that every answer has exactly one path
and its probability is exact. This requires a tokenizer that keeps lines apart: joined ids must be the ids of the joined
text, and decoding must return the text. Every text is checked when it first occurs. A tokenizer that fails (an added
space before the first word, unknown words, tokens across lines) is rejected.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.text import TextFormat

PAD = -1


class TokenizerError(InputError):
    """A tokenizer that the exact constraint cannot use; the message names it and the problem."""


class LineTokens:
    """Token ids of every line seen so far; `closing` int32 is the end tag followed by the end of text.

    Attributes (T texts, the longest of L tokens): `tokens` int32 [T, L], padded with -1; `lengths` int64 [T];
    `rank` int64 [T], the rank of each by its ids, so that sorting by rank sorts by ids.

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
        known = self._numbers
        if new := sorted({text for text in texts if text not in known}):
            self._learn(new)
        return [known[text] for text in texts]

    def _learn(self, texts: list[str]) -> None:
        lines = [f"{text}\n" for text in texts]
        encoded = encode(self._tokenizer, lines)
        self._check(lines, encoded)
        lengths = np.array([len(ids) for ids in encoded])
        longest = max(int(lengths.max()), self.tokens.shape[1])
        table = np.full((len(self.tokens) + len(lines), longest), PAD, dtype=np.int32)
        table[: len(self.tokens), : self.tokens.shape[1]] = self.tokens
        table[len(self.tokens) :][np.arange(longest) < lengths[:, None]] = np.concatenate(encoded)
        self._numbers |= {text: len(self.tokens) + place for place, text in enumerate(texts)}
        self.tokens, self.lengths = table, np.append(self.lengths, lengths)
        self.rank = np.argsort(np.lexsort(table.T[::-1]))

    def _check(self, lines: list[str], encoded: list[list[int]]) -> None:
        """Raise `TokenizerError` unless these ids, joined, are the encoding of these lines and decode to them."""
        opening, tag = self._around
        whole, joined = self._framed("".join(lines)), [*opening, *itertools.chain(*encoded), *tag]
        if encode(self._tokenizer, [whole])[0] != joined:
            line = self._culprit(lines, encoded)
            raise TokenizerError(
                f"tokenizer {self._name} writes {line!r} with other tokens among other lines than alone:"
                " it cannot be used for exact orders"
            )
        if decode(self._tokenizer, joined) != whole:
            read = ((line, decode(self._tokenizer, ids)) for line, ids in zip(lines, encoded, strict=True))
            line, back = next(((line, back) for line, back in read if back != line), (whole[:80], "something else"))
            raise TokenizerError(f"tokenizer {self._name} turns {line!r} into {back!r}")

    def _culprit(self, lines: list[str], encoded: list[list[int]]) -> str:
        """Return the first line whose tokens change between the opening and the end tag; else the first line."""
        opening, tag = self._around
        framed = encode(self._tokenizer, [self._framed(line) for line in lines])
        wrong = (
            line for line, ids, whole in zip(lines, encoded, framed, strict=True) if whole != [*opening, *ids, *tag]
        )
        return next(wrong, lines[0])

    def _framed(self, lines: str) -> str:
        return self._format.opening + lines + self._format.closing


def encode(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of texts, without the special tokens that a tokenizer adds."""
    options = {"return_attention_mask": False, "return_token_type_ids": False}
    return tokenizer(list(texts), add_special_tokens=False, **options)["input_ids"] if texts else []


def beginning(tokenizer: Any) -> list[int]:
    """Return the token that this tokenizer puts before every text, if any."""
    bare, whole = encode(tokenizer, ["A"])[0], tokenizer("A")["input_ids"]
    first = tokenizer.bos_token_id
    return [first] if first is not None and whole[:1] == [first] and bare[:1] != [first] else []


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """Return the exact text of token ids."""
    return tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
