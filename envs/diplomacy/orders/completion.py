"""Completions of a language model as orders and back; the opening tag belongs to the prompt, the lines follow.

    A MAR - GAS
    A PAR S MAR - GAS
    </orders>

`TextFormat.write` makes that text from chosen options. `parse` converts any text to a legal answer: the orders that
`order_lines` reads in it, without a model's reasoning (`envs/reasoning.py`). Missing lines are filled in with the first
option of a unit, in winter with the first units still to be disbanded, or with WAIVE.

A line is read if it consists of orders alone, in any notation of `notation.py`. Several orders may be separated by
commas, semicolons, "and" or the bars of a table. A bullet, a number, a power's name or "Orders:" may come first. Orders
may be in bold, backticks or quotes, with a remark in brackets, or after # or // (`remarks.py`). The texts of a JSON
list, alone or under "orders" or a power's name, are also read. Other lines are not read, since they may reject the
order that they name. Lines that are struck out or express doubt in a remark are not read either.

Lines without an unread or blank line between them are a block. Of several orders for a unit in a block the first
counts, and an order without a remark before one with a remark. A block that contradicts a later one is a draft, as is
everything before it: `last_block` names its lines as problems.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, location_name
from sparring.envs.diplomacy.orders.choices import WAIVE, Choices
from sparring.envs.diplomacy.orders.listing import find
from sparring.envs.diplomacy.orders.notation import Order, OrderError, as_retreat, read_order
from sparring.envs.diplomacy.orders.remarks import DOUBT, split_remarks, with_remarks
from sparring.envs.diplomacy.orders.submit import Line
from sparring.envs.reasoning import END_MARK, headed_answer, without_reasoning
from sparring.envs.text import Option

OPENING, CLOSING = "<orders>\n", "</orders>"
LONGEST_TEXT = 20_000
"""Characters that are read after the opening tag, which bounds the time."""
LEFT_OUT = "[the middle of a long text is skipped]"
DRAFT = "is superseded by later orders"
MOST_LINES, LONGEST_LINE, LONGEST_ORDER = 100, 400, 100
"""Limits on lines, and on the characters of a line and of an order. They bound the time without losing orders: a power
never has 35 units."""
BULLET = re.compile(r"^\s*(?:[*•>+]+|[-–—](?=\s)|\(?\d+[.):]|\[[ xX]?\])\s*")
LABEL = re.compile(rf"^(?:(?:my |final )*(?:orders?|moves?)|{'|'.join(POWERS)})\s*:\s*", re.IGNORECASE)
FENCE = re.compile(
    r"\s*(?:```+|~~~+)\s*(?:\w+(?:\s+\w+=.*)?)?\s*$|(?P<text>(?:(?!```|~~~).)*?\w(?:(?!```|~~~).)*)(?:```+|~~~+)\s*$"
)
"""A fence, alone on its line or behind a text."""
STRUCK = re.compile(r"~~|</?(?:s|del|strike)>", re.IGNORECASE)
SEPARATOR = re.compile(r"[,;|]|\band\b", re.IGNORECASE)


@dataclass(frozen=True)
class Reading:
    """Parsed completion.

    Attributes:
        chosen: a complete legal answer, an option for every line of the choices.
        orders_expected: number of lines of a complete answer.
        orders_extracted: number of these found in the text; the others are filled in.
        problems: rejected lines of the text, with reasons.
        illegal: number of orders in the text, as orders are written, that the position does not allow.

    """

    chosen: tuple[Option, ...]
    orders_expected: int
    orders_extracted: int
    problems: tuple[Line, ...]
    illegal: int = 0

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
    for province in choices.provinces:
        order = int(orders[province])
        if order and (problem := reader.put(province, order)):
            raise ValueError(f"order {order}: {problem}")
    return reader.answer()[0]


def parse(text: str, choices: Choices) -> Reading:
    """Parse any completion; never raises, and takes no longer for 10 MB than for a page."""
    reader = _CompletionReader(choices)
    problems = []
    body = _body(without_reasoning(text, _holds_orders)[0])
    answer = headed_answer(body, _holds_orders)
    lines = last_block(order_lines(answer or body))
    for line in lines if answer else _refused(lines, "is under a heading of reasoning"):
        wrong = [line.problem, *(reader.take(order) for order in line.orders)]
        problems += [Line(line.text, problem) for problem in wrong if problem]
    chosen, extracted = reader.answer()
    return Reading(chosen, choices.lines, extracted, tuple(problems), reader.illegal)


def _holds_orders(text: str) -> bool:
    """Return whether a text contains readable orders."""
    return any(line.orders for line in order_lines(_body(text)))


def _body(text: str) -> str:
    """Return the text between the tags, which may be missing; of a long one its begin and its end."""
    begin = text.rfind(OPENING.strip())
    body = text[begin + len(OPENING.strip()) :] if begin >= 0 else text
    body = body.partition(CLOSING)[0]
    half = LONGEST_TEXT // 2
    return body if len(body) <= LONGEST_TEXT else f"{body[:half]}\n{LEFT_OUT}\n{body[-half:]}"


class _CompletionReader:
    """Parser of lines in sequence; keeps the first line of each slot."""

    def __init__(self, choices: Choices) -> None:
        self.choices, self.waived, self.illegal = choices, 0, 0
        self.taken: dict[int, Option] = {}
        self.slots = {province: slot for slot, province in enumerate(choices.provinces)}

    def take(self, order: Order | None) -> str:
        """Add an order, None for a waive; return the error, empty on success."""
        return self._waive() if order is None else self.put(order.province, order.order)

    def put(self, province: int, order: int) -> str:
        """Add the option for a packed order in a province; return the error, empty on success."""
        name, slot = location_name(province), self.slots.get(province)
        if slot is None:
            self.illegal += 1
            return f"{POWERS[self.choices.power]} has nothing to order in {name}"
        options = self.choices.options[slot]
        listed = [option.value for option in options]
        if any(value & codes.KIND_MASK == codes.RETREAT for value in listed):
            order = as_retreat(order)
        number = listed.index(order) if order in listed else find(order, np.array(listed))
        if number < 0:
            self.illegal += 1
            return f"is not legal in {name} now"
        return self._accept(options[number])

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
            return f"{location_name(self.choices.provinces[option.slot])} already has an order; the first one counts"
        if self._full():
            return f"{POWERS[self.choices.power]} has no further order to give"
        self.taken[option.slot] = option
        return ""

    def _waive(self) -> str:
        if self.choices.winter <= 0:
            self.illegal += 1
            return "only builds can be waived"
        if self._full():
            return f"{POWERS[self.choices.power]} has no further build to waive"
        self.waived += 1
        return ""

    def _full(self) -> bool:
        return len(self.taken) + self.waived >= self.choices.lines


@dataclass(frozen=True)
class OrderLine:
    """One line of a text.

    Attributes:
        text: the line as written.
        orders: the orders read in it, None for a waive.
        problem: why it is not read; empty if it is.
        remarked: whether it has a remark beside its order.
        apart: whether a line without orders, possibly blank, comes before it.

    """

    text: str
    orders: tuple[Order | None, ...]
    problem: str
    remarked: bool = False
    apart: bool = False


def order_lines(text: str) -> list[OrderLine]:
    """Return the lines of `text` with a letter or digit in them; never raises.

    Of more than `MOST_LINES`, the first and the last are returned, with a line between them that says so.
    """
    lines: list[tuple[str, bool]] = []
    apart = False
    for line in _lines(text):
        if re.search(r"\w", line):
            lines.append((line, apart))
        apart = not re.search(r"\w", line)
    half = MOST_LINES // 2
    if len(lines) > MOST_LINES:
        lines = [*lines[:half], (LEFT_OUT, True), *lines[1 - half :]]
    read: list[OrderLine] = []
    for line, apart in lines:
        read.append(replace(_read(line), apart=apart or bool(read and read[-1].problem)))
    return read


def last_block(lines: Sequence[OrderLine]) -> list[OrderLine]:
    """Return the lines, those of drafts without their orders and with a problem.

    From the last block backwards, blocks belong to the answer until one orders a unit otherwise than those after it.
    """
    answer: dict[int, int] = {}
    result, begin = list(lines), len(lines)
    while begin:
        end = begin
        begin = next((at for at in range(end - 1, 0, -1) if lines[at].apart), 0)
        block = _block(result, range(begin, end))
        if any(answer.get(province, order) != order for province, order in block.items()):
            return [*_refused(result[:end], DRAFT), *result[end:]]
        answer |= block
    return result


def _refused(lines: Sequence[OrderLine], problem: str) -> list[OrderLine]:
    """Return the lines with this problem instead of their orders."""
    return [replace(line, orders=(), problem=problem) if line.orders else line for line in lines]


def _block(lines: list[OrderLine], numbers: range) -> dict[int, int]:
    """Return the orders of a block by province; one with a remark gives way to a later one without."""
    orders: dict[int, int] = {}
    at_line: dict[int, int] = {}
    for at in numbers:
        for order in lines[at].orders:
            if order is None:
                continue
            before = at_line.get(order.province)
            if before is None or (lines[before].remarked and not lines[at].remarked and before != at):
                if before is not None and orders[order.province] != order.order:
                    lines[before] = replace(lines[before], orders=(), problem=DRAFT)
                orders[order.province], at_line[order.province] = order.order, at
    return orders


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
        elif len(line) > LONGEST_LINE:
            yield line
        elif fence := FENCE.match(line):
            yield from (*_around_marks(fence["text"] or "", text[:at]), "")
        else:
            yield from _around_marks(line, text[:at])
        at = max(stop, at) + (text[stop : stop + 1] in ("\n", "\r"))


def _around_marks(line: str, before: str) -> Iterator[str]:
    """Yield a line in parts, with each mark that ends what an earlier line began as a part of its own."""
    begin = 0
    for mark in END_MARK.finditer(line):
        name = re.escape(mark["name"] or mark["token"] or "")
        begins = re.compile(rf"(?:_|[^\w\s/\\]) ?(?:begin[ _])?{name}(?![^\W_])", re.IGNORECASE)
        same_line = name and begins.search(line, begin, mark.start())
        if not same_line and (re.search(r"[/\\<]", mark[0]) or (name and begins.search(before))):
            yield from (line[begin : mark.start()], mark[0])
            begin = mark.end()
    yield line[begin:]


def _members(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key.lower() == "orders" or key.upper() in POWERS:
                yield from _members(inner)
            else:
                yield f"{key}: {json.dumps(inner)[:LONGEST_LINE]}"
    elif isinstance(value, list):
        yield from (member if isinstance(member, str) else json.dumps(member)[:LONGEST_LINE] for member in value)
    else:
        yield str(value)


def _read(line: str) -> OrderLine:
    if len(line.strip()) > LONGEST_LINE:
        return OrderLine(line, (), f"is {len(line.strip())} characters long; a line has at most {LONGEST_LINE}")
    if STRUCK.search(line):
        return OrderLine(line, (), "is struck out; write an order alone, or leave it out")
    bare = re.sub(r"[*`\"“”„«»]|__", "", line).strip(" \t'‘’|")
    bare = LABEL.sub("", BULLET.sub("", BULLET.sub("", bare)).strip(" \t'‘’"))
    orders, problem = _orders(bare)
    if not problem:
        return OrderLine(line.strip(), orders, "")
    without, full, remarks = split_remarks(bare)
    if not without or (not remarks and without == bare):
        return OrderLine(line.strip(), (), problem)
    if remarks and DOUBT.search(bare):
        return OrderLine(line, (), "names an order with a doubt; write the order alone, or leave it out")
    orders, problem = with_remarks(without, full, remarks, _orders)
    return OrderLine(line.strip(), orders, problem, remarked=bool(remarks))


def _orders(text: str) -> tuple[tuple[Order | None, ...], str]:
    """Return the orders in a text, or the problem of the first part that is not an order."""
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
