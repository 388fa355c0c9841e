"""Complete games of Diplomacy, with language models in any seats and bots in the others.

All games run in parallel: in every phase each model gets one batch of prompts for its powers in all games, the kernels
write the bots' orders, and all games are adjudicated together. `references` are those of a learner against fixed
players: alone against six DumbBots, and against six copies of its base model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sparring.configs.schema import DiplomacyGRPORunConfig
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.prompts.prompts import PromptRules
from sparring.envs.diplomacy.prompts.requests import pending_requests, seat_bots, written_orders
from sparring.envs.diplomacy.rewards.scoring import count_centres, solos
from sparring.envs.text import Prompt, ReferenceTable, TextPlayer, mix

Watcher = Callable[[Prompt, Any], Any]
BOT = "dumbbot"
SEED = 0
"""Seed of the bots' draws, the same in every evaluation of every run."""
COLUMNS = {"win_rate": "solos", "survival_rate": "survived", "avg_centers": "centres"}


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


def references(
    config: DiplomacyGRPORunConfig, models: Mapping[str, TextPlayer], *, learner: str, base: str, threads: int
) -> ReferenceTable:
    """Play `config.evaluation.games` games against each opponent, every power in turn.

    Raises `InputError` if a model is not available.
    """
    games, opponents = config.evaluation.games, (BOT, base)
    players = [game for name in opponents for game in one_against_six(learner, name, games)]
    lineup = Lineup(players, models, PromptRules.of(config.model))
    batch = DiplomacyBatch(len(lineup.players), last_year=config.env.last_year, threads=threads)
    try:
        batch.game_id.copy_(torch.arange(games).repeat(len(opponents)))
        play_games(batch, lineup, seed=SEED)
        owners = batch.owner.cpu().split(games)
    finally:
        batch.close()
    scores = {name: measured(owner) for name, owner in zip(opponents, owners, strict=True)}
    return ReferenceTable(COLUMNS, scores, games, heading="against six of", prefix="vs_")


def measured(owner: torch.Tensor) -> dict[str, float]:
    """Return means over games that ended with `owner` [G, 34], for the player with power i % 7 of game i."""
    game = torch.arange(len(owner))
    centres, won = (score(owner)[game, game % codes.NUM_POWERS].double() for score in (count_centres, solos))
    values = {"win_rate": won, "survival_rate": (centres > 0).double(), "avg_centers": centres}
    return {name: float(value.mean()) for name, value in values.items()}
