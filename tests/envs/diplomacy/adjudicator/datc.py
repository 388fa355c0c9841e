"""Read `datc.txt`, the Diplomacy Adjudicator Test Cases as positions, orders and outcomes.

The file says at its head how it is written. Here it becomes cases of phases; units, orders and provinces stay text, as
written. A line that does not fit raises ValueError, which names it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FILE = Path(__file__).with_name("datc.txt")
POWERS = ("AUSTRIA", "ENGLAND", "FRANCE", "GERMANY", "ITALY", "RUSSIA", "TURKEY")
RESULTS = ("ok", "fails", "cut", "broken", "idle", "void")
BLOCKS = ("centres", "units", "after", "dislodged")
SECTION, CASE = re.compile(r"(6\.[A-J]) (\d+)  \S.*"), re.compile(r"(6\.[A-J]\.\d+[a-z]?)  (\S.*)")
PHASE = re.compile(r"[SF]\d{4}[MR]|W\d{4}A")

Holdings = dict[str, tuple[str, ...]]  # by power: units such as "F SPA/NC", or provinces


@dataclass(frozen=True)
class Order:
    """An order as written, its result if stated, and its line number."""

    power: str
    text: str
    result: str | None
    line: int


@dataclass
class Phase:
    """One adjudication: positions before, orders, and positions after."""

    name: str
    line: int
    centres: Holdings = field(default_factory=dict)
    units: Holdings = field(default_factory=dict)
    orders: list[Order] = field(default_factory=list)
    after: Holdings = field(default_factory=dict)
    dislodged: Holdings = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """M for moves, R for retreats, A for adjustments."""
        return self.name[-1]


@dataclass
class Case:
    """A case with its phases in order."""

    id: str
    title: str
    line: int
    phases: list[Phase] = field(default_factory=list)


@dataclass
class Datc:
    """The file's content: announced number of cases per section, and the cases."""

    sections: dict[str, int] = field(default_factory=dict)
    cases: list[Case] = field(default_factory=list)


def load(path: Path = FILE) -> Datc:
    """Return the cases of a file."""
    return parse(path.read_text(encoding="utf-8"), path.name)


def parse(text: str, name: str = "datc.txt") -> Datc:
    """Return the cases of a text; `name` is used in errors."""
    reader, number = _Reader(), 0
    try:
        for number, line in _lines(text):
            reader.read(line, number)
        reader.close()
    except ValueError as error:
        raise ValueError(f"{name}:{number}: {error}") from None
    return reader.datc


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Return the relevant lines with their numbers, without comments."""
    for number, line in enumerate(text.splitlines(), start=1):
        if content := line.split("#")[0].rstrip():
            yield number, content


class _Reader:
    """Parse line by line; `block` is the keyword or power that indented lines belong to."""

    def __init__(self):
        self.datc = Datc()
        self.case: Case | None = None
        self.phase: Phase | None = None
        self.block: str | None = None
        self.seen: set[str] = set()  # the blocks of this phase

    def read(self, line: str, number: int) -> None:
        if line[0] == " ":
            self._content(line.strip(), number)
            return
        word, _, rest = line.partition(" ")
        if word == "section":
            self._section(rest)
        elif word == "case":
            self._case(rest, number)
        elif word == "phase":
            self._phase(rest, number)
        elif line in BLOCKS or line in POWERS:
            self._block(line, number)
        else:
            raise ValueError(f"expected section, case, phase, a power or one of {', '.join(BLOCKS)}, got {line!r}")

    def close(self) -> None:
        """End a phase: its result must be stated, and determines the new positions."""
        if self.phase and "after" not in self.seen:
            raise ValueError(f"the phase that begins at line {self.phase.line} ends without its outcome, 'after'")
        if self.case and not self.case.phases:
            raise ValueError(f"case {self.case.id} has no phase")
        if self.phase and "units" not in self.seen:
            further = len(self.case.phases) > 1
            self.phase.units = self.case.phases[-2].after if further else _ordered_from(self.phase.orders)
        self.phase, self.block, self.seen = None, None, set()

    def _section(self, rest: str) -> None:
        self.close()
        if not (match := SECTION.fullmatch(rest)):
            raise ValueError(f"expected a section, its size and its title, as in '6.A 12  plain checks', got {rest!r}")
        self.case, self.datc.sections[match[1]] = None, int(match[2])

    def _case(self, rest: str, number: int) -> None:
        self.close()
        if not (match := CASE.fullmatch(rest)):
            raise ValueError(f"expected a number and a title, as in '6.A.1  a title', got {rest!r}")
        self.case = Case(match[1], match[2], number)
        self.datc.cases.append(self.case)

    def _phase(self, name: str, number: int) -> None:
        if not PHASE.fullmatch(name):
            raise ValueError(f"expected a phase such as S1901M, F1901R or W1901A, got {name!r}")
        if self.phase:
            self.close()
        self._begin(name, number)

    def _begin(self, name: str, number: int) -> None:
        if not self.case:
            raise ValueError("this belongs to no case")
        self.phase = Phase(name, number)
        self.case.phases.append(self.phase)

    def _block(self, word: str, number: int) -> None:
        if not self.phase:
            self._begin("S1901M", number)
        if word in self.seen:
            raise ValueError(f"{word} for the second time")
        self.block = word
        self.seen.add(word)

    def _content(self, text: str, number: int) -> None:
        if self.block in BLOCKS:
            self._holding(getattr(self.phase, self.block), text)
        elif self.block in POWERS:
            self.phase.orders.append(_order(self.block, text, number))
        else:
            raise ValueError(f"{text!r} belongs to nothing")

    def _holding(self, holdings: Holdings, text: str) -> None:
        if text == "-":
            return
        power, _, rest = text.partition(" ")
        if power not in POWERS or power in holdings or not rest:
            raise ValueError(f"expected a power, once, and what it holds, as in 'ITALY  A ROM, F NAP', got {text!r}")
        holdings[power] = tuple(item.strip() for item in rest.split(","))


def _order(power: str, text: str, number: int) -> Order:
    order, arrow, result = (part.strip() for part in text.partition("=>"))
    if arrow and result not in RESULTS:
        raise ValueError(f"expected a result among {', '.join(RESULTS)}, got {result!r}")
    if not re.fullmatch(r"[AF] [A-Z]{3}(/[ENS]C)? \S.*", order):
        raise ValueError(f"expected an order such as 'A PAR - BUR', got {order!r}")
    return Order(power, order, result or None, number)


def _ordered_from(orders: list[Order]) -> Holdings:
    """Return the units at the locations they are ordered from."""
    units: dict[str, list[str]] = {}
    for order in orders:
        units.setdefault(order.power, []).append(" ".join(order.text.split()[:2]))
    return {power: tuple(held) for power, held in units.items()}
