"""A batch of our games and as many of the `diplomacy` package, played phase by phase with the same orders.

`readings.py` looks for the reasons of a difference. The package's game then waits until no unit of ours has to retreat,
is set to our position and continues.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from benchmarks.diplomacy_peers.crowds import crowds
from benchmarks.diplomacy_peers.orders import STYLES, Weaver, meaning
from benchmarks.diplomacy_peers.peer import Games, Peer, Units, View, written
from benchmarks.diplomacy_peers.plain_adjudicator import Outcome
from benchmarks.diplomacy_peers.readings import RETREAT, Reading, readings, supposed
from sparring.envs.diplomacy.batch import DiplomacyBatch, opening, position
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import POWERS, standard_board
from sparring.envs.diplomacy.orders.notation import read_order, unit_name

DRAWN, CROWDS = "drawn", "crowds"
MOVEMENT = (codes.SPRING, codes.FALL)
LEFT_OUT = 0.03
LAST_YEAR = 1915
"""By then most random games are at a standstill."""


@dataclass
class Tally:
    """Counts over a sample of phases: their kinds, what happened in them, and the reasons of differences."""

    phases: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    differences: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)


def sample(style: str, phases: int, games: int, seed: int) -> Tally:
    """Play at least so many phases in one style, with `games` side by side; return what was compared."""
    match = Crowds(games, seed) if style == CROWDS else Match(games, style, seed)
    while sum(match.tally.phases.values()) < phases:
        match.step()
    match.close()
    return match.tally


@cache
def packed(text: str) -> tuple[int, int]:
    """Return province and order of a line."""
    order = read_order(text)
    assert order is not None
    return order.province, order.order


class Match:
    """`games` games played on both sides at once, in one style."""

    def __init__(self, games: int, style: str, seed: int) -> None:
        self.style, self.seed, self.turn, self.tally = style, seed, 0, Tally()
        self.chance = random.Random(f"{style} {seed}")
        self.batch = DiplomacyBatch(games, last_year=LAST_YEAR, threads=1)
        self.judge = Games(DiplomacyBatch(1, last_year=LAST_YEAR, threads=1))
        self.games, self.size = Games(self.batch), games
        self.peers = [Peer() for _ in range(games)]
        self.behind = [False] * games  # the package waits for our next movement phase or winter

    def step(self) -> int:
        """Play one phase of every game; return the number of phases compared."""
        self.begin_again()
        self.turn += 1
        self.batch.draw_orders(self.seed * 100_003 + self.turn)
        compared = [game for game in range(self.size) if self.catch_up(game)]
        for game in compared if self.style != DRAWN else []:
            self.rewrite(game)
        return self.carry_out(compared)

    def carry_out(self, compared: list[int]) -> int:
        """Process both sides and compare some games; return their number."""
        self.before = {name: rows.copy() for name, rows in self.games.rows.items()}
        self.names = [self.games.phase(game) for game in range(self.size)]
        self.batch.process()
        self.batch.check()
        for game in compared:
            self.compare(game)
        return len(compared)

    def close(self) -> None:
        """End the batches' threads."""
        self.batch.close()
        self.judge.batch.close()

    def begin_again(self) -> None:
        """Restart finished games."""
        over = np.flatnonzero(self.games.rows["done"])
        for name, values in opening().items():
            self.games.rows[name][over] = values.numpy()
        for game in map(int, over):
            self.tally.events["games finished"] += 1
            self.peers[game], self.behind[game] = Peer(), False

    def catch_up(self, game: int) -> bool:
        """Set the package to our position after a difference, once no unit has to retreat; return whether it is set."""
        rows = self.games.rows
        if self.behind[game] and int(rows["phase"][game]) in (*MOVEMENT, codes.WINTER):
            self.peers[game] = Peer()
            self.peers[game].place(self.games.standing(game), self.games.centres(game), self.games.phase(game))
            self.behind[game] = False
        return not self.behind[game]

    def rewrite(self, game: int) -> None:
        """Replace random orders by related ones, and leave some out."""
        orders, units = self.games.rows["orders"][game], self.games.rows["units"][game]
        if int(self.games.rows["phase"][game]) in MOVEMENT:
            legal = self.legal(game)
            for place, order in Weaver(legal, units, STYLES[self.style], self.chance).weave().items():
                orders[place] = order
        for place in map(int, np.flatnonzero(orders)):
            if self.chance.random() < LEFT_OUT:
                orders[place] = 0

    def legal(self, game: int) -> dict[int, list[int]]:
        """Return the package's legal orders by province, packed; count those that only one side lists."""
        found: dict[int, list[int]] = {}
        for text in {line for lines in self.peers[game].legal().values() for line in lines}:
            place, order = packed(text)
            found.setdefault(place, []).append(order)
        ours = {(place, meaning(int(o))) for place, orders in self.batch.legal_orders(game).items() for o in orders}
        theirs = {(place, meaning(order)) for place, orders in found.items() for order in orders}
        idle = {order for order in ours - theirs if order[1][0] == codes.CONVOY}
        self.tally.events["legal orders listed by both"] += len(ours & theirs)
        self.tally.events["legal convoys off the shortest routes, ours alone"] += len(idle)
        self.tally.events["other legal orders listed by one alone"] += len((ours ^ theirs) - idle)
        return {place: sorted(orders) for place, orders in sorted(found.items())}

    def written(self, game: int) -> dict[str, list[str]]:
        """Return the orders of the phase as text, by power."""
        return written(*(self.before[name][game] for name in ("orders", "units", "dislodged", "phase")))

    def compare(self, game: int) -> None:
        """Process the phase in the package too, and compare."""
        for complaint in self.peers[game].order(self.written(game)):
            idle = "IMPOSSIBLE CONVOY" in complaint
            self.tally.events["drawn convoys off the shortest routes" if idle else "orders refused by the package"] += 1
        theirs = self.peers[game].process()
        ours = self.games.view(game, self.before["units"][game], self.moved(game))
        self.tally.phases[self.names[game][-1]] += 1
        self.count(game)
        if not self.same(game, ours, theirs):
            self.explain(game, ours, theirs)
            self.behind[game] = True

    def moved(self, game: int) -> bool:
        """Return whether the phase was a movement phase."""
        return int(self.before["phase"][game]) in MOVEMENT

    def same(self, game: int, ours: View, theirs: View) -> bool:
        """Return whether two views agree; phases after our last year do not count."""
        last = bool(self.games.rows["done"][game]) and ours.phase != "over"
        return set(ours.differs(theirs)) <= ({"phase"} if last else set())

    def explain(self, game: int, ours: View, theirs: View) -> None:
        """Find the reasons of a difference, or keep it as unexplained."""
        reasons = self.reasons(game, ours, theirs)
        self.tally.differences.update(reasons)
        self.tally.events["differences"] += 1
        if not reasons:
            self.tally.unexplained.append(self.told(game, ours, theirs))

    def reasons(self, game: int, ours: View, theirs: View) -> tuple[str, ...]:
        """Return the smallest set of reasons of a difference, empty if unexplained."""
        if not self.moved(game):
            return ()
        if self.retreats(self.games, game, ours, theirs):
            return (RETREAT,)
        units, orders = self.before["units"][game], self.before["orders"][game]
        found = readings(units, orders)
        for reading in found:
            if not reading.lenient:
                view = self.judged(game, reading.orders)
                if self.same(game, view, theirs):
                    return reading.reasons
                if self.retreats(self.judge, 0, view, theirs):
                    return (*reading.reasons, RETREAT)
        for reading in [*found, Reading((), orders)]:
            for reasons, outcome in supposed(units, reading):
                if stands(outcome) == theirs.units and lost(outcome) == {unit[2:5] for _, unit in theirs.dislodged}:
                    return reasons
        return ()

    def retreats(self, games: Games, game: int, ours: View, theirs: View) -> bool:
        """Return whether the views differ only in units dislodged by a convoyed army that have no real retreat."""
        places = standard_board().provinces
        fled = {places[place] for place in np.flatnonzero(games.rows["origin"][game] == codes.CAME_BY_CONVOY)}
        odd = {unit[2:5] for _, unit in theirs.retreating - ours.retreating}
        follows = set(ours.differs(theirs)) <= {"retreating", "phase", "centres"}
        return follows and ours.retreating < theirs.retreating and odd <= fled

    def judged(self, game: int, orders: np.ndarray) -> View:
        """Return the result of our adjudicator for other orders in the same position."""
        for name, rows in self.judge.rows.items():
            rows[0] = self.before[name][game]
        self.judge.rows["orders"][0] = orders
        self.judge.batch.process()
        return self.judge.view(0, self.before["units"][game], self.moved(game))

    def told(self, game: int, ours: View, theirs: View) -> str:
        """Return a difference as text."""
        lines = [f"{self.style} {self.names[game]}"]
        for name in ours.differs(theirs):
            left, right = getattr(ours, name), getattr(theirs, name)
            if not isinstance(left, str):
                left, right = sorted(left - right), sorted(right - left)
            lines.append(f"  {name}: ours {left}, theirs {right}")
        return "\n".join([*lines, *(f"  {power} {', '.join(o)}" for power, o in self.written(game).items())])

    def count(self, game: int) -> None:
        """Count the moves that were made and the void orders of a movement phase."""
        if self.moved(game):
            orders, results = self.before["orders"][game], self.games.rows["results"][game] % codes.DISLODGED_FLAG
            done = (orders & codes.KIND_MASK == codes.MOVE) & (results == codes.DONE)
            self.tally.events["moves made"] += int(done.sum())
            self.tally.events["orders void"] += int(((orders != 0) & (results == codes.VOID)).sum())


def stands(outcome: Outcome) -> Units:
    """Return the units by province."""
    found = outcome.units.values()
    return frozenset((POWERS[power], unit_name(fleet, place)) for power, fleet, place in found)


def lost(outcome: Outcome) -> set[str]:
    """Return the provinces from which a unit was dislodged."""
    return {standard_board().provinces[place] for place in outcome.dislodged}


class Crowds(Match):
    """Single movement phases of crowded positions instead of games."""

    def __init__(self, games: int, seed: int) -> None:
        super().__init__(games, CROWDS, seed)

    def step(self) -> int:
        """Play one position of every game; return the number compared."""
        self.turn += 1
        return self.play(*crowds(self.size, seed=self.seed * 100_003 + self.turn))

    def play(self, units: np.ndarray, orders: np.ndarray) -> int:
        """Carry out orders [G, 75] of positions [G, 75] in spring."""
        unowned = np.full((self.size, codes.NUM_CENTRES), -1)
        for name, values in position(units, unowned, year=1901, phase=codes.SPRING).items():
            self.games.rows[name][:] = values.numpy()
        self.games.rows["orders"][:] = orders
        for game in range(self.size):
            self.peers[game].place(self.games.standing(game), (), self.games.phase(game))
        return self.carry_out(list(range(self.size)))
