"""Why no attack is made on players of chess."""

from __future__ import annotations

from typing import Any, NoReturn

from sparring.configs.core.errors import InputError


def refuse(responses: Any, text: str, options: Any) -> NoReturn:
    """Raise `InputError` with the reason."""
    raise InputError(
        f"{text}: plays chess, where nothing trains against a player, and a search to the end of the game has some "
        "6,000 games in 2 million moves; compare it with stronger players: sparring payoff --env chess"
    )


RESPONSES = {"read": refuse}
"""Fields of the `ResponseGame`."""
