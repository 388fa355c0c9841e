"""Asking a player for the orders of many games, some of which it may not be able to answer for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparring.agents.llm.backend import Backend, Decision, PromptError
from sparring.agents.llm.order_requests import OrderRequest
from sparring.configs.core.errors import InputError


def decide_batch(
    player: Callable[[], Backend],
    seats: Sequence[OrderRequest],
    *,
    seed: Callable[[OrderRequest], int],
    fail: Callable[[set[int], str], None],
) -> list[tuple[OrderRequest, Decision]]:
    """What `player` decides for its `seats`, with the draws of each seat's `seed`.

    Games with a prompt that it cannot read are given to `fail` with the cause, and the others are asked for again;
    where it cannot be asked at all, so are all of them. A seat's decision does not depend on which others there are.
    """
    if not seats:
        return []
    requests = [seat.request(seed(seat)) for seat in seats]
    try:
        return list(zip(seats, player().decide(requests), strict=True))
    except PromptError as error:
        hurt = {seats[place].game for place in error.places}
        fail(hurt, str(error))
        return decide_batch(player, [seat for seat in seats if seat.game not in hurt], seed=seed, fail=fail)
    except InputError as error:
        fail({seat.game for seat in seats}, str(error))
        return []
