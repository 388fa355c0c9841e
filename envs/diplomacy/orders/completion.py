"""Completions of a language model as orders and back; the opening tag belongs to the prompt, the lines follow.

    A MAR - GAS
    A PAR S MAR - GAS
    </orders>

`TextFormat.write` makes that text from chosen options. `parse` converts any text to a legal answer: the orders that
`order_lines` reads in it, after a model's reasoning; the first for a unit counts. Missing lines are filled in with the
first option of a unit, in winter with the first units still to be disbanded, or with WAIVE.

A line is read if it is made of orders alone, in any notation of `notation.py`: several of them separated by commas,
semicolons, "and" or the bars of a table; after a bullet, a number, a power's name or "Orders:"; in bold, backticks or
quotes; with a comment in brackets, or after # or //. So are the texts of a JSON list, alone or under "orders" or a
power's name. A line that says more is not read, since it may reject the order that it names, and neither is one that
is struck out or whose comment expresses doubt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, location_name
from sparring.envs.diplomacy.orders.choices import WAIVE, Choices
from sparring.envs.diplomacy.orders.listing import find
from sparring.envs.diplomacy.orders.notation import Order, OrderError, read_order
from sparring.envs.diplomacy.orders.submit import Line
from sparring.envs.text import Option, without_reasoning

OPENING, CLOSING = "<orders>\n", "</orders>"
LONGEST_TEXT = 20_000
"""Characters that are read after the opening tag, which bounds the time."""
MOST_LINES, LONGEST_LINE, LONGEST_ORDER = 100, 400, 100
"""Limits on lines, and on the characters of a line and of an order. They bound the time and lose no order: no power has
35 units."""
BULLET = re.compile(r"^\s*(?:[*•>+]+|[-–—](?=\s)|\(?\d+[.):]|\[[ xX]?\])\s*")
LABEL = re.compile(rf"^(?:(?:my |final )*(?:orders?|moves?)|{'|'.join(POWERS)})\s*:\s*", re.IGNORECASE)
COMMENT = re.compile(r"\s*(?:#|//).*$")
REMARK = re.compile(
    r"\s*[(\[](?![NESW]C[)\]]|(?:north|south|east|west)(?:ern)? coast[)\]])[^()\[\]]*[)\]]", re.IGNORECASE
)
DOUBT = re.compile(
    r"\b(?:not|no|never|cannot|\w+n['’]?t|if|unless|or|either|instead|rather|maybe|perhaps|could|would|might|otherwise|"
    r"reject\w*|avoid\w*|cancel\w*|illegal|invalid|wrong|alternativ\w*|option\w*)\b",
    re.IGNORECASE,
)
SEPARATOR = re.compile(r"[,;|]|\band\b", re.IGNORECASE)


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


@dataclass(frozen=True)
class OrderLine:
    """One line: the orders read in it, None for a waive; or the problem, if it is not read."""

    text: str
    orders: tuple[Order | None, ...]
    problem: str


def order_lines(text: str) -> list[OrderLine]:
    """Return the lines of `text` with a letter or digit in them, at most `MOST_LINES`; never raises."""
    return list(islice((_read(line) for line in _lines(text) if re.search(r"\w", line)), MOST_LINES))


def _lines(text: str) -> Iterator[str]:
    """Yield lines and the texts of JSON values, which begin lines."""
    at, attempts = 0, 0
    while at < len(text):
        end = re.compile(r"[\n\r]|$").search(text, at)
        stop = end.start() if end else len(text)
        line = text[at:stop]
        attempts += line.lstrip()[:1] in ("{", "[")
        if line.lstrip()[:1] in ("{", "[") and attempts <= MOST_LINES:
            start = at + len(line) - len(line.lstrip())
            try:
                value, stop = json.JSONDecoder().raw_decode(text, start)
            except (ValueError, RecursionError):
                yield line
            else:
                yield from _members(value)
        elif not re.match(r"\s*```\w*\s*$", line):
            yield line
        at = max(stop, at) + (text[stop : stop + 1] in ("\n", "\r"))


def _members(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, held in value.items():
            if key.lower() == "orders" or key.upper() in POWERS:
                yield from _members(held)
            else:
                yield f"{key}: {json.dumps(held)[:LONGEST_LINE]}"
    elif isinstance(value, list):
        yield from (member if isinstance(member, str) else json.dumps(member)[:LONGEST_LINE] for member in value)
    else:
        yield str(value)


def _read(line: str) -> OrderLine:
    if len(line.strip()) > LONGEST_LINE:
        return OrderLine(line, (), f"is {len(line.strip())} characters long; a line has at most {LONGEST_LINE}")
    if "~~" in line:
        return OrderLine(line, (), "is struck out; write an order alone, or leave it out")
    bare = re.sub(r"[*`\"“”„«»]|__", "", line).strip(" \t'‘’|")
    bare = LABEL.sub("", BULLET.sub("", BULLET.sub("", bare)).strip(" \t'‘’"))
    orders, problem = _orders(bare)
    without = COMMENT.sub("", REMARK.sub("", bare)).strip()
    if problem and without != bare and without:
        if DOUBT.search(bare):
            return OrderLine(line, (), "names an order with a doubt; write the order alone, or leave it out")
        orders, problem = _orders(without)
    return OrderLine(line.strip(), orders, problem)


def _orders(text: str) -> tuple[tuple[Order | None, ...], str]:
    """Return the orders of which a text is made, or the problem of the first part that is none."""
    try:
        return (_order(text.replace("|", " ")),), ""
    except OrderError as error:
        problem = str(error)
    parts = [part.strip() for part in SEPARATOR.split(text) if re.search(r"\w", part)]
    if len(parts) < 2:
        return (), problem
    try:
        return tuple(_order(part) for part in parts), ""
    except OrderError as error:
        return (), str(error)


def _order(text: str) -> Order | None:
    if len(text) > LONGEST_ORDER:
        raise OrderError(f"is {len(text)} characters long; no order is longer than {LONGEST_ORDER}")
    return read_order(text)
