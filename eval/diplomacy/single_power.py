"""What came of games of Diplomacy in which one player has one power and another the other six, for either side.

Game i of a cell gives the one seat i % 7, so with a multiple of seven games every power is played equally often. The
unit of the statistics is the game. Counts (solos, draws, losses, survival of a single power) have Wilson's interval,
the rest Student's t over games. Of the six, what a power of theirs got on average is given; a solo is theirs if any of
them got it, and a draw if any of them is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sparring.envs.diplomacy.batch import DiplomacyBatch
from sparring.envs.diplomacy.board.codes import BOTS, NUM_CENTRES, NUM_POWERS
from sparring.envs.diplomacy.rewards.final_score import ranks
from sparring.envs.diplomacy.rewards.scoring import count_centres, draw_size, solos, sum_of_squares
from sparring.eval.stats.aggregate import Estimate, mean_estimate
from sparring.eval.stats.tables import wilson


@dataclass(frozen=True)
class Side:
    """What one side got, a mean over games."""

    solos: Estimate
    """Share of the games that were won alone by the one, or by one of the six."""
    draws: Estimate
    """Share of the games without a winner in which the side has a centre left."""
    losses: Estimate
    """The rest."""
    draw_size: Estimate
    squares: Estimate
    centres: Estimate
    survival: Estimate
    """Share of the side's powers with a centre at the end."""
    rank: Estimate
    """Place among the powers by centres, 1 to 7; those with as many share the better one."""


@dataclass(frozen=True)
class PowerRecord:
    """What came of the games of one player against six of another, or of itself."""

    one: str
    six: str
    games: int
    alone: Side
    together: Side
    """Of the six."""
    year: float
    """Mean year in which a game ended."""
    alone_by_power: tuple[Side, ...] = ()
    """Of the games in which the one had that power; empty where not requested."""
    together_by_power: tuple[Side, ...] = ()
    """What that power got where it was among the six."""


def play_cell(batch: DiplomacyBatch, one: str, six: str, seed: int) -> PowerRecord:
    """Play every game of `batch` to its end, the bot `one` against six times `six`."""
    row = torch.arange(batch.num_games, device=batch.device)
    batch.reset()
    batch.players.fill_(BOTS.index(six))
    batch.players[row, row % NUM_POWERS] = BOTS.index(one)
    while not bool(batch.done.all()):
        batch.draw_orders(seed)
        batch.process()
    batch.check()
    return record(one, six, batch.owner, batch.year)


def record(one: str, six: str, owner: Tensor, year: Tensor, *, by_power: bool = False) -> PowerRecord:
    """What came of a cell's games that have been played to their end, `one` in seat i % 7 of game i.

    `owner` [G, 34] are the owners of the centres and `year` [G] the games' last years.
    """
    owner, games = owner.cpu(), len(owner)
    mine = torch.arange(games).unsqueeze(1) % NUM_POWERS == torch.arange(NUM_POWERS)
    sides: dict[str, tuple[Side, ...]] = {}
    if by_power:
        for name, seats in (("alone_by_power", mine), ("together_by_power", ~mine)):
            sides[name] = tuple(_of_power(owner, seats, power) for power in range(NUM_POWERS))
    return PowerRecord(one, six, games, side(owner, mine), side(owner, ~mine), float(year.float().mean()), **sides)


def side(owner: Tensor, seats: Tensor) -> Side:
    """What the powers `seats` bool [G, 7], as many in every game, got in games that ended with `owner` [G, 34]."""
    games = len(owner)

    def pick(scores: Tensor) -> Tensor:
        return scores[seats].view(games, -1)

    centres = count_centres(owner)
    won, alive = pick(solos(owner) > 0).any(dim=1), pick(centres > 0)
    drawn = (solos(owner) == 0).all(dim=1) & alive.any(dim=1)
    return Side(
        solos=_share(won),
        draws=_share(drawn),
        losses=_share(~(won | drawn)),
        draw_size=_mean(pick(draw_size(owner))),
        squares=_mean(pick(sum_of_squares(owner))),
        centres=_mean(pick(centres.double()), most=NUM_CENTRES),
        survival=_share(alive[:, 0]) if alive.shape[1] == 1 else _mean(alive.double()),
        rank=_mean(pick(ranks(owner).double()), least=1.0, most=NUM_POWERS),
    )


def _of_power(owner: Tensor, seats: Tensor, power: int) -> Side:
    """The games in which that power is one of `seats`, and it alone."""
    games = seats[:, power]
    only = torch.zeros_like(seats)
    only[:, power] = True
    return side(owner[games], only[games])


def _share(happened: Tensor) -> Estimate:
    """How often it happened, of bool [G]."""
    return Estimate(float(happened.double().mean()), wilson(int(happened.sum()), len(happened)))


def _mean(scores: Tensor, *, least: float = 0.0, most: float = 1.0) -> Estimate:
    """The mean of [G, n] and its interval over games."""
    return mean_estimate(scores.mean(dim=1).numpy(), least=least, most=most)
