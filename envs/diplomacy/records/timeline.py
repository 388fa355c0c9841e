"""A game as a list of phases for those who watch: what the log, the pictures and the replay are made of.

A phase is what stood on the board before it, the orders, and how they ended, with the codes of `codes.py` in plain
lists. `phases_of` makes it from the records of `history.py` or of a saved game. The last one is where the game stands,
without orders: `END` where it is over, else the phase that would be next.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NotRequired, TypedDict

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board import codes

if TYPE_CHECKING:
    from sparring.envs.diplomacy.records.history import PhaseRecord

END = "END"


class Odds(TypedDict):
    """How likely a player was to write a line of its orders, and what else it might have written there."""

    power: int
    text: str
    """As in A PAR - BUR."""
    probability: float
    others: list[tuple[str, float]]
    """The likeliest of the other options, and their probabilities."""
    rest: tuple[int, float]
    """How many more options there were, and their probability together."""


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
    winner: int
    """The power that has won, -1 for nobody."""
    orders: list[int]
    """[75]"""
    results: list[int]
    """[75]"""
    odds: NotRequired[list[Odds]]
    """Of those players whose odds are known, line by line."""


def phases_of(game: Sequence[PhaseRecord]) -> list[Phase]:
    """The phases of a recorded game; raises `InputError` for a record without what came of it, but for the last one."""
    *played, last = game
    for number, record in enumerate(played):
        for name in ("orders", "results"):
            if getattr(record, name) is None:
                raise InputError(f"phases[{number}]: has no {name}; only the last one, where the game stands, has none")
    if last.orders is not None and last.orders.any():
        raise InputError(f"phases[{len(played)}]: has orders; the last one is where the game stands, and has none")
    phases = [_phase(record) for record in game]
    if int(last.position["done"]):
        phases[-1]["name"] = END
    return phases


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
            found[year if before["name"][0] == "W" else year - 1] = centre_counts(before)
        if before["name"][0] == "F" and after["name"][0] != "F":
            found[year] = centre_counts(after)
    return found


def winner(phases: Sequence[Phase]) -> int:
    """The power that has won at the end, -1 where nobody has."""
    return phases[-1]["winner"]


def is_over(phases: Sequence[Phase]) -> bool:
    """Whether a game has come to its end."""
    return phases[-1]["name"] == END


def _phase(record: PhaseRecord) -> Phase:
    row = {name: values[0].cpu().numpy() for name, values in record.position.items()}
    nothing = np.zeros(codes.NUM_PROVINCES, dtype=np.int32)
    return {
        "name": codes.phase_name(int(row["year"]), int(row["phase"])),
        "units": row["units"].tolist(),
        "dislodged": row["dislodged"].tolist(),
        "owner": row["owner"].tolist(),
        "winner": int(row["winner"]),
        "orders": (nothing if record.orders is None else record.orders).tolist(),
        "results": (nothing if record.results is None else record.results).tolist(),
    }
