"""Orders as marks on the map: lines with heads, rings and crosses, in the drawing's coordinates.

A move is a slightly bent arrow, which separates the arrows of two units that change places. A bounced move ends early
at a cross. A support is a line to the supported unit, or to the middle of the supported move. A move by convoy is wavy
and passes through the fleets. Colours and dashes depend on the order's `kind`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sparring.envs.diplomacy.board.board import standard_board
from sparring.envs.diplomacy.drawing.outlines import standard_drawing
from sparring.envs.diplomacy.orders.notation import unit_location
from sparring.envs.diplomacy.records.timeline import NOWHERE, OrderOutcome, Phase

UNIT_RADIUS = 12.0
"""Radius of a unit's symbol, in drawing coordinates."""
DISLODGED_SHIFT = np.array([15.0, 12.0])
"""Offset of a dislodged unit from the unit that now occupies its province."""
ARROW, DOT, RING, NONE = "arrow", "dot", "ring", "none"
_BEND, _MOST_BEND = 0.10, 16.0
_BROKEN_OFF = 0.62
_WAVE, _HEIGHT = 17.0, 3.6


@dataclass(frozen=True)
class OrderMark:
    """Drawing of one order with its outcome."""

    outcome: OrderOutcome
    line: np.ndarray
    """[n, 2]; without points if there is only a ring or a cross."""
    head: str = NONE
    """Symbol at its end: `ARROW`, `DOT` or `NONE`; `RING` is drawn around `at`."""
    at: np.ndarray = field(default_factory=lambda: np.zeros(2))
    """Position of the unit."""
    cross: np.ndarray | None = None
    """Position of the failure cross, None for success."""


def marks(phase: Phase, done: Sequence[OrderOutcome]) -> list[OrderMark]:
    """Return the marks of a phase's outcomes, supports first: moves are drawn on top."""
    routes = {standard_board().province_of[outcome.start]: _way(outcome) for outcome in done if outcome.kind == "move"}
    order = {"convoy": 0, "support": 1, "hold": 2, "move": 3}
    drawn = [_mark(outcome, phase, routes) for outcome in done]
    return sorted(drawn, key=lambda mark: order.get(mark.outcome.kind, 4))


def dashes(line: np.ndarray, on: float, off: float) -> list[np.ndarray]:
    """Return a line [n, 2] cut into pieces of length `on` with gaps of length `off`."""
    length = _along(line)[-1]
    starts = np.arange(0.0, length, on + off)
    return [_part(line, start, min(start + on, length)) for start in starts]


def _mark(outcome: OrderOutcome, phase: Phase, routes: dict[int, np.ndarray]) -> OrderMark:
    at = _place(outcome.start)
    if outcome.kind == "move":
        return _move(outcome, at)
    if outcome.kind == "retreat":
        line = _trimmed(_bent(at + DISLODGED_SHIFT, _place(outcome.target)))
        return OrderMark(outcome, line, ARROW, at + DISLODGED_SHIFT, None if outcome.fine else line[-1])
    if outcome.kind in ("support", "convoy"):
        return _help(outcome, phase, routes, at)
    if outcome.kind == "disband":
        shift = DISLODGED_SHIFT if phase["name"][-1] == "R" else 0.0
        return OrderMark(outcome, _EMPTY, NONE, at + shift, at + shift)
    return OrderMark(outcome, _EMPTY, RING, at, None if outcome.fine else at)


def _move(outcome: OrderOutcome, at: np.ndarray) -> OrderMark:
    line = _trimmed(_way(outcome))
    if outcome.fine:
        return OrderMark(outcome, line, ARROW, at)
    line = _part(line, 0.0, _BROKEN_OFF * _along(line)[-1])
    return OrderMark(outcome, line, NONE, at, line[-1])


def _help(outcome: OrderOutcome, phase: Phase, routes: dict[int, np.ndarray], at: np.ndarray) -> OrderMark:
    """Return the mark of a support or convoy; a successful convoy is a ring, as the army's line shows its course."""
    if outcome.kind == "convoy":
        if outcome.fine:
            return OrderMark(outcome, _EMPTY, RING, at)
        line = _trimmed(_wavy(np.stack([at, _place(outcome.target)])))
    elif outcome.other == NOWHERE:
        line = _trimmed(np.stack([at, _standing(phase, outcome.target)]))
    else:
        line = _to_the_middle(outcome, phase, routes, at)
    cross = None if outcome.fine else _part(line, 0.0, 0.5 * _along(line)[-1])[-1]
    return OrderMark(outcome, line, DOT, at, cross)


def _to_the_middle(outcome: OrderOutcome, phase: Phase, routes: dict[int, np.ndarray], at: np.ndarray) -> np.ndarray:
    """Return the line from a supporter to the middle of the supported move, ordered or not."""
    mover = int(standard_board().province_of[outcome.other])
    goal = int(standard_board().province_of[outcome.target])
    line = routes.get(mover)
    if line is None or np.hypot(*(line[-1] - _place(goal))) > 60:
        line = _bent(_standing(phase, mover), _place(outcome.target))
    line = _trimmed(line)
    middle = _part(line, 0.0, 0.5 * _along(line)[-1])[-1]
    return _trimmed(np.stack([at, middle]), end=2.0)


def _way(outcome: OrderOutcome) -> np.ndarray:
    """Return the line of a move, from unit position to unit position."""
    if outcome.by_sea is None:
        return _bent(_place(outcome.start), _place(outcome.target))
    return _wavy(np.stack([_place(location) for location in (outcome.start, *outcome.by_sea, outcome.target)]))


def _place(location: int) -> np.ndarray:
    return standard_drawing().units[location]


def _standing(phase: Phase, location: int) -> np.ndarray:
    """Return the position of the unit in a location's province."""
    province = int(standard_board().province_of[location])
    unit = phase["units"][province]
    return _place(unit_location(unit, province) if unit else location)


def _bent(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return a slight curve [9, 2], bent to the left in its direction."""
    across = (end - start)[::-1] * (1, -1)
    height = min(_BEND, _MOST_BEND / max(float(np.hypot(*across)), 1.0))
    share = np.linspace(0, 1, 9)[:, None]
    return start + share * (end - start) + 4 * share * (1 - share) * height * across


def _wavy(corners: np.ndarray) -> np.ndarray:
    """Return a wavy line through `corners` [n, 2]."""
    along = _along(corners)
    steps = np.linspace(0.0, along[-1], max(int(along[-1] / 3), 2))
    line = np.stack([np.interp(steps, along, axis) for axis in corners.T], axis=1)
    across = np.gradient(line, axis=0)[:, ::-1] * (1, -1)
    across /= np.maximum(np.hypot(*across.T), 1e-9)[:, None]
    calm = np.minimum(1, np.minimum(steps, along[-1] - steps) / 24)
    return line + (_HEIGHT * calm * np.sin(2 * np.pi * steps / _WAVE))[:, None] * across


def _trimmed(line: np.ndarray, end: float = UNIT_RADIUS + 3) -> np.ndarray:
    """Return a line without the parts under the units at its ends; a short line keeps its middle."""
    length = _along(line)[-1]
    first = min(UNIT_RADIUS, 0.3 * length)
    return _part(line, first, max(length - end, length * 0.6))


def _along(line: np.ndarray) -> np.ndarray:
    """Return the arc length from the start of a line to each of its points, [n]."""
    return np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])


def _part(line: np.ndarray, first: float, last: float) -> np.ndarray:
    """Return the part between two distances from the start of a line."""
    along = _along(line)
    inner = line[(along > first) & (along < last)]
    ends = [np.array([np.interp(at, along, axis) for axis in line.T]) for at in (first, last)]
    return np.concatenate([ends[:1], inner, ends[1:]])


_EMPTY = np.zeros((0, 2))
