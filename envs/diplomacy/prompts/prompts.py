"""A position as text for a language model: instructions, then the board, then the power and its units.

Shared text comes first, and a prefix cache stores it once: `static_prefix` is shared by all prompts, `board_text` by
the seven powers of a position. A prompt ends with the line `<orders>`; `completion.py` parses the text after it.
Compact prompts rely on the mask for legality and cost one token per word with the tokenizer in `agents/language`:

FRANCE 4 BRE MAR PAR SPA : F BRE A MAR A PAR F SPA/SC     a line for each power,
nobody 2 BEL DEN                                          unowned centres,
dislodged ITALY F TYS from LYO                            and each dislodged unit
contested NAP TUN
FRANCE : F BRE A MAR A PAR                                the units to order, without further details, or
F BRE 9 ENG GAS MAO PIC by ENG                            a line each: number of orders, neighbours, attackers

Full prompts explain the game, for models trained on English but not on the game. In both, the neighbours of a unit are
the places that it could move to by itself, with their occupants and possible attackers; support and convoys are left
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sparring.configs.language import LanguageModelConfig
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import NOTHING, POWERS, centre_names, location_name, standard_board
from sparring.envs.diplomacy.orders.choices import Choices
from sparring.envs.diplomacy.orders.completion import OPENING
from sparring.envs.diplomacy.orders.notation import LETTERS, unit_location, write_unit
from sparring.envs.diplomacy.prompts.report import board_report
from sparring.envs.text import Option

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
Codes = tuple[int, ...]
KINDS = {"H": "hold", "-": "move", "S": "support", "C": "convoy", "R": "retreat", "D": "disband", "B": "build"}
"""Kinds of orders by the third word of their text."""


@dataclass(frozen=True)
class PromptRules:
    """Options for the content of a prompt.

    Attributes:
        compact: few tokens; else sentences and instructions.
        show_valid_moves: every legal order of each unit.
        show_board_context: centres and units of all powers; without it only the power's own.
        show_map_windows: for each unit the places next to it and the units that threaten it.
        show_action_counts: number of legal orders of each unit, and in full prompts their kinds.
        past_orders: number of past phases whose orders are shown, for all powers.
        instructions: text that replaces `INSTRUCTIONS` in full prompts.

    """

    compact: bool = True
    show_valid_moves: bool = False
    show_board_context: bool = True
    show_map_windows: bool = False
    show_action_counts: bool = False
    past_orders: int = 0
    instructions: str = ""

    @classmethod
    def of(cls, model: LanguageModelConfig) -> PromptRules:
        """Return the rules of a configuration, which has no orders of the past and no instructions."""
        return cls(**{name: getattr(model, name) for name in cls.__dataclass_fields__ if hasattr(model, name)})


def render(
    row: Mapping[str, np.ndarray], power: int, choices: Choices, rules: PromptRules, *, last_year: int, past: str = ""
) -> str:
    """Return the prompt for one power in one phase, from a game's rows; a pure function of its arguments.

    `past` are lines about earlier phases, below the board. Raises `ValueError` for choices without lines, which need
    no prompt.
    """
    if not choices.lines:
        raise ValueError(f"{POWERS[power]} has nothing to order in this phase, which needs no prompt")
    board = board_text(row, rules, last_year=last_year)
    return f"{static_prefix(rules)}{board}{past}{_own(row, power, choices, rules)}{OPENING}"


def static_prefix(rules: PromptRules) -> str:
    """Return the common beginning of all prompts of these rules, independent of game, position and power."""
    if rules.compact:
        return COMPACT_PREFIX
    notes = (
        (rules.show_action_counts, COUNT_NOTE),
        (rules.show_map_windows, WINDOW_NOTE),
        (rules.show_valid_moves, MOVES_NOTE),
    )
    return (rules.instructions or INSTRUCTIONS) + "".join(note for enabled, note in notes if enabled)


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
    details = {"counts": rules.show_action_counts, "near": rules.show_map_windows, "moves": rules.show_valid_moves}
    lines = unit_lines(row, choices, compact=rules.compact, **details)
    task = task_text(row, choices, compact=rules.compact)
    owned = [] if rules.show_board_context else [holdings(row, power)]
    if not rules.compact:
        return _lines([*owned, f"You are {POWERS[power]}. {task}", *lines])
    head = f"{POWERS[power]} {task}".rstrip()
    return _lines([*owned, head, *lines] if any(details.values()) else [*owned, " ".join([head, ":", *lines])])


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def board_lines(row: Mapping[str, np.ndarray]) -> list[str]:
    """Return a game's rows as lines; powers with neither centre nor unit are left out."""
    return list(_board_lines(*(tuple(row[name].tolist()) for name in ("units", "owner", "dislodged", "origin"))))


def holdings(row: Mapping[str, np.ndarray], power: int) -> str:
    """Return a power's centres with their count and, after a colon, its units; empty for a power with neither."""
    return _holdings(row["units"].tolist(), row["owner"].tolist(), power)


@lru_cache(maxsize=4096)
def _board_lines(units: Codes, owner: Codes, dislodged: Codes, origin: Codes) -> tuple[str, ...]:
    """Return the lines, cached because all seven powers of a position need them."""
    lines = [line for power in range(codes.NUM_POWERS) if (line := _holdings(units, owner, power))]
    if neutral := centre_names(owner, NOTHING):
        lines.append(f"nobody {len(neutral)} {' '.join(neutral)}")
    lost = [province for province, unit in enumerate(dislodged) if unit]
    lines += [_dislodged(dislodged[province], province, origin[province]) for province in lost]
    contested = [location_name(province) for province, came in enumerate(origin) if came == codes.CONTESTED]
    return (*lines, f"contested {' '.join(contested)}") if lost and contested else tuple(lines)


def _holdings(units: Sequence[int], owner: Sequence[int], power: int) -> str:
    centres = centre_names(owner, power)
    names = [write_unit(unit, at) for at, unit in enumerate(units) if unit and (unit - 1) % codes.NUM_POWERS == power]
    if not centres and not names:
        return ""
    return " ".join([POWERS[power], str(len(centres)), *centres, ":", *names])


def _dislodged(unit: int, province: int, origin: int) -> str:
    came = f" from {location_name(origin)}" if origin < codes.NUM_PROVINCES else ""
    return f"dislodged {POWERS[(unit - 1) % codes.NUM_POWERS]} {write_unit(unit, province)}{came}"


def task_text(row: Mapping[str, np.ndarray], choices: Choices, *, compact: bool) -> str:
    """Return a power's task: short, such as "builds 2", if compact, else a sentence."""
    if choices.winter:
        verb = "build" if choices.winter > 0 else "disband"
        return f"{verb}s {choices.lines}" if compact else f"{choices.lines} to {verb}, of these:"
    if int(row["phase"]) in codes.RETREATS:
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
    if near and choices.winter <= 0:  # a unit not yet built has no surroundings
        surroundings = [window_words(window, compact=compact) for window in windows(row, choices.power)]
        lines = [f"{line}{' ' if compact else ': '}{words}" for line, words in zip(lines, surroundings, strict=True)]
    if moves:
        lines = [f"{line} = {_texts(options)}" for line, options in zip(lines, choices.options, strict=True)]
    return lines


def unit_names(row: Mapping[str, np.ndarray], choices: Choices) -> list[str]:
    """Return the name of each slot of the choices: its unit, or the home centre of a possible build."""
    if choices.winter > 0:
        return [location_name(province) for province in choices.provinces]
    units = row["dislodged" if int(row["phase"]) in codes.RETREATS else "units"]
    return [write_unit(int(units[province]), province) for province in choices.provinces]


def _kinds(options: tuple[Option, ...]) -> str:
    """Return the kinds of orders among the options, each once: "hold, move, support"."""
    words = [option.text.split() for option in options]
    return ", ".join(dict.fromkeys(KINDS[word[2]] if len(word) > 2 else "waive" for word in words))


def _texts(options: tuple[Option, ...]) -> str:
    return ", ".join(option.text for option in options)


@dataclass(frozen=True)
class Window:
    """Surroundings of a unit: places it could move to by itself, ascending, and provinces of possible attackers.

    After a place's name come the owner of its centre, if it has one, and the unit there, such as "A GERMANY". The
    neighbours of a dislodged unit include all its retreats, and its threats are those to its former province.
    """

    province: int
    neighbours: tuple[tuple[str, ...], ...]
    threats: tuple[str, ...]


def windows(row: Mapping[str, np.ndarray], power: int) -> tuple[Window, ...]:
    """Return the windows of the units of `power` with orders in this phase, by province, from a game's rows."""
    units = row["dislodged" if int(row["phase"]) in codes.RETREATS else "units"]
    provinces = np.flatnonzero(codes.power_of(units) == power).tolist()
    return tuple(
        Window(at, tuple(_neighbours(row, int(units[at]), at)), tuple(_threats(row["units"], at, power)))
        for at in provinces
    )


def _neighbours(row: Mapping[str, np.ndarray], unit: int, province: int) -> Iterator[tuple[str, ...]]:
    board = standard_board()
    for location in _reach(unit, province):
        goal = int(board.province_of[location])
        centre = int(board.centre_of[goal])
        holder = NOTHING if centre == NOTHING else int(row["owner"][centre])
        owner = "" if centre == NOTHING else POWERS[holder] if holder >= 0 else "nobody"
        words = (location_name(location), owner, _occupant(int(row["units"][goal])))
        yield tuple(filter(None, words))


def _reach(unit: int, province: int) -> list[int]:
    """Return the locations that the unit with this code, in a province, can move to by itself."""
    board, army = standard_board(), (unit - 1) // codes.NUM_POWERS == codes.ARMY_FORM
    row = board.army_neighbours[province] if army else board.fleet_neighbours[unit_location(unit, province)]
    return [location for location in row.tolist() if location != NOTHING]


def _occupant(unit: int) -> str:
    if not unit:
        return ""
    form, power = divmod(unit - 1, codes.NUM_POWERS)
    return f"{LETTERS[min(form, 1)]} {POWERS[power]}"


def _threats(units: np.ndarray, province: int, power: int) -> Iterator[str]:
    """Yield the provinces of other powers' units that could move to a province."""
    board = standard_board()
    for other in np.flatnonzero(units).tolist():
        unit = int(units[other])
        hostile = (unit - 1) % codes.NUM_POWERS != power
        if hostile and any(int(board.province_of[location]) == province for location in _reach(unit, other)):
            yield location_name(other)


def window_words(window: Window, *, compact: bool) -> str:
    """Return a window as text: "PIC, BRE (FRANCE), BUR (A GERMANY); threatened from BUR", or its shortest form."""
    threats = " ".join(window.threats)
    if compact:
        words = [" ".join(neighbour) for neighbour in window.neighbours]
        return " ".join([*words, *(["by", threats] if threats else [])])
    places = [f"{name} ({', '.join(facts)})" if facts else name for name, *facts in window.neighbours]
    return ", ".join(places) + (f"; threatened from {threats}" if threats else "")
