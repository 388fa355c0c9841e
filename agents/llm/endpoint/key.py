"""API key of an endpoint: read from the environment, and never shown.

It is in no configuration, message, log or file. It is removed from a server's messages before they are shown, since
some servers repeat a rejected key.
"""

from __future__ import annotations

import json
import os
import re
from typing import NoReturn

from sparring.configs.core.errors import InputError

HIDDEN = "[key]"


class Key:
    """Key of requests, from the environment variable `variable`; no key if that is empty.

    Raises `InputError`, without the value, if the variable is not set or its value is not valid in a header.
    """

    def __init__(self, variable: str) -> None:
        self._variable = variable
        self._value = os.environ.get(variable, "").strip() if variable else ""
        if variable and not self._value:
            raise InputError(f"endpoint.key_env={variable}: the environment has no such variable, or it is empty")
        if not re.fullmatch(r"[!-~]*", self._value):
            raise InputError(f"endpoint.key_env={variable}: holds more than printable ASCII, so it is no key")

    def headers(self) -> dict[str, str]:
        """Return the header with the key."""
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def hide(self, text: str) -> str:
        """Return the text without the key, in plain or JSON-escaped form."""
        for spelling in {self._value, json.dumps(self._value)[1:-1]} - {""}:
            text = text.replace(spelling, HIDDEN)
        return text

    def __repr__(self) -> str:
        return f"Key({self._variable!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not written anywhere")
