"""Results of games of Diplomacy in which one player has one power and another the other six, for each side.

In game i of a cell the single player has seat i % 7, so a multiple of seven games plays every power equally often. The
unit of the statistics is the game. Counts (solos, draws, losses, survival of a single power) have Wilson's interval,
the rest Student's t over games. Figures of the six are means per power; a solo is theirs if any of them wins alone,
and a draw if any of them survives.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sparring.envs.diplomacy.board.codes import NUM_CENTRES, NUM_POWERS
from sparring.envs.diplomacy.rewards.sample_rewards import ranks
from sparring.envs.diplomacy.rewards.scoring import count_centres, draw_size, solos, sum_of_squares
from sparring.eval.stats.aggregate import Estimate, mean_estimate
from sparring.eval.stats.tables import wilson


@dataclass(frozen=True)
class Side:
    """Results of one side, means over games."""

    solos: Estimate
    """Share of games won alone by the one, or by one of the six."""
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
    """Rank among the powers by centres, 1 to 7; equal powers share the better rank."""


@dataclass(frozen=True)
class PowerRecord:
    """Results of one player against six of another, or of itself."""

    one: str
    six: str
    games: int
    alone: Side
    together: Side
    """Of the six."""
    year: float
    """Mean year in which a game ended."""
    alone_by_power: tuple[Side, ...] = ()
    """Results of the one by its power; empty unless requested."""
    together_by_power: tuple[Side, ...] = ()
    """Results of each power among the six."""


def record(one: str, six: str, owner: Tensor, year: Tensor, *, by_power: bool = False) -> PowerRecord:
    """Return the record of a cell's finished games, `one` in seat i % 7 of game i.

    `owner` [G, 34] holds the owners of the centres and `year` [G] the games' last years.
    """
    owner, games = owner.cpu(), len(owner)
    mine = torch.arange(games).unsqueeze(1) % NUM_POWERS == torch.arange(NUM_POWERS)
    sides: dict[str, tuple[Side, ...]] = {}
    if by_power:
        for name, seats in (("alone_by_power", mine), ("together_by_power", ~mine)):
            sides[name] = tuple(_of_power(owner, seats, power) for power in range(NUM_POWERS))
    return PowerRecord(one, six, games, side(owner, mine), side(owner, ~mine), float(year.float().mean()), **sides)


def side(owner: Tensor, seats: Tensor) -> Side:
    """Return results of the powers `seats` bool [G, 7], equally many per game, for final `owner` [G, 34]."""
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
    """Return results of that power in the games where it is one of `seats`."""
    games = seats[:, power]
    only = torch.zeros_like(seats)
    only[:, power] = True
    return side(owner[games], only[games])


def _share(happened: Tensor) -> Estimate:
    """Return the share of True in bool [G], with its interval."""
    return Estimate(float(happened.double().mean()), wilson(int(happened.sum()), len(happened)))


def _mean(scores: Tensor, *, least: float = 0.0, most: float = 1.0) -> Estimate:
    """Return the mean of [G, n] and its interval over games."""
    return mean_estimate(scores.mean(dim=1).numpy(), least=least, most=most)
