"""API key of an endpoint, and the one filter through which all text of a server passes before it goes anywhere.

The key is never in a configuration, message, log or file. A server may repeat it, however: in a status line, as a name
in its JSON, as a model, as text. `Client` therefore passes every error through `Key.hide`, and `answer` every text of a
response. No message, log, table or exception can receive the key.

The filter decodes escapes and then compares letters and digits only, ignoring case. So it also finds a key that is
split over words, cut off, or contains line ends, invisible characters, other punctuation or escapes.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from typing import NoReturn

from sparring.configs.core.errors import InputError

HIDDEN = "[key]"
SHORTEST = 4
"""Characters of a key; hiding fewer would hide half of every text."""
PART = 8
"""Letters and digits in a row that are hidden wherever they occur; a key with fewer is hidden as a whole word."""
LONGEST = 1 << 16
"""Characters of a text in which the places of the key are found; a longer one that has it is hidden as a whole."""

ESCAPE = re.compile(
    r"%(?:25)*(?P<percent>[0-9a-f]{2})|\\+u(?P<json>[0-9a-f]{4})|\\+x(?P<python>[0-9a-f]{2})"
    r"|&#x0*(?P<html>[0-9a-f]{1,5});|&#0*(?P<decimal>[0-9]{1,6});|\\+[bfnrtv]|&[a-z]{2,8};|\x1b\[[0-9;?]*[@-~]",
    re.IGNORECASE,
)
"""One character as a percent code, also encoded repeatedly, a JSON or Python escape, an HTML reference, or a colour."""
SILENT = re.compile(r"[\W_\u115f\u1160]+")
"""All but letters and digits; the two fillers of Hangul are letters without a shape."""
BASES = {"percent": 16, "json": 16, "python": 16, "html": 16, "decimal": 10}
"""Of the numbers in `ESCAPE`, by group."""


class Key:
    """Key of requests, from the environment variable `variable`; no key if that is empty.

    Raises `InputError`, without the value, if the variable is not set or its value is not valid in a header.
    """

    def __init__(self, variable: str) -> None:
        self._variable = variable
        self._value = os.environ.get(variable, "").strip() if variable else ""
        if variable and not self._value:
            raise InputError(f"endpoint.key_env={variable}: this environment variable is unset or empty")
        if not re.fullmatch(r"[!-~]*", self._value):
            raise InputError(f"endpoint.key_env={variable}: has characters outside printable ASCII, so it is not a key")
        if self._value and len(self._value) < SHORTEST:
            raise InputError(
                f"endpoint.key_env={variable}: holds fewer than {SHORTEST} characters, too few to be kept out of"
                " messages; leave it empty if the server wants no key"
            )
        spelled = {_letters(self._value), _letters(ESCAPE.sub(_unescaped, self._value))}
        self._parts = {text[first : first + PART] for text in spelled for first in range(len(text) - PART + 1)}

    def headers(self) -> dict[str, str]:
        """Return the header with the key."""
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def hide(self, text: str) -> str:
        """Return the text with `HIDDEN` in place of the key and of every part of it."""
        if not self._parts:
            pattern = rf"(?<!\w){re.escape(self._value)}(?!\w)"
            return re.sub(pattern, HIDDEN, text, flags=re.IGNORECASE) if self._value else text
        for unescape in (False, True):
            letters = _letters(ESCAPE.sub(_unescaped, text) if unescape else text)
            if any(part in letters for part in self._parts):
                text = self._without_parts(text, unescape) if len(text) <= LONGEST else HIDDEN
        return text

    def _without_parts(self, text: str, unescape: bool) -> str:
        letters, places = _located(text, unescape)
        parts, end = [], 0
        for first in range(len(letters) - PART + 1):
            if letters[first : first + PART] in self._parts:
                start = places[first][0]
                if start >= end:
                    parts += [text[end:start], HIDDEN]
                end = places[first + PART - 1][1]
        return "".join([*parts, text[end:]])

    def __repr__(self) -> str:
        return f"Key({self._variable!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not written anywhere")


def _letters(text: str) -> str:
    """Return the letters and digits of a text, in lower case and in plain form, where there are several."""
    return SILENT.sub("", unicodedata.normalize("NFKD", text).casefold())


def _located(text: str, unescape: bool) -> tuple[str, list[tuple[int, int]]]:
    """Return the letters of a text, with or without its escapes, and where each begins and ends in it."""
    units, at = [], 0
    for match in ESCAPE.finditer(text) if unescape else ():
        units += [(text[index], index, index + 1) for index in range(at, match.start())]
        units.append((_unescaped(match), *match.span()))
        at = match.end()
    units += [(text[index], index, index + 1) for index in range(at, len(text))]
    letters = [(letter, (start, end)) for char, start, end in units for letter in _letters(char)]
    return "".join(letter for letter, _ in letters), [span for _, span in letters]


def _unescaped(match: re.Match[str]) -> str:
    """Return the character of an escape, a space for one without a number, such as a line end or a colour."""
    code = next((int(match[name], base) for name, base in BASES.items() if match[name]), ord(" "))
    part_of_utf8 = code > 127 and (match["percent"] or match["python"])
    return " " if part_of_utf8 or code > sys.maxunicode else chr(code)
