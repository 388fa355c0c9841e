"""Search expressions: `status = completed and config.ppo.gamma >= 0.99 and not tags ~ debug`.

    expression = term {"or" term};  term = factor {"and" factor};  factor = "not" factor | "(" expression ")" | test
    test = name [operator value];  operator = "=" "==" "!=" "<" "<=" ">" ">=" "~" (contains)

A name is id, status, source, tags, created, updated, `config.KEY`, `summary.METRIC`, or a bare key, which is looked up
in the configuration and then in the summary. A key may be the end of a dotted one if no other ends so. A test without
an operator is true if the name has a value. Nothing is evaluated as Python; errors give the column.
"""

from __future__ import annotations

import json
import operator as op
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from sparring.configs.core.errors import InputError, suggestion
from sparring.eval.analysis.record import RunRecord, flatten

Test = Callable[[RunRecord], bool]
FIELDS = ("id", "status", "source", "path", "tags", "created", "updated")
TOKEN = re.compile(r"""\s*(?:(?P<op>==|!=|<=|>=|[=<>~()])|(?P<text>"[^"]*"|'[^']*')|(?P<word>[^\s=!<>~()"']+))""")
ORDER = {"=": op.eq, "==": op.eq, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}
OPERATORS = (*ORDER, "!=", "~")
DEEPEST = 50
"""Nested parentheses and nots at most."""


class SearchError(InputError):
    """A search expression that cannot be parsed; the message has the column, from 1."""


class Token(NamedTuple):
    """One symbol, word or quoted text of an expression, and its column from 1."""

    kind: str
    text: str
    column: int


def parse(text: str) -> Test:
    """Return the test that an expression describes. Raises `SearchError`."""
    parser = SearchParser(text, list(_tokens(text)))
    test = parser.expression(0)
    if parser.at < len(parser.tokens):
        parser.fail("expected and, or, or the end")
    return test


def config_test(text: str) -> Test:
    """Return the test of `--config KEY=VALUE`. Raises `InputError` for another form."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f'--config {text!r}: write "KEY=VALUE", as in "ppo.gamma=0.99"')
    return partial(_compare, name=f"config.{key.strip()}", operator="=", value=value.strip())


@dataclass
class SearchParser:
    """Recursive descent over the tokens of `text`."""

    text: str
    tokens: list[Token]
    at: int = 0

    def expression(self, depth: int) -> Test:
        """Parse terms joined by `or`."""
        return self._joined("or", any, lambda: self._joined("and", all, lambda: self._factor(depth)))

    def _joined(self, word: str, holds: Callable[[Iterable[bool]], bool], part: Callable[[], Test]) -> Test:
        parts = [part()]
        while self._accept("word", word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else lambda run: holds(test(run) for test in parts)

    def _factor(self, depth: int) -> Test:
        if depth > DEEPEST:
            self.fail(f"nested more than {DEEPEST} deep")
        if self._accept("word", "not"):
            inner = self._factor(depth + 1)
            return lambda run: not inner(run)
        if self._accept("op", "("):
            inner = self.expression(depth + 1)
            if not self._accept("op", ")"):
                self.fail("expected )")
            return inner
        return self._test()

    def _test(self) -> Test:
        token = self._next()
        if token is None or token.kind == "op" or token.text in ("and", "or", "not"):
            self.at -= token is not None
            self.fail("expected a name, such as status or config.seed")
        operator = self._next()
        if operator is None or operator.text not in OPERATORS or operator.kind != "op":
            self.at -= operator is not None
            return lambda run: bool(_values(run, token.text))
        value = self._next()
        if value is None or value.kind == "op":
            self.at -= value is not None
            self.fail(f"expected a value after {operator.text}")
        return partial(_compare, name=token.text, operator=operator.text, value=value.text)

    def _next(self) -> Token | None:
        if self.at == len(self.tokens):
            return None
        self.at += 1
        return self.tokens[self.at - 1]

    def _accept(self, kind: str, text: str) -> bool:
        accepted = self.at < len(self.tokens) and self.tokens[self.at][:2] == (kind, text)
        self.at += accepted
        return accepted

    def fail(self, problem: str) -> NoReturn:
        """Raise `SearchError` at the next token."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        column = token.column if token else len(self.text) + 1
        actual = f", not {token.text!r}" if token else ""
        raise SearchError(f"search, column {column}: {problem}{actual}: {self.text!r}")


def _tokens(text: str) -> Iterator[Token]:
    at, end = 0, len(text.rstrip())
    while at < end:
        match = TOKEN.match(text, at)
        if match is None:
            column = at + 1 + len(text[at:]) - len(text[at:].lstrip())
            character = text[column - 1]
            hint = "the quote is not closed" if character in "\"'" else f"{character!r} is not part of an expression"
            raise SearchError(f"search, column {column}: {hint}: {text!r}")
        kind = str(match.lastgroup)
        word = match[kind]
        yield Token(kind, word[1:-1] if kind == "text" else word, match.start(kind) + 1)
        at = match.end()


def _values(run: RunRecord, name: str) -> list[Any]:
    """Return the values of a name in a run, empty if the run lacks it."""
    if name in FIELDS:
        value = getattr(run, name)
        return list(value) if isinstance(value, tuple) else [value]
    section, dot, key = name.partition(".")
    if dot and section in ("config", "summary"):
        return _look_up(flatten(getattr(run, section)), key)
    return _look_up(flatten(run.config), name) or _look_up(flatten(run.summary), name)


def _look_up(options: Mapping[str, Any], key: str) -> list[Any]:
    if key in options:
        return [options[key]]
    ends = [value for name, value in options.items() if name.endswith(f".{key}")]
    return ends if len(ends) == 1 else []


def _compare(run: RunRecord, name: str, operator: str, value: str) -> bool:
    values = _values(run, name)
    if operator == "!=":
        return not any(_holds(recorded, "=", value) for recorded in values)
    return any(_holds(recorded, operator, value) for recorded in values)


def _holds(recorded: Any, operator: str, value: str) -> bool:
    if operator == "~":
        return value.lower() in str(recorded).lower()
    number, bound = _number(recorded), _number(value)
    if number is not None and bound is not None:
        return bool(ORDER[operator](number, bound))
    text = json.dumps(recorded) if recorded is None or type(recorded) is bool else str(recorded)
    return operator in ("=", "==") and text.lower() == value.lower()


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def unknown_conditions(config: Sequence[str], tags: Sequence[str], runs: Sequence[RunRecord]) -> list[str]:
    """Return a hint for each option of `--config` and each tag of `--tag` that no run has."""
    names = {name for run in runs for name in flatten(run.config)}
    options = sorted({*names, *(name.rpartition(".")[2] for name in names)})
    keys = [text.partition("=")[0].strip() for text in config]
    hints = [
        f"--config: no run has the option {key!r}{suggestion(key, options)}"
        for key in keys
        if not any(_values(run, f"config.{key}") for run in runs)
    ]
    recorded = sorted({tag for run in runs for tag in run.tags})
    return hints + [
        f"--tag: no run has the tag {tag!r}{suggestion(tag, recorded)}" for tag in tags if tag not in recorded
    ]


def unused_names(text: str, runs: list[RunRecord]) -> str:
    """Return a hint for the first name of an expression that no run has, empty if each is known."""
    tokens = list(_tokens(text))
    after = {token.column for before, token in pairwise(tokens) if before.text in OPERATORS}
    names = sorted({*FIELDS, *(key for run in runs for key in (*flatten(run.config), *flatten(run.summary)))})
    for token in tokens:
        if token.kind == "op" or token.column in after or token.text in ("and", "or", "not"):
            continue
        if not any(_values(run, token.text) for run in runs):
            key = re.sub(r"^(config|summary)\.", "", token.text)
            return f"search, column {token.column}: no run has {token.text!r}{suggestion(key, names)}"
    return ""
