"""Search expressions: `status = completed and config.ppo.gamma >= 0.99 and not tags ~ debug`.

`GRAMMAR` defines the syntax; "~" means contains. A name is id, status, source, tags, created, updated, `config.KEY`,
`summary.METRIC`, or a bare key, which is looked up in the configuration and then in the summary. A key may be an
unambiguous suffix of a dotted key. A test without an operator is true if the name has a value. Nothing is evaluated as
Python; errors report the column.
"""

from __future__ import annotations

import json
import operator as op
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from sparring.configs.core.errors import InputError, suggestion
from sparring.eval.analysis.record import RunRecord, flatten

if TYPE_CHECKING:
    from lark import Lark

Test = Callable[[RunRecord], bool]
FIELDS = ("id", "status", "source", "path", "tags", "created", "updated")
GRAMMAR = r"""
?start: term | term (_OR term)+ -> any
?term: factor | factor (_AND factor)+ -> all
?factor: _NOT factor -> negation | _OPEN start _CLOSE | (NAME | QUOTED) [OPERATOR (VALUE | QUOTED)] -> test
OPERATOR: "==" | "!=" | "<=" | ">=" | "=" | "<" | ">" | "~"
_OPEN: "("
_CLOSE: ")"
_NOT.1: /not(?![^\s=!<>~()"'])/
_AND.1: /and(?![^\s=!<>~()"'])/
_OR.1: /or(?![^\s=!<>~()"'])/
NAME: /(?!(and|or|not)(?![^\s=!<>~()"']))[^\s=!<>~()"']+/
VALUE: /[^\s=!<>~()"']+/
QUOTED: /"[^"]*"|'[^']*'/
%ignore /\s+/
"""
ORDER = {"=": op.eq, "==": op.eq, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}
DEEPEST = 50
"""Deepest nesting of parentheses and nots."""


class SearchError(InputError):
    """A search expression that cannot be parsed; the message contains the column, from 1."""


def parse(text: str) -> Test:
    """Return the test that an expression describes. Raises `SearchError`."""
    return _test(_tree(text))


@cache
def _parser() -> Lark:
    from lark import Lark

    return Lark(GRAMMAR, parser="lalr")


def _tree(text: str) -> Any:
    """Return the tree of an expression, of tokens with their positions. Raises `SearchError`."""
    from lark import UnexpectedCharacters, UnexpectedToken

    parsing = _parser().parse_interactive(text)
    stack = parsing.parser_state.value_stack
    try:
        for token in parsing.iter_parse():
            if sum(getattr(item, "type", "") in ("_OPEN", "_NOT") for item in stack) > DEEPEST:
                raise _error(text, int(token.start_pos or 0), f"nested more than {DEEPEST} deep", token)
        return parsing.feed_eof()
    except UnexpectedCharacters as error:
        position = int(error.pos_in_stream or 0)
        character = text[position]
        problem = "the quote is not closed" if character in "\"'" else f"{character!r} is not part of an expression"
        raise _error(text, position, problem) from error
    except UnexpectedToken as error:
        names = {"NAME": "a name, such as status or config.seed", "VALUE": f"a value after {stack and stack[-1]}"}
        names |= {"_CLOSE": ")", "_AND": "and, or, or the end"}
        allowed, token = parsing.accepts() or {"_AND"}, error.token  # after a closed expression nothing is accepted
        expected = next(names[name] for name in names if name in allowed)
        raise _error(text, int(token.start_pos or 0) if token else len(text), f"expected {expected}", token) from error


def _error(text: str, position: int, problem: str, token: str = "") -> SearchError:
    """Return the error at a position of `text`, with the `token` there, which is empty at the end."""
    actual = f", not {_text(token)!r}" if token else ""
    return SearchError(f"search, column {position + 1}: {problem}{actual}: {text!r}")


def _text(token: str) -> str:
    return token[1:-1] if token[0] in "\"'" else str(token)


def _test(tree: Any) -> Test:
    """Return the test that a tree describes."""
    if tree.data == "test":
        name, operator, value = (token and _text(token) for token in tree.children)
        if operator is None:
            return lambda run: bool(_values(run, name))
        return partial(_compare, name=name, operator=operator, value=value)
    tests = [_test(child) for child in tree.children]
    if tree.data == "negation":
        return lambda run: not tests[0](run)
    holds = any if tree.data == "any" else all
    return lambda run: holds(test(run) for test in tests)


def config_test(text: str) -> Test:
    """Return the test of `--config KEY=VALUE`. Raises `InputError` for other text."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f'--config {text!r}: write "KEY=VALUE", as in "ppo.gamma=0.99"')
    return partial(_compare, name=f"config.{key.strip()}", operator="=", value=value.strip())


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
    names = sorted({*FIELDS, *(key for run in runs for key in (*flatten(run.config), *flatten(run.summary)))})
    for token in sorted(
        (test.children[0] for test in _tree(text).find_data("test")), key=lambda token: token.start_pos
    ):
        name = _text(token)
        if not any(_values(run, name) for run in runs):
            key = re.sub(r"^(config|summary)\.", "", name)
            return f"search, column {token.start_pos + 1}: no run has {name!r}{suggestion(key, names)}"
    return ""
