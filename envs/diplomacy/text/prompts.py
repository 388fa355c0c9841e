"""A position as text for a language model: instructions, then the board, then the power and its units.

Shared text comes first, so that a prefix cache stores it once: `static_prefix` is shared by all prompts, `board_text`
by the seven powers of a position. A prompt ends with the line `<orders>`; `completion.py` parses the text after it.
Compact prompts rely on the mask for legality and cost one token a word with the tokenizer in `agents/llm`. Full prompts
explain the game, for models trained on English but not on the game.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sparring.configs.language import LanguageModelConfig
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.orders.choices import Choices
from sparring.envs.diplomacy.orders.completion import OPENING
from sparring.envs.diplomacy.text.prompt_board import board_lines, holdings
from sparring.envs.diplomacy.text.prompt_units import asked, unit_lines
from sparring.envs.diplomacy.text.report import board_report

COMPACT_PREFIX = "Diplomacy\n"
INSTRUCTIONS = """\
You are one of the seven powers in a game of Diplomacy. Nobody talks. Who owns 18 of the 34 supply centres wins alone.
Centres change hands after fall; in winter there are as many units as centres. A is an army, F a fleet. Orders look so:
A PAR H (hold)
A PAR - BUR (move)
A LON - NWY VIA (move across the sea)
F NTH C A LON - NWY (convoy that army)
A PAR S MAR (support a unit that does not move)
A PAR S MAR - BUR (support a move)
A PAR R BUR (retreat) or A PAR D (disband)
A PAR B or F STP/NC B (build) or WAIVE (build nothing)
Write one order a line for each unit that is listed, in the same sequence, then </orders>; in winter as many as are due.
"""
WINDOW_NOTE = (
    "After each unit: the places next to it, with the owner of a centre and the unit there, and who threatens it.\n"
)
COUNT_NOTE = "After each unit, in brackets: how many orders are legal.\n"
MOVES_NOTE = "After each unit: its legal orders.\n"


@dataclass(frozen=True)
class PromptRules:
    """Content of a prompt.

    Attributes:
        compact: few tokens; else sentences and instructions.
        show_valid_moves: every legal order of each unit.
        show_board_context: centres and units of all powers; without it only the power's own.
        show_map_windows: for each unit the places next to it and the units that threaten it.
        show_action_counts: number of legal orders of each unit, and in full prompts their kinds.

    """

    compact: bool = True
    show_valid_moves: bool = False
    show_board_context: bool = True
    show_map_windows: bool = False
    show_action_counts: bool = False

    @classmethod
    def of(cls, model: LanguageModelConfig) -> PromptRules:
        """Return the rules of a configuration."""
        return cls(**{name: getattr(model, name) for name in cls.__dataclass_fields__})


def render(row: Mapping[str, np.ndarray], power: int, choices: Choices, rules: PromptRules, *, last_year: int) -> str:
    """Return the prompt for one power in one phase, from a game's rows; a pure function of its arguments.

    Raises `ValueError` for choices without lines, which need no prompt.
    """
    if not choices.lines:
        raise ValueError(f"{POWERS[power]} has nothing to order in this phase, so there is no prompt")
    board = board_text(row, rules, last_year=last_year)
    return f"{static_prefix(rules)}{board}{_own(row, power, choices, rules)}{OPENING}"


def static_prefix(rules: PromptRules) -> str:
    """Return the common beginning of all prompts of these rules, independent of game, position and power."""
    if rules.compact:
        return COMPACT_PREFIX
    notes = (
        (rules.show_action_counts, COUNT_NOTE),
        (rules.show_map_windows, WINDOW_NOTE),
        (rules.show_valid_moves, MOVES_NOTE),
    )
    return INSTRUCTIONS + "".join(note for shown, note in notes if shown)


def board_text(row: Mapping[str, np.ndarray], rules: PromptRules, *, last_year: int) -> str:
    """Return the phase, and the board if it is shown; the same for all powers of a position."""
    year, phase = int(row["year"]), codes.PHASES[int(row["phase"])]
    if rules.compact:
        board = board_lines(row) if rules.show_board_context else []
        return _lines([f"{phase} {year} of {last_year}", *board])
    board = [board_report(row)] if rules.show_board_context else [f"It is {phase} {year}."]
    return _lines([*board, f"The game ends after {last_year}."])


def _own(row: Mapping[str, np.ndarray], power: int, choices: Choices, rules: PromptRules) -> str:
    """Return the power, its task, and each unit (in winter each free home) with the details that the rules show."""
    shown = {"counts": rules.show_action_counts, "near": rules.show_map_windows, "moves": rules.show_valid_moves}
    lines = unit_lines(row, choices, compact=rules.compact, **shown)
    task = asked(row, choices, compact=rules.compact)
    held = [] if rules.show_board_context else [holdings(row, power)]
    if not rules.compact:
        return _lines([*held, f"You are {POWERS[power]}. {task}", *lines])
    head = f"{POWERS[power]} {task}".rstrip()
    return _lines([*held, head, *lines] if any(shown.values()) else [*held, " ".join([head, ":", *lines])])


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
