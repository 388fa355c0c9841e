"""Games as lists of phases in plain data, and their orders with outcomes: the input of log, drawings and replay.

A phase holds the board before it, the orders and their results, with the codes of `codes.py` in plain lists.
`phases_of` makes the list from records of `history.py` or of a saved game. The last phase is the current position,
without orders: `END` for a finished game, else the next phase.

Some outcomes have no order: units disbanded by civil disorder or for lack of a retreat. An integer that is not an order
counts as a void hold in movement and is left out in other phases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NotRequired, TypedDict

import numpy as np

from sparring.configs.core.errors import InputError
from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import ARMY, standard_board
from sparring.envs.diplomacy.orders.notation import has_words, unit_location, write_order

if TYPE_CHECKING:
    from sparring.envs.diplomacy.records.history import PhaseRecord

UNKNOWN = 7
"""Result of an order that the file lacks and that cannot be inferred; a batch never has it."""
END = "END"
NOWHERE = -1
UNORDERED = "not ordered"
_NOTES = {
    codes.VOID: "void",
    codes.FAILED: "no effect",
    codes.BOUNCED: "bounced",
    codes.CUT: "cut",
    codes.DISRUPTED: "no convoy",
    UNKNOWN: "unknown",
}
KINDS = ("hold", "hold", "move", "support", "support", "convoy", "retreat", "disband", "build")
"""Words for the kinds of orders, by code."""


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
    """Odds of players that provide them, line by line."""
    beliefs: NotRequired[list[str]]
    """Opponent model of each search."""


def phases_of(game: Sequence[PhaseRecord]) -> list[Phase]:
    """Return the phases of a recorded game; raises `InputError` if any but the last lacks orders or results."""
    *played, last = game
    for number, record in enumerate(played):
        for name in ("orders", "results"):
            if getattr(record, name) is None:
                raise InputError(f"phases[{number}]: {name} missing; only the last phase may lack them")
    if last.orders is not None and last.orders.any():
        raise InputError(f"phases[{len(played)}]: has orders; the last phase is the current position")
    phases = [_phase(record) for record in game]
    if int(last.position["done"]):
        phases[-1]["name"] = END
    return phases


def phase_title(name: str) -> str:
    """Return the title of a phase, such as Spring 1901, retreats."""
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
    blank = np.zeros(codes.NUM_PROVINCES, dtype=np.int32)
    phase: Phase = {
        "name": codes.phase_name(int(row["year"]), int(row["phase"])),
        "units": row["units"].tolist(),
        "dislodged": row["dislodged"].tolist(),
        "owner": row["owner"].tolist(),
        "winner": int(row["winner"]),
        "orders": (blank if record.orders is None else record.orders).tolist(),
        "results": (blank if record.results is None else record.results).tolist(),
    }
    if record.beliefs:
        phase["beliefs"] = list(record.beliefs)
    return phase


@dataclass(frozen=True)
class OrderOutcome:
    """One order and its outcome; places are locations, `NOWHERE` for none."""

    power: int
    kind: str
    """One of `KINDS`."""
    text: str
    """The order in notation, such as A PAR - BUR."""
    start: int
    """Location of the unit."""
    target: int
    """Destination of the unit, or of the unit supported or convoyed; for a support to hold, its location."""
    other: int
    """Location of the unit that is supported in a move, or convoyed."""
    note: str
    """Reason of failure and dislodgement, such as "cut, dislodged"; empty for success."""
    fine: bool
    """True if the order was carried out, even if the unit was dislodged."""
    dislodged: bool = False
    by_sea: tuple[int, ...] | None = None
    """Seas crossed by an army that moves by convoy, empty without a chain of fleets; None for other orders."""


def order_outcomes(phase: Phase, after: Phase) -> list[OrderOutcome]:
    """Return the orders of a phase with their outcomes, power by power; `after` is the next phase."""
    kind = phase["name"][-1]
    instead = codes.HOLD if kind == "M" else codes.NO_ORDER  # in place of integers that are not orders
    phase = {**phase, "orders": [order if has_words(order) else instead for order in phase["orders"]]}
    outcomes_of = {"M": _moves, "R": _retreats, "A": _adjustments}.get(kind)
    return sorted(outcomes_of(phase, after) if outcomes_of else (), key=lambda outcome: (outcome.power, outcome.start))


def _moves(phase: Phase, after: Phase) -> Iterator[OrderOutcome]:
    for province, unit in enumerate(phase["units"]):
        if unit:
            lost, result = divmod(phase["results"][province], codes.DISLODGED_FLAG)
            fate = "dislodged" if after["dislodged"][province] else "dislodged and disbanded"
            ashore = result == codes.DONE and _left_ashore(phase, phase["orders"][province])
            why = "the army did not sail" if ashore else _NOTES.get(result, "")
            notes = ["" if phase["orders"][province] else UNORDERED, why, fate if lost else ""]
            fine = result not in _NOTES and not ashore
            outcome = _outcome(phase, province, unit, ", ".join(filter(None, notes)), fine=fine)
            yield replace(outcome, dislodged=bool(lost))


def _left_ashore(phase: Phase, order: int) -> bool:
    """Return whether an order convoys an army whose convoy was disrupted, at whichever fleet."""
    kind, _, other, _ = codes.unpack(order)
    army = int(standard_board().province_of[other])
    return kind == codes.CONVOY and phase["results"][army] % codes.DISLODGED_FLAG == codes.DISRUPTED


def _retreats(phase: Phase, after: Phase) -> Iterator[OrderOutcome]:
    for province, unit in enumerate(phase["dislodged"]):
        if unit:
            order, result = phase["orders"][province], phase["results"][province]
            if order & codes.KIND_MASK == codes.RETREAT and result != codes.DONE:
                why = "another went there too" if result == codes.FAILED else _NOTES[result]
                note = why if result == UNKNOWN else f"{why}, disbanded"
                yield _outcome(phase, province, unit, note, fine=False)
            elif order & codes.KIND_MASK in (codes.RETREAT, codes.DISBAND):
                yield _outcome(phase, province, unit, "", fine=True)
            else:
                yield _outcome(phase, province, unit, UNORDERED, order=codes.DISBAND, fine=True)


def _adjustments(phase: Phase, after: Phase) -> Iterator[OrderOutcome]:
    board = standard_board()
    for province in range(codes.NUM_PROVINCES):
        unit, order = phase["units"][province], phase["orders"][province]
        result = phase["results"][province]
        done, note = result == codes.DONE, "unknown" if result == UNKNOWN else "void"
        if order & codes.KIND_MASK == codes.BUILD and board.home[province] >= 0:
            maker = codes.unit_code(int(board.home[province]), codes.ARMY_FORM)
            yield _outcome(phase, province, maker, "" if done else note, fine=done)
        elif unit and order:
            yield _outcome(phase, province, unit, "" if done else note, fine=done)
        if unit and not after["units"][province] and result not in (codes.DONE, UNKNOWN):
            yield _outcome(phase, province, unit, "civil disorder", order=codes.DISBAND, fine=True)


def _outcome(
    phase: Phase, province: int, unit: int, note: str, *, fine: bool, order: int = codes.NO_ORDER
) -> OrderOutcome:
    order = order or phase["orders"][province]
    kind, target, other, via = codes.unpack(order)
    start = unit_location(unit, province)
    return OrderOutcome(
        power=(unit - 1) % codes.NUM_POWERS,
        kind=KINDS[kind],
        text=write_order(order, province, unit),
        start=target if kind == codes.BUILD and standard_board().province_of[target] == province else start,
        target=target if kind in _AIMED else NOWHERE,
        other=other if kind in (codes.SUPPORT_MOVE, codes.CONVOY) else NOWHERE,
        note=note,
        fine=fine,
        by_sea=_voyage(phase, province, target, via=via) if kind == codes.MOVE and _is_army(unit) else None,
    )


_AIMED = (codes.MOVE, codes.SUPPORT, codes.SUPPORT_MOVE, codes.CONVOY, codes.RETREAT)


def _is_army(unit: int) -> bool:
    return (unit - 1) // codes.NUM_POWERS == ARMY


def _voyage(phase: Phase, start: int, target: int, *, via: bool) -> tuple[int, ...] | None:
    """Return the shortest chain of fleets ordered to convoy an army (breadth first); None for a move by land."""
    board = standard_board()
    goal = int(board.province_of[target])
    if board.army_next[start, goal] and not via:
        return None
    carriers = [fleet for fleet, order in enumerate(phase["orders"]) if _carries(order, start, goal)]
    routes: list[tuple[int, ...]] = [(fleet,) for fleet in carriers if _by_fleet(start)[fleet]]
    visited = {route[-1] for route in routes}
    for route in routes:  # The list grows during the loop.
        if _by_fleet(goal)[route[-1]]:
            return route
        onward = [fleet for fleet in carriers if board.fleet_next[route[-1], fleet] and fleet not in visited]
        visited.update(onward)
        routes += [(*route, fleet) for fleet in onward]
    return None if board.army_next[start, goal] else ()


def _carries(order: int, start: int, goal: int) -> bool:
    kind, target, other, _ = codes.unpack(order)
    province_of = standard_board().province_of
    return kind == codes.CONVOY and province_of[other] == start and province_of[target] == goal


def _by_fleet(province: int) -> np.ndarray:
    """Return the locations within a move of a fleet on any coast of a province, bool [81]."""
    board = standard_board()
    return np.any(board.fleet_next[[province, *board.coasts_of[province]]], axis=0)
