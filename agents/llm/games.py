"""Games of Diplomacy from the beginning to the end, language models in any seats and bots in the others.

All games go on side by side: in every phase each model is asked once, for all its powers in all of them, the bots write
their orders in the kernels, and everything is adjudicated together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sparring.agents.llm.backend import Backend, Decision, Request
from sparring.agents.llm.order_requests import OrderRequest, mix, pending_requests, seat_bots
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.text.prompts import PromptRules

Watcher = Callable[[OrderRequest, Request, Decision], Any]


@dataclass(frozen=True)
class Lineup:
    """Who plays G games: `players` [G][7] are names of bots or of `models`, which are shown positions by `rules`."""

    players: Sequence[Sequence[str]]
    models: Mapping[str, Backend]
    rules: PromptRules


def one_against_six(one: str, six: str, games: int) -> list[list[str]]:
    """The seven players of each game: `one` has power i % 7 of game i, `six` the others."""
    return [
        [one if power == game % codes.NUM_POWERS else six for power in range(codes.NUM_POWERS)] for game in range(games)
    ]


def play_games(
    batch: DiplomacyBatch,
    cast: Lineup,
    *,
    seed: int,
    watch: Watcher | None = None,
    after_phase: Callable[[], Any] | None = None,
) -> None:
    """Play every game of `batch` to its end; how they ended is in it.

    What is drawn in a game depends on `seed` and the game's `batch.game_id`. `watch` hears of every decision before it
    is carried out, `after_phase` of every phase that was. Raises `InputError` where a model cannot be asked.
    """
    batch.reset()
    seat_bots(batch, cast.players)
    while not bool(batch.done.all()):
        orders = np.zeros((batch.num_games, codes.NUM_PROVINCES), dtype=np.int32)
        for seat, request, decision in _decided(batch, cast, seed):
            seat.choices.write(decision.chosen, orders[seat.game])
            if watch is not None:
                watch(seat, request, decision)
        batch.orders.copy_(torch.from_numpy(orders))
        batch.draw_orders(seed)  # of the bots, and over nobody else's
        batch.process()
        if after_phase is not None:
            after_phase()
    batch.check()


def _decided(batch: DiplomacyBatch, cast: Lineup, seed: int) -> Iterator[tuple[OrderRequest, Request, Decision]]:
    """Everybody who is asked in this phase, model by model, with what was decided."""
    games = batch.game_id.tolist()
    when = (batch.year.long() * len(codes.PHASES) + batch.phase.long()).tolist()
    waiting = pending_requests(batch, cast.players, cast.rules)
    for player in sorted({seat.player for seat in waiting}):
        own = [seat for seat in waiting if seat.player == player]
        draws = [mix(seed, games[seat.game], when[seat.game], seat.power) for seat in own]
        requests = [seat.request(draw) for seat, draw in zip(own, draws, strict=True)]
        yield from zip(own, requests, cast.models[player].decide(requests), strict=True)
