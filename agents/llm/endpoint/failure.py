"""Errors of an endpoint: their kinds, which are counted, and their handling."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from time import time

KINDS = ("timeout", "connection", "rate_limited", "server", "refused", "malformed", "too_large")
"""No answer in time; none or a partial one; 429; 5xx; another status; invalid JSON; too many bytes."""
AGAIN = frozenset({408, 409, 425, 429})
"""Statuses that are retried, as is 5xx; any other would repeat."""
UNUSABLE = {
    401: "it wants a key: name the environment's variable that holds one in endpoint.key_env",
    403: "the key is not accepted: look at endpoint.key_env",
    404: "look at endpoint.url, which often ends in /v1, and endpoint.model",
    405: "look at endpoint.url, which often ends in /v1, and endpoint.api",
}
"""Statuses that concern all requests, and what to do."""


class EndpointError(Exception):
    """A request without an answer.

    Attributes: `kind`, one of `KINDS`; `again`, whether a retry may help; `after`, the seconds to wait before it, as
    given by the server; `unusable`, whether all other requests would fail as well.

    """

    def __init__(self, kind: str, text: str, *, again: bool = True, after: float = 0.0, unusable: bool = False) -> None:
        super().__init__(text)
        self.kind, self.again, self.after, self.unusable = kind, again, after, unusable

    def told(self, text: str) -> EndpointError:
        """Return the same error with another text, and without its cause and traceback."""
        return EndpointError(self.kind, text, again=self.again, after=self.after, unusable=self.unusable)


def of_status(status: int, text: str, retry_after: str | None) -> EndpointError:
    """Return the error for a status other than 200; `text` holds the address and the server's message."""
    if status in AGAIN or status >= 500:
        kind = "rate_limited" if status == 429 else "server"
        return EndpointError(kind, text, after=seconds_of(retry_after))
    if 300 <= status < 400:
        text = f"{text}; redirects are not followed, give where it leads as endpoint.url"
    hint = UNUSABLE.get(status)
    unusable = hint is not None or status < 400
    return EndpointError("refused", f"{text}; {hint}" if hint else text, again=False, unusable=unusable)


def seconds_of(retry_after: str | None) -> float:
    """Return the seconds of a Retry-After header, a number or a date; 0 if it is neither."""
    text = (retry_after or "").strip()
    if text.replace(".", "", 1).isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time())
    except (TypeError, ValueError, OverflowError):
        return 0.0
