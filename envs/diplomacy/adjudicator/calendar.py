"""The order of phases, ownership of centres, and the end of a game.

A phase without orders is skipped: retreats without dislodged units, adjustments without a build or a disband. A power
with 18 centres after fall wins; a game still undecided after `last_year` is a draw.
"""

from __future__ import annotations

import warp as wp

from sparring.envs.diplomacy.adjudicator.adjustments import build_limit, centres_of
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.state import POWERS, PROVINCES, Games, Tables, power_of

SPRING, SPRING_RETREATS, FALL, FALL_RETREATS, WINTER = (wp.constant(phase) for phase in range(5))
SOLO = wp.constant(codes.SOLO)


@wp.func
def take_centres(games: Games, tables: Tables, game: int) -> None:
    """Give every occupied centre to the power whose unit is in it; empty centres keep their owner."""
    for province in range(PROVINCES):
        centre = tables.centre_of[province]
        unit = games.units[game, province]
        if centre >= 0 and unit != wp.uint8(0):
            games.owner[game, centre] = wp.int8(power_of(unit))


@wp.func
def new_year(games: Games, game: int, last_year: int) -> None:
    """Advance to spring of the next year, or end the game after `last_year`."""
    games.phase[game] = wp.int8(SPRING)
    if int(games.year[game]) >= last_year:
        games.done[game] = wp.uint8(1)
    else:
        games.year[game] = wp.int16(int(games.year[game]) + 1)


@wp.func
def end_of_year(games: Games, tables: Tables, game: int, last_year: int) -> None:
    """Close the year after fall: update owners, check for a solo, and go to adjustments or directly to spring."""
    take_centres(games, tables, game)
    busy = bool(False)
    for power in range(POWERS):
        if centres_of(games, game, power) >= SOLO:
            games.winner[game] = wp.int8(power)
            games.done[game] = wp.uint8(1)
        busy = busy or build_limit(games, tables, game, power) != 0
    if games.done[game] == wp.uint8(0):
        games.phase[game] = wp.int8(WINTER)
        if not busy:
            new_year(games, game, last_year)


@wp.func
def next_season(games: Games, tables: Tables, game: int, last_year: int) -> None:
    """Advance past a movement or retreat phase after which no retreat is pending."""
    # Phases are numbered in order of play; centres change hands after fall only.
    if int(games.phase[game]) <= SPRING_RETREATS:
        games.phase[game] = wp.int8(FALL)
    else:
        end_of_year(games, tables, game, last_year)
