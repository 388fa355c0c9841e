"""A move as a text answer: menu, format, and parsing of free text by its last line.

A free text is valid if it is not truncated and its last line names a legal move, in any case and markup. Three kinds of
invalid answers are counted separately: illegal, missing and truncated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparring.envs.reasoning import without_reasoning
from sparring.envs.text import FreeText, Option, TextAnswer, TextFormat

OPENING, CLOSING = "<move>\n", "</move>"
CUT, ILLEGAL, MISSING, LEGAL = "cut", "illegal", "missing", "legal"
STOP = "stop"
"""`finish_reason` of a complete answer; it is `CUT` for free text at its limit."""
KINDS = (ILLEGAL, CUT, MISSING)
"""Kinds of answers that are not legal actions."""
THINK = "Think step by step. Then write your move, as it is in this list, alone on the last line.\n"
"""End of a prompt for free text, below the list of legal moves."""
MARKS = " \t*_`\"'.:;!<>"
LABEL = re.compile(
    r"(?:(?:my|final|the|best)\s+)*(?:move|action|answer|choice)\b[\s*_`]*(?:is\b)?\s*[:=]?\s*", re.IGNORECASE
)
LONGEST = 20_000
"""Characters at the end of a free text that are read."""


@dataclass(frozen=True)
class ActionMenu:
    """The legal actions of one decision, a `Menu` of one line."""

    options: tuple[Option, ...]
    name: str = "a player"
    lines: int = 1
    independent: bool = True

    @property
    def longest(self) -> int:
        """Number of characters of the longest name."""
        return max(len(option.text) for option in self.options)

    def menu(self, line: int, last: int = -1) -> tuple[Option, ...]:
        """Return all actions, for the only line."""
        return self.options


@dataclass(frozen=True)
class ReadAnswer:
    """A parsed answer: its `kind`, and the action if legal."""

    kind: str
    option: Option | None = None


def read_free_text(text: str, menu: ActionMenu, *, cut: bool = False) -> ReadAnswer:
    """Parse a free text; `cut` if it reached its limit. Never raises."""
    answer, unfinished = without_reasoning(text[-LONGEST:])
    if cut or unfinished:
        return ReadAnswer(CUT)
    lines = [line for line in (line.strip(MARKS) for line in answer.replace(CLOSING, "").splitlines()) if line]
    if not lines:
        return ReadAnswer(MISSING)
    last = lines[-1]
    for written in (last, LABEL.sub("", last, count=1).strip(MARKS)):
        key = _key(written)
        matches = [option for option in menu.options if _key(option.text.strip(MARKS)) == key]
        exact = [option for option in matches if option.text == written]
        if len(matches) == 1 or exact:
            return ReadAnswer(LEGAL, (exact or matches)[0])
    return ReadAnswer(ILLEGAL)


def read_decision(asked: ActionMenu | FreeText, answer: TextAnswer, menu: ActionMenu) -> ReadAnswer:
    """Parse an answer, `asked` from the menu of legal moves or as free text."""
    finish = getattr(answer, "finish_reason", STOP)
    if isinstance(asked, FreeText):
        return read_free_text(answer.text, menu, cut=finish == CUT)
    return ReadAnswer(LEGAL, answer.chosen[0]) if finish == STOP else ReadAnswer(ILLEGAL)


def _key(text: str) -> str:
    return " ".join(text.casefold().split())


@dataclass(frozen=True)
class UnreadMove:
    """A line that is not a legal action."""

    text: str
    problem: str = "is not a legal action"


@dataclass(frozen=True)
class MoveReading:
    """A text parsed as an answer from a menu; the first action replaces a missing one."""

    chosen: tuple[Option, ...]
    complete: bool
    orders_extracted: int
    problems: Sequence[UnreadMove] = ()

    @property
    def illegal(self) -> int:
        """1 for a text that is not a legal action."""
        return len(self.problems)


def read_move(text: str, menu: ActionMenu) -> MoveReading:
    """Parse any text as an answer from a menu; never raises."""
    read = read_free_text(text.partition(CLOSING)[0], menu)
    if read.option:
        return MoveReading((read.option,), True, 1)
    return MoveReading(menu.options[:1], False, 0, (UnreadMove(text.strip()[:100]),))


def move_format(probes: Callable[[], Sequence[str]]) -> TextFormat:
    """Return the format of a move from a menu, in a game whose moves are named like `probes`."""
    return TextFormat(
        opening=OPENING,
        closing=CLOSING,
        probes=probes,
        read=read_move,
        trial=ActionMenu((Option("Fold", 0, 0), Option("Call", 1, 0), Option("Raise", 2, 0))),
        sample=f"Fold\nCall\n{OPENING}",
    )
