"""Orders in any text: what is read as an order, and the lines that are not.

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

from sparring.envs.diplomacy.board.board import POWERS
from sparring.envs.diplomacy.orders.notation import Order, OrderError, read_order

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
