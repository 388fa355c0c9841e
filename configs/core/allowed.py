"""What an option may hold, written where the option is declared.

Three ways to say it: an interval such as "(0, 1]" for numbers, a tuple of choices for names, a `Form` for any other
text. An interval with finite or infinite ends never contains NaN, and contains infinity only where it says so, which
none does. For a list, the rule is about each item.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sparring.configs.core.errors import nearest, suggestion


@dataclass(frozen=True)
class Form:
    """Text that matches a regular expression as a whole; `text` says the same to a person.

    `near` has pairs of what people write and what they mean by it, for the nearest match. What is `private` may hold a
    secret when it is wrong, and no message repeats it.
    """

    pattern: str
    text: str
    near: tuple[tuple[str, str], ...] = ()
    private: bool = False

    def hint(self, value: object) -> str:
        """Return "; did you mean 'x'?" for the nearest of `near`, or nothing where none is alike."""
        meant = dict(self.near)
        found = nearest(str(value).lower(), meant)
        return f"; did you mean {meant[found]!r}?" if found else ""


Allowed = str | tuple[str, ...] | Form


def option(default: Any, allowed: Allowed | None = None, *, needs: Sequence[str] = ()) -> Any:
    """Declare a dataclass field with its default and what it may hold.

    `needs` names what has to be given for the option to have an effect, such as "grpo.kl_beta above 0" or "a.b=true".
    """
    return field(default=default, metadata={"allowed": allowed, "needs": tuple(needs)})


def describe(allowed: Allowed) -> str:
    """Say in a few words what is allowed: the interval, the choices or the form."""
    if isinstance(allowed, Form):
        return allowed.text
    return allowed if isinstance(allowed, str) else ", ".join(allowed)


def complaint(value: Any, allowed: Allowed) -> str | None:
    """Say what is wrong with `value`, or None if it is allowed."""
    if isinstance(allowed, tuple):
        hint = suggestion(value, allowed)
        return None if value in allowed else f"choose from {describe(allowed)}{hint}"
    if isinstance(allowed, Form):
        fits = isinstance(value, str) and re.fullmatch(allowed.pattern, value)
        return None if fits else f"must be {allowed.text}{allowed.hint(value)}"
    return None if inside(value, allowed) else f"must be in {allowed}"


def inside(value: float, interval: str) -> bool:
    """Whether `value` lies in an interval such as "[0, 1)"; a bracket includes its end, a parenthesis does not."""
    low, high = (float(end) for end in interval[1:-1].split(","))
    above = value >= low if interval[0] == "[" else value > low
    below = value <= high if interval[-1] == "]" else value < high
    return above and below
