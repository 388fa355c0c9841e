"""Games of Diplomacy between two bots, one of whom plays one power and the other six, and what either side got.

Game i of a cell gives the one seat i % 7, so with a multiple of seven games every power is played equally often. All
cells play from the same seed. The unit of the statistics is the game: shares and centres have Student's t interval over
games, solos, which are counts, Wilson's. Of the six, what a power of theirs got on average is given, and for solos
whether one of them got it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy import stats

from envs.diplomacy.batch import DiplomacyBatch
from envs.diplomacy.codes import BOTS, NUM_POWERS
from envs.diplomacy.scoring import count_centres, draw_size, solos, sum_of_squares
from eval.spread import Estimate
from eval.tables import wilson


@dataclass(frozen=True)
class Side:
    """What one side got, a mean over games."""

    solos: Estimate
    """Share of the games that were won alone by the one, or by one of the six."""
    draw_size: Estimate
    squares: Estimate
    centres: Estimate


@dataclass(frozen=True)
class Record:
    """What came of the games of one bot against six of another, or of itself."""

    one: str
    six: str
    games: int
    alone: Side
    together: Side
    """Of the six."""
    year: float
    """Mean year in which a game ended."""


def play_cell(batch: DiplomacyBatch, one: str, six: str, seed: int) -> Record:
    """Play every game of `batch` to its end, the bot `one` against six times `six`."""
    row = torch.arange(batch.num_games, device=batch.device)
    batch.reset()
    batch.players.fill_(BOTS.index(six))
    batch.players[row, row % NUM_POWERS] = BOTS.index(one)
    while not bool(batch.done.all()):
        batch.draw_orders(seed)
        batch.process()
    batch.check()
    return record(batch, one, six)


def record(batch: DiplomacyBatch, one: str, six: str) -> Record:
    """What came of games that have been played to their end, `one` in seat i % 7 of game i."""
    games = batch.num_games
    row = torch.arange(games, device=batch.device)
    seats = row % NUM_POWERS
    alone = torch.zeros(games, NUM_POWERS, dtype=torch.bool, device=batch.device)
    alone[row, seats] = True
    owner, mine = batch.owner.cpu(), alone.cpu()
    return Record(
        one,
        six,
        games,
        alone=_side(owner, lambda scores: scores[mine]),
        together=_side(owner, lambda scores: scores[~mine].view(games, NUM_POWERS - 1)),
        year=float(batch.year.float().mean()),
    )


def _side(owner: torch.Tensor, pick: Callable[[torch.Tensor], torch.Tensor]) -> Side:
    """What the powers got that `pick` takes out of scores [G, 7], as [G] or [G, n]."""
    won = pick(solos(owner)).view(len(owner), -1).any(dim=1)
    return Side(
        solos=Estimate(float(won.float().mean()), wilson(int(won.sum()), len(won))),
        draw_size=_mean(pick(draw_size(owner)), most=1.0),
        squares=_mean(pick(sum_of_squares(owner)), most=1.0),
        centres=_mean(pick(count_centres(owner).float()), most=float(owner.shape[1])),
    )


def _mean(scores: torch.Tensor, most: float) -> Estimate:
    """The mean of [G] or [G, n] and its t interval over games, within [0, most]."""
    values = scores.view(len(scores), -1).mean(dim=1).double().numpy()
    mean = float(values.mean())
    half = float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return Estimate(mean, (max(mean - half, 0.0), min(mean + half, most)))
