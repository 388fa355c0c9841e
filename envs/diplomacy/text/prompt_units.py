"""End of a prompt: the power, its task, and the units (in winter the free homes) to be ordered.

FRANCE : F BRE A MAR A PAR              compact, without further details
FRANCE                                  compact, with the number of orders and the surroundings of each unit
F BRE 9 ENG GAS MAO PIC by ENG
...
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sparring.envs.diplomacy.board.board import location_name
from sparring.envs.diplomacy.board.codes import RETREATS
from sparring.envs.diplomacy.orders.choices import Choices
from sparring.envs.diplomacy.orders.notation import write_unit
from sparring.envs.diplomacy.text.neighbourhoods import window_words, windows
from sparring.envs.text import Option

KINDS = {"H": "hold", "-": "move", "S": "support", "C": "convoy", "R": "retreat", "D": "disband", "B": "build"}
"""Kinds of orders by the third word of their text."""


def asked(row: Mapping[str, np.ndarray], choices: Choices, *, compact: bool) -> str:
    """Return a power's task: short, such as "builds 2", if compact, else a sentence."""
    if choices.winter:
        verb = "build" if choices.winter > 0 else "disband"
        return f"{verb}s {choices.lines}" if compact else f"{choices.lines} to {verb}, of these:"
    if int(row["phase"]) in RETREATS:
        return "retreats" if compact else "These units retreat or disband:"
    return "" if compact else "These units move, hold, support or convoy:"


def unit_lines(
    row: Mapping[str, np.ndarray], choices: Choices, *, compact: bool, counts: bool, near: bool, moves: bool
) -> list[str]:
    """Return a line for each slot of the choices: its name, number of orders, surroundings, and orders."""
    lines = unit_names(row, choices)
    if counts:
        lines = [
            f"{line} {len(options)}" if compact else f"{line} [{len(options)}: {_kinds(options)}]"
            for line, options in zip(lines, choices.options, strict=True)
        ]
    if near and choices.winter <= 0:  # a build has no unit with surroundings yet
        seen = [window_words(window, compact=compact) for window in windows(row, choices.power)]
        lines = [f"{line}{' ' if compact else ': '}{words}" for line, words in zip(lines, seen, strict=True)]
    if moves:
        lines = [f"{line} = {_texts(options)}" for line, options in zip(lines, choices.options, strict=True)]
    return lines


def unit_names(row: Mapping[str, np.ndarray], choices: Choices) -> list[str]:
    """Return the name of each slot of the choices: its unit, or the home centre of a possible build."""
    if choices.winter > 0:
        return [location_name(place) for place in choices.provinces]
    units = row["dislodged" if int(row["phase"]) in RETREATS else "units"]
    return [write_unit(int(units[place]), place) for place in choices.provinces]


def _kinds(options: tuple[Option, ...]) -> str:
    """Return the kinds of orders among the options, each once: "hold, move, support"."""
    words = [option.text.split() for option in options]
    return ", ".join(dict.fromkeys(KINDS[word[2]] if len(word) > 2 else "waive" for word in words))


def _texts(options: tuple[Option, ...]) -> str:
    return ", ".join(option.text for option in options)
