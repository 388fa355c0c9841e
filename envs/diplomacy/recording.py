"""A game as a list of phases, kept while it is played: what the log, the pictures and the replay are made of.

A phase is what stood on the board before it, the orders, and how they ended, with the codes of `codes.py` in plain
lists, so that a recording may as well come from a file. The last one is the final position, `END`, without orders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from envs.diplomacy import codes

if TYPE_CHECKING:
    from envs.diplomacy.batch import DiplomacyBatch

END = "END"


class Phase(TypedDict):
    """One phase of one game."""

    name: str
    """S1901M, S1901R, F1901M, F1901R, W1901A, or `END`."""
    units: list[int]
    """[75] before the phase."""
    dislodged: list[int]
    """[75] units that have to retreat in this phase."""
    owner: list[int]
    """[34] of the centres, before the phase."""
    orders: list[int]
    """[75]"""
    results: list[int]
    """[75]"""


def record_game(
    batch: DiplomacyBatch, give_orders: Callable[[DiplomacyBatch], None], *, game: int = 0, most: int = 10_000
) -> list[Phase]:
    """Play on until `game` of a batch is over; `give_orders` writes `batch.orders` of every phase.

    All games of the batch are played along. Stops after `most` phases.
    """
    phases: list[Phase] = []
    while not batch.done[game] and len(phases) < most:
        give_orders(batch)
        phases.append(_before(batch, game))
        batch.process()
        phases[-1]["results"] = batch.results[game].tolist()
    end = _before(batch, game)
    end["name"], end["orders"] = END, [0] * codes.NUM_PROVINCES
    return [*phases, end]


def phase_name(year: int, phase: int) -> str:
    """Season, year and kind, as in S1901M."""
    season, kind = codes.PHASE_LETTERS[phase]
    return f"{season}{year}{kind}"


def phase_title(name: str) -> str:
    """A phase's name in words: Spring 1901, retreats."""
    if name == END:
        return "The end"
    season = {"S": "Spring", "F": "Fall", "W": "Winter"}[name[0]]
    kind = {"M": "movement", "R": "retreats", "A": "adjustments"}[name[-1]]
    return f"{season} {name[1:-1]}, {kind}"


def centre_counts(phase: Phase) -> list[int]:
    """[7] centres of each power before a phase."""
    owner = np.array(phase["owner"])
    return [int((owner == power).sum()) for power in range(codes.NUM_POWERS)]


def counts_by_year(phases: Sequence[Phase]) -> dict[int, list[int]]:
    """Centres of each power at the end of every year, and under the year before the first at the beginning."""
    found: dict[int, list[int]] = {}
    for before, after in pairwise(phases):
        year = int(before["name"][1:-1])
        if not found:
            found[year - 1] = centre_counts(before)
        if before["name"][0] == "F" and after["name"][0] != "F":
            found[year] = centre_counts(after)
    return found


def winner(phases: Sequence[Phase]) -> int:
    """The power that has a solo at the end, -1 where nobody has."""
    counts = centre_counts(phases[-1])
    return next((power for power, count in enumerate(counts) if count >= codes.SOLO), -1)


def _before(batch: DiplomacyBatch, game: int) -> Phase:
    return {
        "name": phase_name(int(batch.year[game]), int(batch.phase[game])),
        "units": batch.units[game].tolist(),
        "dislodged": batch.dislodged[game].tolist(),
        "owner": batch.owner[game].tolist(),
        "orders": batch.orders[game].tolist(),
        "results": [0] * codes.NUM_PROVINCES,
    }
