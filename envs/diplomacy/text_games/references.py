"""Games of a learner against fixed players: alone against six DumbBots, and against six copies of its base model."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from sparring.configs.schema import DiplomacyGRPORunConfig
from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import NUM_POWERS
from sparring.envs.diplomacy.rewards.scoring import count_centres, solos
from sparring.envs.diplomacy.text.prompts import PromptRules
from sparring.envs.diplomacy.text_games.games import Lineup, one_against_six, play_games
from sparring.envs.text import ReferenceTable, TextPlayer

BOT = "dumbbot"
SEED = 0
"""Seed of the bots' draws, the same in every evaluation of every run."""
COLUMNS = {"win_rate": "solos", "survival_rate": "survived", "avg_centers": "centres"}


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
    found = {name: measured(owner) for name, owner in zip(opponents, owners, strict=True)}
    return ReferenceTable(COLUMNS, found, games, heading="against six of", prefix="vs_")


def measured(owner: torch.Tensor) -> dict[str, float]:
    """Return means over games that ended with `owner` [G, 34], for the player with power i % 7 of game i."""
    game = torch.arange(len(owner))
    centres, won = (score(owner)[game, game % NUM_POWERS].double() for score in (count_centres, solos))
    values = {"win_rate": won, "survival_rate": (centres > 0).double(), "avg_centers": centres}
    return {name: float(value.mean()) for name, value in values.items()}
