"""Games as lists of phases in plain data: the input of log, drawings and replay.

A phase holds the board before it, the orders and their results, with the codes of `codes.py` in plain lists.
`phases_of` makes the list from records of `history.py` or of a saved game. The last phase is the current position,
without orders: `END` for a finished game, else the next phase.
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

UNKNOWN = 7
"""Result of an order in a file that does not say it, where it cannot be told otherwise; no batch has it."""
END = "END"


class Odds(TypedDict):
    """Probability of one line of a player's orders, with the likeliest alternatives."""

    power: int
    text: str
    """The order in notation, such as A PAR - BUR."""
    probability: float
    others: list[tuple[str, float]]
    """The likeliest of the other options, and their probabilities."""
    rest: tuple[int, float]
    """Number of further options, and the sum of their probabilities."""


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
    """Power that has won, -1 for none."""
    orders: list[int]
    """[75] packed orders."""
    results: list[int]
    """[75] result codes."""
    odds: NotRequired[list[Odds]]
    """Odds of the players for which they are known, line by line."""


def phases_of(game: Sequence[PhaseRecord]) -> list[Phase]:
    """Return the phases of a recorded game; raises `InputError` if any but the last lacks orders or results."""
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
    """Return the name of a phase in words: Spring 1901, retreats."""
    if name == END:
        return "The end"
    season = {"S": "Spring", "F": "Fall", "W": "Winter"}[name[0]]
    kind = {"M": "movement", "R": "retreats", "A": "adjustments"}[name[-1]]
    return f"{season} {name[1:-1]}, {kind}"


def centre_counts(phase: Phase) -> list[int]:
    """Return the centres of each power before a phase, [7]."""
    owner = np.array(phase["owner"])
    return [int((owner == power).sum()) for power in range(codes.NUM_POWERS)]


def counts_by_year(phases: Sequence[Phase]) -> dict[int, list[int]]:
    """Return the centres [7] of each power by year, at its end; the start is stored under the year before."""
    counts: dict[int, list[int]] = {}
    for before, after in pairwise(phases):
        year = int(before["name"][1:-1])
        if not counts:
            counts[year if before["name"][0] == "W" else year - 1] = centre_counts(before)
        if before["name"][0] == "F" and after["name"][0] != "F":
            counts[year] = centre_counts(after)
    return counts


def winner(phases: Sequence[Phase]) -> int:
    """Return the power that has won, -1 for none."""
    return phases[-1]["winner"]


def is_over(phases: Sequence[Phase]) -> bool:
    """Return whether a game is over."""
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
