"""Measures and success criteria of sweep files, read by a small parser; nothing in them is evaluated as code.

    measure    mean(kl/mean)                        a reduction of a metric's values over a run
    criterion  every run: max(kl/max) < 1           who must hold it, a measure, a comparison, a number

`*` stands for one part of a metric's name: `eval/*/win_rate` is the mean over all bots, row by row. A criterion is
about `every run` or `some run` (one of the letters, mean over its seeds). It may also be about the largest difference
`between runs`, or the `std over seeds` of every run. `D minus A` and `some of B C minus A` compare means of named runs.
A condition for a whole run is a `max` or `min`, never `last`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from sparring.configs.core.errors import ConfigError, suggestion

LAST_ROWS = 10
"""Rows that `final` averages."""
EVERY, SOME, BETWEEN, STD = "every run", "some run", "between runs", "std over seeds"
QUANTIFIERS = (EVERY, SOME, BETWEEN, STD)
MINUS = re.compile(r"(?:some of (?P<some>\w+(?: \w+)*)|(?P<one>\w+)) minus (?P<base>\w+)")
"""A difference of named runs."""
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq,
}  # fmt: skip
REDUCTIONS: dict[str, Callable[[np.ndarray], float]] = {
    "mean": lambda values: float(values.mean()),
    "max": lambda values: float(values.max()),
    "min": lambda values: float(values.min()),
    "std": lambda values: float(values.std(ddof=1)) if len(values) > 1 else float("nan"),
    "first": lambda values: float(values[0]),
    "last": lambda values: float(values[-1]),
    "final": lambda values: float(values[-LAST_ROWS:].mean()),
    "change": lambda values: float(values[-1] - values[0]),
    "count": lambda values: float(len(values)),
}
METRIC = re.compile(r"[A-Za-z][\w./*-]*")
WORD = re.compile(r"[a-z_]+")
SIGN = re.compile(r"[<>=!]+")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Measure:
    """A reduction of a metric over the rows of a run, such as `mean(kl/mean)`."""

    reduction: str
    metric: str

    def __str__(self) -> str:
        return f"{self.reduction}({self.metric})"

    def of(self, values: np.ndarray) -> float:
        """Reduce the finite values float64 [N] of the metric; NaN where there is none, but a count of 0."""
        if not len(values):
            return 0.0 if self.reduction == "count" else float("nan")
        return REDUCTIONS[self.reduction](values)


@dataclass(frozen=True)
class Criterion:
    """A comparison that every run, some run, a difference between runs, or a deviation over seeds must hold."""

    quantifier: str
    measure: Measure
    comparison: str
    bound: float

    def __str__(self) -> str:
        return f"{self.quantifier}: {self.measure} {self.comparison} {self.bound:g}"

    @property
    def minus(self) -> tuple[tuple[str, ...], str] | None:
        """The runs (one must hold the comparison) and the run that is subtracted; None without names."""
        names = MINUS.fullmatch(self.quantifier)
        return (tuple((names["some"] or names["one"]).split()), names["base"]) if names else None

    def holds(self, value: float) -> bool:
        """Return whether a value, which is not NaN, holds the comparison."""
        return COMPARISONS[self.comparison](value, self.bound)


def read_measure(text: str) -> Measure:
    """Read `reduction(metric)`; raises `ConfigError` with the column of the first fault."""
    reader = _Reader(text)
    measure = reader.measure()
    reader.end()
    return measure


def read_criterion(text: str) -> Criterion:
    """Read `every run: reduction(metric) < number`; raises `ConfigError` with the column of the first fault."""
    reader = _Reader(text)
    quantifier = reader.quantifier()
    measure = reader.measure()
    comparison = reader.take(SIGN, f"a comparison: one of {', '.join(COMPARISONS)}", COMPARISONS)
    bound = float(reader.take(NUMBER, "a number, such as 0.5"))
    reader.end()
    return Criterion(quantifier, measure, comparison, bound)


class _Reader:
    """A place in a text; every method reads one part of it and moves on, or raises `ConfigError`."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0

    def quantifier(self) -> str:
        head, colon, _ = self.text.partition(":")
        if not colon or not (head.strip() in QUANTIFIERS or MINUS.fullmatch(head.strip())):
            near = suggestion(head.strip(), QUANTIFIERS)
            forms = ", ".join(f"{name!r}" for name in (*QUANTIFIERS, "B minus A", "some of B C minus A"))
            raise self._error(f"must begin with one of {forms} and a colon{near}")
        self.place = len(head) + 1
        return head.strip()

    def measure(self) -> Measure:
        reduction = self.take(WORD, f"a reduction: one of {', '.join(REDUCTIONS)}", REDUCTIONS)
        self.take(re.compile(r"\("), f"an opening bracket, as in {reduction}(kl/mean)")
        metric = self.take(METRIC, "a metric, such as kl/mean")
        self.take(re.compile(r"\)"), "a closing bracket after the metric")
        return Measure(reduction, metric)

    def take(self, pattern: re.Pattern[str], expected: str, names: Collection[str] | None = None) -> str:
        """Read one token of `pattern`, one of `names` if given."""
        self._skip()
        token = pattern.match(self.text, self.place)
        if not token or (names is not None and token.group() not in names):
            near = suggestion(token.group(), names) if token and names and pattern is WORD else ""
            raise self._error(f"expected {expected}{near}")
        self.place = token.end()
        return token.group()

    def end(self) -> None:
        self._skip()
        if self.place < len(self.text):
            raise self._error("nothing may follow here")

    def _skip(self) -> None:
        while self.text[self.place : self.place + 1].isspace():
            self.place += 1

    def _error(self, problem: str) -> ConfigError:
        return ConfigError(f"{self.text!r}: column {self.place + 1}: {problem}")
