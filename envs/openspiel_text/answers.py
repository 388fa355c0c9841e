"""Answers in text: the format of a menu's answers, and what a free text says, by its last line.

A free text counts if it ends by itself and its last line is the name of a legal action, whatever case and marks it is
written in. There are three kinds of others, which are counted apart: illegal, missing and cut off. A random legal
action is played in their place, each equally likely. That is part of the player's policy, and exact figures say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparring.envs.openspiel_text.decisions import ActionMenu, action_menu
from sparring.envs.reasoning import without_reasoning
from sparring.envs.text import Option, Prompt, TextAnswer, TextFormat

OPENING, CLOSING = "<move>\n", "</move>"
CUT, ILLEGAL, MISSING, LEGAL = "cut", "illegal", "missing", "legal"
STOP = "stop"
"""`finish_reason` of an answer that ended by itself; that of free text at its limit is `CUT`."""
KINDS = (ILLEGAL, CUT, MISSING)
"""Kinds of answers that are not legal actions."""
MARKS = " \t*_`\"'.:;!<>"
LABEL = re.compile(
    r"(?:(?:my|final|the|best)\s+)*(?:move|action|answer|choice)\b[\s*_`]*(?:is\b)?\s*[:=]?\s*", re.IGNORECASE
)
LONGEST = 20_000
"""Characters at the end of a free text that are read."""


@dataclass(frozen=True)
class ReadAnswer:
    """What an answer says: its `kind`, and the action where that is legal."""

    kind: str
    option: Option | None = None


def read_free_text(text: str, menu: ActionMenu, *, cut: bool = False) -> ReadAnswer:
    """Return what a free text says; `cut` if it reached its limit. Never raises."""
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


def read_decision(prompt: Prompt, answer: TextAnswer) -> ReadAnswer:
    """Return what an answer to a prompt of a state says."""
    if isinstance(prompt.menu, ActionMenu):
        legal = getattr(answer, "finish_reason", STOP) == STOP
        return ReadAnswer(LEGAL, answer.chosen[0]) if legal else ReadAnswer(ILLEGAL)
    cut = getattr(answer, "finish_reason", STOP) == CUT
    return read_free_text(answer.text, action_menu(prompt.position), cut=cut)


def _key(text: str) -> str:
    return " ".join(text.casefold().split())


@dataclass(frozen=True)
class UnreadMove:
    """A line that is not a legal action."""

    text: str
    problem: str = "is not a legal action"


@dataclass(frozen=True)
class MoveReading:
    """A text parsed as an answer from a menu; the first action stands in for a missing one."""

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


def probes() -> Iterator[str]:
    """Yield action names of common games, to test a tokenizer."""
    yield from ("Pass", "Bet", "Fold", "Call", "Raise", "Liar", "Roll", "Yes", "No")
    yield from (f"{count}-{face}" for count in range(1, 3) for face in range(1, 7))
    yield from (f"{mark}({row},{column})" for mark in "xo" for row in range(3) for column in range(3))
    yield from (f"{mark}{column}" for mark in "xo" for column in range(7))
    yield from (f"{file}{rank}{file}{rank - 1}" for file in "abcdefgh" for rank in range(2, 9))
    yield from (f"[P{player}]Bid: {card}" for player in range(2) for card in range(1, 14))


MOVES = TextFormat(
    opening=OPENING,
    closing=CLOSING,
    probes=lambda: [*probes()],
    read=read_move,
    trial=ActionMenu((Option("Fold", 0, 0), Option("Call", 1, 0), Option("Raise", 2, 0))),
    sample=f"Fold\nCall\n{OPENING}",
)
"""Format of an action from a menu."""
