"""The key of an endpoint: read from the environment when it is needed, and never shown.

It is in no configuration, message, log or file. What a server says is searched for it before anyone is told, since
some servers repeat the key that they refuse.
"""

from __future__ import annotations

import json
import os
import re
from typing import NoReturn

from sparring.configs.core.errors import InputError

HIDDEN = "[key]"


class Key:
    """What is sent as the key of requests; nothing where `variable` is empty.

    Raises `InputError`, without the value, where the environment lacks the variable or no header could hold it.
    """

    def __init__(self, variable: str) -> None:
        self._variable = variable
        self._value = os.environ.get(variable, "").strip() if variable else ""
        if variable and not self._value:
            raise InputError(f"endpoint.key_env={variable}: the environment has no such variable, or it is empty")
        if not re.fullmatch(r"[!-~]*", self._value):
            raise InputError(f"endpoint.key_env={variable}: holds more than printable ASCII, so it is no key")

    def headers(self) -> dict[str, str]:
        """The header that carries it."""
        return {"Authorization": f"Bearer {self._value}"} if self._value else {}

    def hide(self, text: str) -> str:
        """The same text without the key, as it stands or as JSON writes it."""
        for spelling in {self._value, json.dumps(self._value)[1:-1]} - {""}:
            text = text.replace(spelling, HIDDEN)
        return text

    def __repr__(self) -> str:
        return f"Key({self._variable!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not written anywhere")
