"""Settings of the search player, read from its name: `search`, `search:seconds=0.5`, `search:positions=8000,seed=3`.

Reading them needs neither torch nor Warp, so that a wrong name is reported at once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from sparring.configs.core.allowed import complaint
from sparring.configs.core.errors import InputError, choose
from sparring.envs.diplomacy.board.codes import BOTS

SEARCH = "search"
ALLOWED = {"positions": "[100, 100000000]", "seconds": "[0.001, 3600]", "seed": "[0, 2147483647]"}


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search; the budget of a decision is `positions`, or `seconds` where these are 0."""

    proposals: str = "dumbbot"
    """Bot whose orders are the first candidates; or a policy or Python object, whose orders join those of DumbBot."""
    opponents: str = "dumbbot"
    """Bot that orders for the other powers, and for all of them after the first phase."""
    positions: int = 0
    """Adjudicated phases of one game. The orders then depend only on the position and the seed."""
    seconds: float = 0.0
    seed: int = 0


def read_settings(text: str) -> SearchSettings:
    """Read `search:KEY=VALUE,...`; without a budget it has 0.1 seconds.

    Raises `InputError` for an unknown key or bot, a value out of range, and two budgets.
    """
    known = [field.name for field in fields(SearchSettings)]
    values: dict[str, Any] = {}
    for word in filter(None, text.removeprefix(SEARCH).removeprefix(":").split(",")):
        key, equals, value = word.partition("=")
        choose(f"key of {text}", key.strip(), known)
        if not equals or key in values:
            raise InputError(f"{text}: give {key} once, as in {SEARCH}:{key}=VALUE")
        values[key] = _number(text, key, value) if key in ALLOWED else value
    if len({"positions", "seconds"} & values.keys()) > 1:
        raise InputError(f"{text}: positions and seconds are two budgets; leave one out")
    if not {"positions", "seconds"} & values.keys():
        values["seconds"] = 0.1
    settings = SearchSettings(**values)
    choose("bot", settings.opponents, BOTS)
    if not settings.proposals:
        raise InputError(f"{text}: proposals is empty; name a bot or a policy, such as dumbbot")
    return settings


def _number(text: str, key: str, value: str) -> float:
    try:
        number = float(value) if key == "seconds" else int(value)
    except ValueError:
        raise InputError(f"{text}: {key}={value} is no number; it must be in {ALLOWED[key]}") from None
    if wrong := complaint(number, ALLOWED[key]):
        raise InputError(f"{text}: {key}={value} {wrong}")
    return number
