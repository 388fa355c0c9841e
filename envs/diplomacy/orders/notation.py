"""Convert orders to and from text in the usual notation, without Warp.

    A PAR H   A PAR - BUR   A LON - NWY VIA   A PAR S A MAR   A PAR S A MAR - BUR   F NTH C A LON - NWY
    A PAR R BUR   A PAR D   A PAR B   F STP/NC B   WAIVE

Reading is tolerant: any case, whole words for the letters, full names of provinces, arrows, STP(NC), units without
their letter. Unreadable text raises `OrderError`, one line that names the order and the mistake. Legality is not
checked here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import NoReturn

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import ARMY, INLAND, SEA, find_location, location_name, standard_board

LETTERS = "AF"
LONGEST = 200
"""Maximum characters of an order; real orders have less than half."""
_REMEMBERED = 2**15
"""Cache size of parsed texts: games repeat the same few thousand orders and units."""
_WORDS = {
    "H": ("H", "HOLD", "HOLDS", "STAND", "STANDS"),
    "-": ("-", "M", "MOVE", "MOVES", "TO", "ATTACK", "ATTACKS"),
    "S": ("S", "SUPPORT", "SUPPORTS"),
    "C": ("C", "CONVOY", "CONVOYS"),
    "R": ("R", "RETREAT", "RETREATS"),
    "D": ("D", "DISBAND", "DISBANDS", "REMOVE", "REMOVES", "DESTROY", "DESTROYS"),
    "B": ("B", "BUILD", "BUILDS"),
    "VIA": ("VIA",),
    "A": ("A", "ARMY"),
    "F": ("F", "FLEET"),
}
_MEANING = {spelling: word for word, spellings in _WORDS.items() for spelling in spellings}
_WAIVES = ("WAIVE", "PASS")
_WORDINGS = (
    (r"\b(?:THE|AT)\b", " "),
    (r"\bTO HOLD\b", "HOLD"),
    (r"\b(SUPPORTS?) HOLD (?:TO|OF) (.+)$", r"\1 \2"),
    (r"\b(SUPPORTS?) MOVE TO (.+) FROM (.+)$", r"\1 \3 - \2"),
    (r"\b(CONVOYS?) (?:ARMY )?TO (.+) FROM (.+)$", r"\1 A \3 - \2"),
)
"""Wordings of webDiplomacy, as in "The army at Paris support move to Burgundy from Marseilles"."""
_USUAL = re.compile(r"[AF](?: (?!THE)(?:[A-Z]{3}(?:/[NESW]C)?|[A-Z-]))+")
"""Orders and units in this module's own spelling."""


class OrderError(InputError):
    """An order that cannot be read."""


@dataclass(frozen=True)
class Order:
    """One order as it was read: the location it is for, the unit's letter if one was given, and the packed order."""

    location: int
    letter: str
    order: int

    @cached_property
    def province(self) -> int:
        """Index of the order in a row of orders [75]."""
        return _land()[self.location]

    @cached_property
    def plain(self) -> bool:
        """Whether it names no coast, so `without_army_coasts` would not change it."""
        _, target, other, _ = codes.unpack(self.order)
        return max(target, other) < codes.NUM_PROVINCES


def read_order(text: str) -> Order | None:
    """Read one order; None for a waive. Raises `OrderError`."""
    if len(text) > LONGEST:
        raise OrderError(f"order {text[:40]!r}...: is {len(text)} characters long; an order has at most {LONGEST}")
    return _read_order(text)


@lru_cache(_REMEMBERED)
def _read_order(text: str) -> Order | None:
    words = _words(text)
    if not words:
        raise OrderError("an empty order: write one such as 'A PAR - BUR', or leave it out")
    if len(words) == 1 and words[0] in _WAIVES:
        return None
    reader = _OrderReader(text, words)
    try:
        return reader.read()
    except InputError as error:
        if isinstance(error, OrderError):
            raise
        raise OrderError(f"order {text!r}: {error}") from error


def as_retreat(order: int) -> int:
    """Return an order of a retreat phase; a move is a retreat there, as DATC 6.H writes them."""
    kind, target, _, _ = codes.unpack(order)
    return codes.pack(codes.RETREAT, target) if kind == codes.MOVE else order


def write_order(order: int, province: int, unit: int) -> str:
    """Write an order of the unit with code `unit` (codes.py) in a province; a build makes its own unit.

    Raises `InputError` for an order that cannot be written.
    """
    kind, target, other, via = codes.unpack(order)
    if kind >= codes.KINDS or (kind == codes.BUILD and other >= len(LETTERS)):
        raise InputError(f"order {order} in {location_name(province)}: this order cannot be written")
    if kind == codes.BUILD:
        return f"{unit_name(other, target)} B"
    who = write_unit(unit, province)
    if kind in (codes.NO_ORDER, codes.HOLD):
        return f"{who} H"
    if kind == codes.MOVE:
        return f"{who} - {location_name(target)}{' VIA' if via else ''}"
    if kind == codes.SUPPORT:
        return f"{who} S {location_name(target)}"
    if kind == codes.SUPPORT_MOVE:
        return f"{who} S {location_name(other)} - {location_name(target)}"
    if kind == codes.CONVOY:
        return f"{who} C A {location_name(other)} - {location_name(target)}"
    return f"{who} D" if kind == codes.DISBAND else f"{who} R {location_name(target)}"


def has_words(order: int) -> bool:
    """Return whether an order can be written: there is such a kind, and its places are on the board."""
    kind, target, other, _ = codes.unpack(order)
    builds = kind == codes.BUILD and other >= len(LETTERS)
    return kind < codes.KINDS and not builds and max(target, other) < codes.NUM_LOCATIONS


def write_unit(unit: int, province: int) -> str:
    """Write the unit with code `unit` (codes.py) in a province, such as "F STP/SC"."""
    return unit_name(min((unit - 1) // codes.NUM_POWERS, 1), unit_location(unit, province))


def unit_name(kind: int, location: int) -> str:
    """Return the name of an ARMY or a FLEET at a location, such as "F STP/SC"."""
    return f"{LETTERS[kind]} {location_name(location)}"


def unit_location(unit: int, province: int) -> int:
    """Return the location of a unit in a province, including the coast of a fleet."""
    form = (unit - 1) // codes.NUM_POWERS
    return province if form < 2 else standard_board().coasts_of[province][form - 2]


def reached_from(unit: int, province: int) -> np.ndarray:
    """Return the locations next to the unit with code `unit` in a province, int64 [n]; each coast for itself."""
    board, army = standard_board(), (unit - 1) // codes.NUM_POWERS == codes.ARMY_FORM
    return np.flatnonzero(board.army_next[province] if army else board.fleet_next[unit_location(unit, province)])


def without_army_coasts(order: int, province: int, units: Sequence[int] | np.ndarray) -> int:
    """Return the order of the unit in a province without coasts of armies, which mean nothing (DATC 4.B.6).

    `units` uint8 [75] are those that are ordered: dislodged ones in retreats.
    """
    kind, target, other, via = codes.unpack(order)
    if kind >= codes.KINDS or max(target, other) >= codes.NUM_LOCATIONS:
        return order
    land = _land()
    helped = {codes.SUPPORT: land[target], codes.SUPPORT_MOVE: land[other], codes.CONVOY: land[other]}
    mover = helped.get(kind, province)
    army = other == ARMY if kind == codes.BUILD else units[mover] and (units[mover] - 1) // codes.NUM_POWERS == ARMY
    if not army:
        return order
    return codes.pack(kind, land[target], ARMY if kind == codes.BUILD else land[other], via=via)


@cache
def _land() -> list[int]:
    """Return the province of every location."""
    return standard_board().province_of.tolist()


def read_unit(text: str, power: int) -> tuple[int, int]:
    """Read a unit such as "F STP/SC"; returns (province, unit code). Raises `InputError`."""
    return _read_unit(text[:LONGEST], power)


@lru_cache(_REMEMBERED)
def _read_unit(text: str, power: int) -> tuple[int, int]:
    words = _words(text)
    letter = _MEANING.get(words[0], "") if len(words) > 1 else ""
    if letter not in ("A", "F"):
        raise OrderError(f"unit {text!r}: write A or F and a place, as in A PAR or F STP/SC")
    return place_unit(text, power, letter, find_location(" ".join(words[1:])))


def place_unit(text: str, power: int, letter: str, location: int) -> tuple[int, int]:
    """Return (province, code) of a unit; raises `OrderError`, quoting `text`, where it cannot stand."""
    board = standard_board()
    province = int(board.province_of[location])
    terrain, coasts = int(board.terrain[province]), board.coasts_of[province]
    if letter == "A":
        if terrain == SEA:
            raise OrderError(f"unit {text!r}: an army stands on land, as in A PAR or A STP")
        return province, codes.unit_code(power, codes.ARMY_FORM)
    if terrain == INLAND:
        raise OrderError(f"unit {text!r}: a fleet stands at sea or on a coast; {location_name(province)} is inland")
    if coasts and location == province:
        choices = " or ".join(f"F {location_name(coast)}" for coast in coasts)
        raise OrderError(f"unit {text!r}: say which coast, {choices}")
    return province, codes.unit_code(power, codes.FLEET_FORM + (coasts.index(location) + 1 if coasts else 0))


def _words(text: str) -> list[str]:
    """Split into upper-case words; arrows and single hyphens are words, hyphens inside names are kept."""
    if _USUAL.fullmatch(text):
        return text.split()
    spaced = re.sub(r"->|=>|[→‐‑–—−]", " - ", text.upper())
    spaced = re.sub(r"\b([A-Z]{3}(?:/[NESW]C|\([NESW]C\))?)-(?=[A-Z]{3}\b)", r"\1 - ", spaced)
    words = " ".join(re.sub(r"[,.;]", " ", spaced).split())
    for wording, plain in _WORDINGS if len(words) <= LONGEST else ():
        words = re.sub(wording, plain, words)
    return words.split()


class _OrderReader:
    """Parser of one order, from left to right."""

    def __init__(self, text: str, words: list[str]) -> None:
        self.text, self.words, self.at = text, words, 0

    def read(self) -> Order:
        """Read the whole order."""
        early = self.take("B", "D")
        letter, location = self.unit()
        verb = early or self.take("H", "-", "S", "C", "R", "D", "B")
        if verb is None:
            self.fail("lacks an action; add H, - and a place, S, C, R, D or B")
        order = getattr(self, f"_{_VERBS[verb]}")(letter, location)
        if self.at < len(self.words):
            self.fail(f"cannot be read from {' '.join(self.words[self.at :])!r} on")
        return Order(location, letter, order)

    def take(self, *meanings: str) -> str | None:
        """Consume the next word if it means one of `meanings`; return its meaning, else None."""
        word = _MEANING.get(self.words[self.at]) if self.at < len(self.words) else None
        if word not in meanings:
            return None
        self.at += 1
        if word == "-" and self.words[self.at : self.at + 1] == ["TO"]:  # "moves to" is one arrow.
            self.at += 1
        return word

    def unit(self) -> tuple[str, int]:
        """Read a unit: its letter, empty if missing, and its location."""
        letter = self.take("A", "F") or ""
        return letter, self.place()

    def place(self) -> int:
        """Read a location: at least one word, up to the next keyword."""
        start = self.at
        while self.at < len(self.words) and (self.at == start or self.words[self.at] not in _MEANING):
            self.at += 1
        if start == len(self.words):
            self.fail("ends where a place should follow")
        return find_location(" ".join(self.words[start : self.at]))

    def fail(self, what: str) -> NoReturn:
        """Raise the error for the order."""
        raise OrderError(f"order {self.text!r}: {what}")

    def _hold(self, letter: str, location: int) -> int:
        return codes.pack(codes.HOLD)

    def _move(self, letter: str, location: int) -> int:
        target = self.place()
        via = self.take("VIA") is not None
        if via:
            self.take("C")
        return codes.pack(codes.MOVE, target, via=via)

    def _support(self, letter: str, location: int) -> int:
        letter, helped = self.unit()
        if self.take("-"):
            target = self.place()
            if letter == "A":
                target = _province(target)
            if self.take("VIA"):
                self.take("C")
            return codes.pack(codes.SUPPORT_MOVE, target, helped)
        self.take("H")
        return codes.pack(codes.SUPPORT, helped)

    def _convoy(self, letter: str, location: int) -> int:
        _, army = self.unit()
        if not self.take("-"):
            self.fail("lacks a destination; write F NTH C A LON - NWY")
        target = self.place()
        if self.take("VIA"):
            self.take("C")
        return codes.pack(codes.CONVOY, _province(target), _province(army))

    def _retreat(self, letter: str, location: int) -> int:
        self.take("-")
        return codes.pack(codes.RETREAT, self.place())

    def _disband(self, letter: str, location: int) -> int:
        return codes.pack(codes.DISBAND)

    def _build(self, letter: str, location: int) -> int:
        if not letter:
            self.fail("lacks the unit to build; write A or F, as in A PAR B")
        return codes.pack(codes.BUILD, _province(location) if letter == "A" else location, LETTERS.index(letter))


def _province(location: int) -> int:
    return _land()[location]


_VERBS = {"H": "hold", "-": "move", "S": "support", "C": "convoy", "R": "retreat", "D": "disband", "B": "build"}
