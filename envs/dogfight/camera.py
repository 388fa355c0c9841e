"""A camera that follows a fight: the part of the arena that a picture shows, moving smoothly.

The view holds both fighters with room around them, never leaves the arena and is at least `CLOSEST` m high. Its centre
and height approach their targets exponentially, with time constant `TAU`. `camera.js` moves in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparring.envs.dogfight import rules

ASPECT = 2.0 * rules.HALF_WIDTH / rules.HEIGHT
CLOSEST = 240.0
"""Smallest height of a view, m."""
ROOM = 85.0
"""Distance in m between a fighter and the edge of the target view."""
EDGE = 30.0
"""Smallest such distance in m while the camera still moves."""
TAU = 0.6
"""Seconds of the match."""
CUT = 0.6
"""After a step longer than this many seconds of the match, the camera jumps to the target view."""


@dataclass(frozen=True)
class CameraView:
    """Part of the arena: its centre in m, and its height in m; its width is `ASPECT` times that."""

    x: float
    y: float
    height: float


WHOLE = CameraView(0.0, rules.HEIGHT / 2.0, rules.HEIGHT)
Place = tuple[float, float]


class FightCamera:
    """The camera of one match; `wraps` for open sides, across which a view continues."""

    def __init__(self, *, wraps: bool = False) -> None:
        self._period = 2.0 * rules.HALF_WIDTH if wraps else 0.0
        self._view: CameraView | None = None

    def follow(self, fighters: tuple[Place, Place], seconds: float) -> CameraView:
        """Return the view of fighters at (x, y) in m, `seconds` of the match after the last one."""
        target, old = self._wanted(fighters), self._view
        if old is None or not 0.0 <= seconds <= CUT:
            self._view = self._inside(target)
            return self._view
        share = 1.0 - math.exp(-seconds / TAU)
        x = old.x + share * gap(old.x, target.x, self._period)
        y = old.y + share * (target.y - old.y)
        height = old.height + share * (target.height - old.height)
        self._view = self._inside(CameraView(x, y, max(height, self._least(fighters, x, y, EDGE))))
        return self._view

    def _wanted(self, fighters: tuple[Place, Place]) -> CameraView:
        (x0, y0), (x1, y1) = fighters
        x, y = x0 + gap(x0, x1, self._period) / 2.0, (y0 + y1) / 2.0
        return CameraView(x, y, max(self._least(fighters, x, y, ROOM), CLOSEST))

    def _least(self, fighters: tuple[Place, Place], x: float, y: float, room: float) -> float:
        """Return the smallest height at which a view around (x, y) has both fighters, `room` m from its edge."""
        across = max(abs(gap(x, fx, self._period)) + room for fx, _ in fighters)
        return 2.0 * max(across / ASPECT, *(abs(fy - y) + room for _, fy in fighters))

    def _inside(self, view: CameraView) -> CameraView:
        """Move a view into the arena; with open sides only vertically."""
        height = min(view.height, rules.HEIGHT)
        y = min(max(view.y, height / 2.0), rules.HEIGHT - height / 2.0)
        if self._period:
            return CameraView(gap(0.0, view.x, self._period), y, height)
        reach = rules.HALF_WIDTH - ASPECT * height / 2.0
        return CameraView(min(max(view.x, -reach), reach), y, height)


def gap(start: float, end: float, period: float) -> float:
    """Return the way from `start` to `end`, the shorter way round on a circle of `period`; 0 is a line."""
    distance = end - start
    return distance - period * round(distance / period) if period else distance


def constants() -> dict[str, Any]:
    """Return the constants by their names in `camera.js`."""
    return {"aspect": ASPECT, "closest": CLOSEST, "room": ROOM, "edge": EDGE, "tau": TAU, "cut": CUT}
