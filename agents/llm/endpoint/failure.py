"""The ways in which an endpoint can fail, each with a name that is counted, and what is done about it."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from time import time

KINDS = ("timeout", "connection", "rate_limited", "server", "refused", "malformed", "too_large")
"""No answer in time; none at all, or half of one; 429; 5xx; another status; no JSON of the right form; too much."""
AGAIN = frozenset({408, 409, 425, 429})
"""These and 5xx may pass; every other status would be the same again."""
UNUSABLE = {
    401: "it wants a key: name the environment's variable that holds one in endpoint.key_env",
    403: "the key is not accepted: look at endpoint.key_env",
    404: "look at endpoint.url, which often ends in /v1, and endpoint.model",
    405: "look at endpoint.url, which often ends in /v1, and endpoint.api",
}
"""Statuses that concern all requests alike, and what to do."""


class EndpointError(Exception):
    """A request that brought no answer.

    Attributes: `kind`, one of `KINDS`; `again`, whether another try may help; `after`, the seconds that the server
    asks to wait before it; `unusable`, whether all other requests would fail as well.

    """

    def __init__(self, kind: str, text: str, *, again: bool = True, after: float = 0.0, unusable: bool = False) -> None:
        super().__init__(text)
        self.kind, self.again, self.after, self.unusable = kind, again, after, unusable


def of_status(status: int, text: str, retry_after: str | None) -> EndpointError:
    """What an answer with a status other than 200 means; `text` says whose and what it said."""
    if status in AGAIN or status >= 500:
        kind = "rate_limited" if status == 429 else "server"
        return EndpointError(kind, text, after=seconds_of(retry_after))
    if 300 <= status < 400:
        text = f"{text}; redirects are not followed, give where it leads as endpoint.url"
    hint = UNUSABLE.get(status)
    unusable = hint is not None or status < 400
    return EndpointError("refused", f"{text}; {hint}" if hint else text, again=False, unusable=unusable)


def seconds_of(retry_after: str | None) -> float:
    """The seconds that a Retry-After header asks for, a number or a date; 0 where it says neither."""
    text = (retry_after or "").strip()
    if text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time())
    except (TypeError, ValueError, OverflowError):
        return 0.0
