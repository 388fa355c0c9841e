"""Allowed values of an option, declared beside the option.

There are three kinds: an interval such as "(0, 1]" for numbers, a tuple of choices for names, a `Form` for any other
text. An interval never contains NaN. It contains infinity only if an end is infinite and included, which does not
occur. For a list, the rule applies to each item.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, is_dataclass
from functools import cache
from typing import Any

from sparring.configs.core.errors import choices, nearest


@dataclass(frozen=True)
class Form:
    """Text that fully matches a regular expression; `text` describes it in words.

    `near` contains pairs of a common spelling and the intended value, for suggestions. A wrong `private` value may be a
    secret and is never shown in a message.
    """

    pattern: str
    text: str
    near: tuple[tuple[str, str], ...] = ()
    private: bool = False

    def hint(self, value: object) -> str:
        """Return "; did you mean 'x'?" for the nearest of `near`, or nothing if none is similar."""
        meant = dict(self.near)
        near = nearest(str(value).lower(), meant)
        return f"; did you mean {meant[near]!r}?" if near else ""


Allowed = str | tuple[str, ...] | Form


def option(default: Any, allowed: Allowed | None = None, *, needs: Sequence[str] = ()) -> Any:
    """Declare a dataclass field with its default and allowed values.

    `needs` lists the conditions for the option to have an effect, such as "grpo.kl_beta above 0" or "a.b=true".
    """
    return field(default=default, metadata={"allowed": allowed, "needs": tuple(needs)})


@cache
def field_texts(owner: type) -> dict[str, str]:
    """Return the docstrings under the fields of a dataclass, each on one line."""
    if not is_dataclass(owner):
        return {}
    (tree,) = ast.parse(inspect.getsource(owner)).body
    assert isinstance(tree, ast.ClassDef)
    texts = {}
    for declared, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(declared, ast.AnnAssign)
            and isinstance(declared.target, ast.Name)
            and isinstance(after, ast.Expr)
        ):
            texts[declared.target.id] = " ".join(str(ast.literal_eval(after.value)).split())
    return texts


def describe(allowed: Allowed) -> str:
    """Return the interval, the choices or the form in a few words."""
    if isinstance(allowed, Form):
        return allowed.text
    return allowed if isinstance(allowed, str) else ", ".join(allowed)


def complaint(value: Any, allowed: Allowed) -> str | None:
    """Return why `value` is refused, None if it is allowed."""
    if isinstance(allowed, tuple):
        return None if value in allowed else choices(value, allowed)
    if isinstance(allowed, Form):
        fits = isinstance(value, str) and re.fullmatch(allowed.pattern, value)
        return None if fits else f"must be {allowed.text}{allowed.hint(value)}"
    return None if inside(value, allowed) else f"must be in {allowed}"


def inside(value: float, interval: str) -> bool:
    """Test if `value` is in an interval such as "[0, 1)"; a bracket includes its end, a parenthesis does not."""
    low, high = (float(end) for end in interval[1:-1].split(","))
    above = value >= low if interval[0] == "[" else value > low
    below = value <= high if interval[-1] == "]" else value < high
    return above and below
