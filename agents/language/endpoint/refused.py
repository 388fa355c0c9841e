"""Parameters that a server refuses: renamed or left out in all later requests, and said once.

OpenAI's o-series and GPT-5 take `max_completion_tokens` in place of `max_tokens`, and no `temperature` but their own.
Only a refusal of the parameter itself counts, not of its value, such as a `max_tokens` that is too large. What would
change the task, such as the prompt or a constraint, is never left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from threading import Lock
from typing import Any

from sparring.agents.language.endpoint.answer import EndpointError

RENAMED = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
LEFT_OUT = {
    "temperature": "answers are sampled at the server's own temperature, not {value}",
    "seed": "equal requests may get different answers",
    "stop": "an answer may continue after its end; the rest is ignored",
    "top_p": "the server's own value is used, not {value}",
    "top_k": "the server's own value is used, not {value}",
    "min_p": "the server's own value is used, not {value}",
    "repetition_penalty": "the server's own value is used, not {value}",
}
"""What it means that a parameter is left out."""
STATUSES = frozenset({400, 422})
_REFUSAL = re.compile(
    r"unsupported|(?:not|n['’]t) (?:be )?(?:support|permit|allow|available|recogni|accept)|unrecogni[sz]ed|unknown|"
    r"unexpected|extra_forbidden|extra (?:inputs|fields)|only the default|deprecated|"
    r"invalid (?:parameter|field|argument)|max_completion_tokens['\"`]? instead",
    re.IGNORECASE,
)
_SAYS_MORE = frozenset({"stop", "seed", "temperature"})
"""Names that are words as well: they count in quotes, before "=", or beside "parameter" or "field"."""


def refused_parameters(content: str, sent: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the parameters among those `sent` that an error's text refuses; it may be JSON or not."""
    try:
        texts = _strings(json.loads(content))
    except (ValueError, RecursionError):
        texts = [content]
    text = "\n".join(texts)
    if not _REFUSAL.search(text):
        return ()
    names = [name for name in sent if name in RENAMED or name in LEFT_OUT]
    return tuple(name for name in names if name in texts or _names(text, name))


def _names(texts: str, name: str) -> bool:
    before, after = r"(?:parameters?|fields?|arguments?|inputs?):?", r"(?:=| (?:is|parameter|field))"
    quoted = rf"['\"`]{name}['\"`]|{before} {name}\b|\b{name}{after}"
    return bool(re.search(quoted if name in _SAYS_MORE else rf"\b{name}\b", texts))


def _strings(value: Any, key: str = "") -> list[str]:
    """Return the texts of an error, without the request that it may repeat."""
    if isinstance(value, Mapping):
        return [text for name, item in value.items() for text in _strings(item, str(name)) if name != "input"]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item, key)]
    return [value] if isinstance(value, str) else []


class Accepted:
    """Parameters that a server accepts, as found out; safe for threads. `notes` are lines on what it refuses."""

    def __init__(self) -> None:
        self.notes: dict[str, str] = {}
        self._lock = Lock()

    def body(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request's body without the parameters that are refused."""
        with self._lock:
            refused = set(self.notes)
        plain = {name: value for name, value in body.items() if name not in refused}
        return plain | {RENAMED[name]: body[name] for name in refused & RENAMED.keys() & body.keys()}

    def refuse(self, error: EndpointError, sent: Mapping[str, Any], *, exact: bool) -> Mapping[str, str] | None:
        """Take note of what an error refuses; return the new notes, None if the request cannot be sent otherwise.

        Args:
            error: the server's answer.
            sent: body of the request.
            exact: whether the answer's probabilities are checked; then a parameter is renamed at most.

        """
        renamed = [name for name in error.refused if name in RENAMED]
        left_out = [name for name in error.refused if name in LEFT_OUT]
        with self._lock:
            if not error.refused or (exact and left_out) or any(RENAMED[name] in self.notes for name in renamed):
                return None
            new = {name: f"is sent as {RENAMED[name]}" for name in renamed}
            new |= {name: f"is left out: {LEFT_OUT[name].format(value=sent[name])}" for name in left_out}
            lines = {name: f"{name} {text} ({error})" for name, text in new.items() if name not in self.notes}
            self.notes |= lines
        return lines
