"""Parse answers in OpenSpiel games: action names, and the action that an answer selects.

An illegal answer is replaced by a uniformly random legal action. This is part of the player's policy and included in
exact figures.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparring.envs import text_moves
from sparring.envs.openspiel_text.decisions import action_menu
from sparring.envs.text import Prompt, TextAnswer
from sparring.envs.text_moves import ReadAnswer, move_format


def read_decision(prompt: Prompt, answer: TextAnswer) -> ReadAnswer:
    """Return the action selected by an answer to a state's prompt."""
    return text_moves.read_decision(prompt.menu, answer, action_menu(prompt.position))  # type: ignore[arg-type]


def probes() -> Iterator[str]:
    """Yield action names of common games, to test a tokenizer."""
    yield from ("Pass", "Bet", "Fold", "Call", "Raise", "Liar", "Roll", "Yes", "No")
    yield from (f"{count}-{face}" for count in range(1, 3) for face in range(1, 7))
    yield from (f"{mark}({row},{column})" for mark in "xo" for row in range(3) for column in range(3))
    yield from (f"{mark}{column}" for mark in "xo" for column in range(7))
    yield from (f"{file}{rank}{file}{rank - 1}" for file in "abcdefgh" for rank in range(2, 9))
    yield from (f"[P{player}]Bid: {card}" for player in range(2) for card in range(1, 14))


MOVES = move_format(lambda: [*probes()])
"""Format of an action from a menu."""
