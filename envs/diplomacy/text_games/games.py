"""Complete games of Diplomacy, with language models in any seats and bots in the others.

All games run in parallel: in every phase each model gets one batch of prompts for its powers in all games, the kernels
write the bots' orders, and all games are adjudicated together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.text.order_requests import pending_requests, seat_bots, written_orders
from sparring.envs.diplomacy.text.prompts import PromptRules
from sparring.envs.text import Prompt, TextPlayer, mix

Watcher = Callable[[Prompt, Any], Any]


@dataclass(frozen=True)
class Lineup:
    """Players of G games: `players` [G][7] are names of bots or of `models`, whose prompts follow `rules`."""

    players: Sequence[Sequence[str]]
    models: Mapping[str, TextPlayer]
    rules: PromptRules


def one_against_six(one: str, six: str, games: int) -> list[list[str]]:
    """Return the seven players of each game: `one` has power i % 7 of game i, `six` the others."""
    return [
        [one if power == game % codes.NUM_POWERS else six for power in range(codes.NUM_POWERS)] for game in range(games)
    ]


def play_games(
    batch: DiplomacyBatch,
    lineup: Lineup,
    *,
    seed: int,
    watch: Watcher | None = None,
    after_phase: Callable[[], Any] | None = None,
) -> None:
    """Play every game of `batch` to its end, in place.

    The random draws of a game depend on `seed` and its `batch.game_id`. `watch` is called with every prompt and
    decision before it is applied, `after_phase` after every phase. Raises `InputError` if a model is not available.
    """
    batch.reset()
    seat_bots(batch, lineup.players)
    while not bool(batch.done.all()):
        answered = []
        for prompt, decision in _decided(batch, lineup, seed):
            answered.append((prompt, decision))
            if watch is not None:
                watch(prompt, decision)
        batch.orders.copy_(written_orders(batch, answered))
        batch.draw_orders(seed)  # for the bots only
        batch.process()
        if after_phase is not None:
            after_phase()
    batch.check()


def _decided(batch: DiplomacyBatch, lineup: Lineup, seed: int) -> Iterator[tuple[Prompt, Any]]:
    """Yield all prompts of this phase with their decisions, model by model."""
    games = batch.game_id.tolist()
    when = (batch.year.long() * len(codes.PHASES) + batch.phase.long()).tolist()

    def draws(game: int, power: int) -> int:
        return mix(seed, games[game], when[game], power)

    waiting = pending_requests(batch, lineup.players, lineup.rules, draws)
    for player in sorted({prompt.player for prompt in waiting}):
        own = [prompt for prompt in waiting if prompt.player == player]
        yield from zip(own, lineup.models[player].decide(own), strict=True)
