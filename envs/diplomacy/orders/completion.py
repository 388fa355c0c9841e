"""Completions of a language model as orders and back; the opening tag belongs to the prompt, the lines follow.

    A MAR - GAS
    A PAR S MAR - GAS
    </orders>

`TextFormat.write` makes that text from chosen options. `parse` converts any text to a legal answer: the orders that
`order_lines.py` reads in it, after a model's reasoning; the first for a unit counts. Missing lines are filled in with
the first option of a unit, in winter with the first units still to be disbanded, or with WAIVE.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, location_name
from sparring.envs.diplomacy.orders.choices import WAIVE, Choices
from sparring.envs.diplomacy.orders.listing import find
from sparring.envs.diplomacy.orders.notation import Order
from sparring.envs.diplomacy.orders.order_lines import order_lines
from sparring.envs.diplomacy.orders.submit import Line
from sparring.envs.text import Option, without_reasoning

OPENING, CLOSING = "<orders>\n", "</orders>"
LONGEST_TEXT = 20_000
"""Characters that are read after the opening tag, which bounds the time."""


@dataclass(frozen=True)
class Reading:
    """Parsed completion.

    Attributes:
        chosen: a complete legal answer, an option for every line of the choices.
        orders_expected: number of lines of a complete answer.
        orders_extracted: number of these found in the text; the others are filled in.
        problems: rejected lines of the text, with reasons.

    """

    chosen: tuple[Option, ...]
    orders_expected: int
    orders_extracted: int
    problems: tuple[Line, ...]

    @property
    def complete(self) -> bool:
        """True if all orders were in the text."""
        return self.orders_extracted == self.orders_expected

    @property
    def empty(self) -> bool:
        """True if orders were expected and none was found."""
        return self.orders_expected > 0 and self.orders_extracted == 0


def chosen_by(orders: np.ndarray, choices: Choices) -> tuple[Option, ...]:
    """Return the options for a power's part of a game's `orders` [75]; the inverse of `Choices.write`.

    A unit without an order gets its first option. Raises `ValueError` for an order that is not legal.
    """
    reader = _CompletionReader(choices)
    for place in choices.provinces:
        order = int(orders[place])
        if order and (problem := reader.put(place, order)):
            raise ValueError(f"order {order}: {problem}")
    return reader.answer()[0]


def parse(text: str, choices: Choices) -> Reading:
    """Parse any completion; never raises, and takes no longer for 10 MB than for a page."""
    reader = _CompletionReader(choices)
    problems = []
    for line in order_lines(_body(without_reasoning(text)[0])):
        wrong = [line.problem, *(reader.take(order) for order in line.orders)]
        problems += [Line(line.text, problem) for problem in wrong if problem]
    chosen, extracted = reader.answer()
    return Reading(chosen, choices.lines, extracted, tuple(problems))


def _body(text: str) -> str:
    """Return the text between the tags, which may be missing."""
    begin = text.rfind(OPENING.strip())
    body = text[begin + len(OPENING.strip()) :] if begin >= 0 else text
    return body[:LONGEST_TEXT].split(CLOSING)[0]


class _CompletionReader:
    """Parser of lines in sequence; keeps the first line of each slot."""

    def __init__(self, choices: Choices) -> None:
        self.choices, self.waived = choices, 0
        self.taken: dict[int, Option] = {}
        self.slots = {place: slot for slot, place in enumerate(choices.provinces)}

    def take(self, order: Order | None) -> str:
        """Add an order, None for a waive; return the error, empty if there is none."""
        return self._waive() if order is None else self.put(order.province, order.order)

    def put(self, place: int, order: int) -> str:
        """Add the option for a packed order in a province; return the error, empty if there is none."""
        here, slot = location_name(place), self.slots.get(place)
        if slot is None:
            return f"{POWERS[self.choices.power]} has nothing to order in {here}"
        options = self.choices.options[slot]
        listed = [option.value for option in options]
        number = listed.index(order) if order in listed else find(order, np.array(listed))
        return self._accept(options[number]) if number >= 0 else f"is not legal in {here} now"

    def answer(self) -> tuple[tuple[Option, ...], int]:
        """Return the complete answer and the number of its lines found in the text."""
        choices, count = self.choices, len(self.taken) + self.waived
        if not choices.winter:
            return tuple(self.taken.get(slot, options[0]) for slot, options in enumerate(choices.options)), count
        if choices.winter < 0:
            spare = [slot for slot in range(len(choices.options)) if slot not in self.taken]
            for slot in spare[: choices.lines - len(self.taken)]:
                self.taken[slot] = choices.options[slot][0]
        chosen = [self.taken[slot] for slot in sorted(self.taken)]
        waive = Option(WAIVE, codes.NO_ORDER, len(choices.options))
        return (*chosen, *[waive] * (choices.lines - len(chosen))), count

    def _accept(self, option: Option) -> str:
        if option.slot in self.taken:
            return f"{location_name(self.choices.provinces[option.slot])} has an order already; the first one counts"
        if self._full():
            return f"{POWERS[self.choices.power]} has no further order to give"
        self.taken[option.slot] = option
        return ""

    def _waive(self) -> str:
        if self.choices.winter <= 0:
            return "only builds can be waived"
        if self._full():
            return f"{POWERS[self.choices.power]} has no further build to waive"
        self.waived += 1
        return ""

    def _full(self) -> bool:
        return len(self.taken) + self.waived >= self.choices.lines
