"""Contents of a sample of phases: comparisons, and the frequency of each rule."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from benchmarks.diplomacy_peers.orders import fields
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import standard_board


@dataclass
class Tally:
    """Counts over a sample."""

    phases: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    differences: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add another sample."""
        self.phases.update(other.phases)
        self.events.update(other.events)
        self.differences.update(other.differences)
        self.unexplained += other.unexplained


def happenings(units: np.ndarray, orders: np.ndarray, results: np.ndarray) -> Counter[str]:
    """Return the events of a movement phase, from its units, orders and their results, [75] each."""
    found: Counter[str] = Counter()
    steps: dict[int, int] = {}
    for place in map(int, np.flatnonzero(orders)):
        kind, goal, _, via = fields(int(orders[place]))
        result, lost = int(results[place]) % codes.DISLODGED_FLAG, int(results[place]) >= codes.DISLODGED_FLAG
        found["units dislodged"] += lost
        found["orders void"] += result == codes.VOID
        if kind == codes.MOVE:
            ferried = int(units[place]) <= codes.NUM_POWERS and (via or not standard_board().army_next[place, goal])
            found["moves made"] += result == codes.DONE
            found["moves bounced"] += result == codes.BOUNCED
            found["armies carried"] += bool(ferried and result == codes.DONE)
            found["armies whose convoy was disrupted"] += result == codes.DISRUPTED
            if result == codes.DONE:
                steps[place] = goal
        elif kind in (codes.SUPPORT, codes.SUPPORT_MOVE):
            found["supports given"] += result == codes.DONE and not lost
            found["supports cut"] += result == codes.CUT
        elif kind == codes.CONVOY and result == codes.DISRUPTED:
            found["fleets in a paradox"] += 1
    found["phases with a paradox"] += found["fleets in a paradox"] > 0
    found["rings"] += rings(steps)
    return found


def rings(steps: dict[int, int]) -> int:
    """Return the cycles of units that moved into each other's places."""
    left, found = dict(steps), 0
    while left:
        here, seen = next(iter(left)), set()
        while here in left:
            seen.add(here)
            here = left.pop(here)
        found += here in seen
    return found
