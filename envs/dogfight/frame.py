"""Content of a picture of a match: aircraft, bullets and the clock, read from the trace of a batch.

`frame_from_trace` creates a `Frame` from one row of a trace; `frame_at` also uses the neighbouring rows to show turns,
directions of bullets, trails, shots and hits. Needs neither torch nor Warp.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.camera import WHOLE, CameraView

FIGHTER_COLUMNS = 8
"""Columns of a trace row per fighter: x, y, cos_yaw, sin_yaw, speed, hp, cooldown, stall."""
BULLET_COLUMNS = 3
"""Columns of a trace row per bullet: x, y, life."""
FIRST_BULLET = 2 * FIGHTER_COLUMNS
TICK = FIRST_BULLET + 2 * rules.BULLETS_PER_FIGHTER * BULLET_COLUMNS

TRAIL_SECONDS = 1.2
HIT_SECONDS = 0.25
SHOT_SECONDS = 0.08
TRACER = 14.0
"""Length of a bullet's tail, m."""

TURN_TICKS = 6
"""Ticks on either side of a moment over which its turn rate is measured."""

HP = 5
"""Column of a trace row with the hp of seat 0; the hp of seat 1 follows after `FIGHTER_COLUMNS`."""
_COS, _COOLDOWN = 2, 6


@dataclass(frozen=True)
class FighterView:
    """One fighter: position in m, yaw in rad counter-clockwise from +x, speed in m/s, turn in rad/s."""

    x: float
    y: float
    yaw: float
    speed: float
    hp: int
    stalled: bool
    turn: float = 0.0


@dataclass(frozen=True)
class BulletView:
    """A bullet in flight: position in m, the seat that fired it, and its direction in rad, None if unknown."""

    x: float
    y: float
    seat: int
    angle: float | None = None


@dataclass(frozen=True)
class Frame:
    """Content of one picture."""

    fighters: tuple[FighterView, FighterView]
    bullets: tuple[BulletView, ...]
    tick: int
    max_hp: int = int(rules.PARAMETERS[rules.PARAMETER_INDEX["max_hp"]].default)
    names: tuple[str, str] = ("player 0", "player 1")
    deadly_ground: bool = False
    """True if the ground kills and the sides are open, as under challenge rules."""
    trails: tuple[np.ndarray, ...] = ()
    """Per seat the latest positions, [K, 2] in m, oldest first."""
    struck: tuple[bool, bool] = (False, False)
    """Per seat, true to draw the flash of a hit."""
    fired: tuple[bool, bool] = (False, False)
    """Per seat, true to draw the flash of a shot."""
    view: CameraView = WHOLE
    banner: str = ""


def frame_from_trace(
    row: np.ndarray,
    *,
    max_hp: int | None = None,
    names: tuple[str, str] = Frame.names,
    deadly_ground: bool = False,
) -> Frame:
    """Return the frame of one row of `DogfightBatch.trace`, float32 [29]; raises `ValueError` for another length.

    The trace does not hold `max_hp`; None takes the default, or a fighter's hp if larger.
    """
    values = [float(value) for value in row]
    if len(values) != TICK + 1:
        raise ValueError(f"a trace row has {TICK + 1} columns, this one has {len(values)}")
    fighters = (_fighter(values[:FIGHTER_COLUMNS]), _fighter(values[FIGHTER_COLUMNS:FIRST_BULLET]))
    most = max(Frame.max_hp, *(fighter.hp for fighter in fighters)) if max_hp is None else max_hp
    bullets = tuple(bullet for _, bullet in _bullets(values[FIRST_BULLET:TICK]))
    return Frame(fighters, bullets, int(values[TICK]), most, names, deadly_ground)


def frame_at(
    rows: np.ndarray,
    row: int,
    *,
    max_hp: int | None = None,
    names: tuple[str, str] = Frame.names,
    deadly_ground: bool = False,
    trail_seconds: float = TRAIL_SECONDS,
) -> Frame:
    """Return the frame of row `row` of the trace [T, 29] of one match, a row per tick, with what the others show."""
    frame = frame_from_trace(rows[row], max_hp=max_hp, names=names, deadly_ground=deadly_ground)
    seats = (0, FIGHTER_COLUMNS)
    turns = [turn_rate(rows, row, seat + _COS, rules.TICKS_PER_SECOND) for seat in seats]
    left, right = (replace(fighter, turn=turn) for fighter, turn in zip(frame.fighters, turns, strict=True))
    recent = rows[_since(row, trail_seconds) : row + 1 : 3]
    lost = [rows[_since(row, HIT_SECONDS), HP + seat] > rows[row, HP + seat] for seat in seats]
    shots = [np.diff(rows[_since(row, SHOT_SECONDS) : row + 1, _COOLDOWN + seat]) > 0 for seat in seats]
    return replace(
        frame,
        fighters=(left, right),
        bullets=tuple(_flying(rows, row)),
        trails=tuple(recent[:, seat : seat + 2] for seat in seats) if trail_seconds else (),
        struck=(bool(lost[0]), bool(lost[1])),
        fired=(bool(shots[0].any()), bool(shots[1].any())),
    )


def turn_rate(rows: np.ndarray, row: int, cos: int, ticks_per_second: int) -> float:
    """Return the turn rate, rad/s, at `row` of a trace with the heading's cosine in column `cos` and sine in the next.

    The difference of the headings `TURN_TICKS` before and after, counter-clockwise; shorter at the ends.
    """
    first, last = max(row - TURN_TICKS, 0), min(row + TURN_TICKS, len(rows) - 1)
    if first == last:
        return 0.0
    (c0, s0), (c1, s1) = rows[first, cos : cos + 2].astype(float), rows[last, cos : cos + 2].astype(float)
    return math.atan2(c0 * s1 - s0 * c1, c0 * c1 + s0 * s1) * ticks_per_second / (last - first)


def _since(row: int, seconds: float) -> int:
    return max(0, row - round(seconds * rules.TICKS_PER_SECOND))


def _fighter(values: Sequence[float]) -> FighterView:
    x, y, cos_yaw, sin_yaw, speed, hp, _, stall = values
    return FighterView(x, y, math.atan2(sin_yaw, cos_yaw), speed, int(hp), stall > 0)


def _bullets(values: Sequence[float]) -> Iterable[tuple[int, BulletView]]:
    """Yield the slot and the view of each bullet in flight."""
    for slot in range(2 * rules.BULLETS_PER_FIGHTER):
        x, y, life = values[slot * BULLET_COLUMNS : (slot + 1) * BULLET_COLUMNS]
        if life > 0:
            yield slot, BulletView(x, y, slot // rules.BULLETS_PER_FIGHTER)


def _flying(rows: np.ndarray, row: int) -> Iterable[BulletView]:
    """Yield the bullets at a row with the directions of their last movement."""
    old = dict(_bullets(rows[max(row - 1, 0), FIRST_BULLET:TICK].tolist()))
    for slot, bullet in _bullets(rows[row, FIRST_BULLET:TICK].tolist()):
        x, y = (bullet.x - old[slot].x, bullet.y - old[slot].y) if slot in old else (0.0, 0.0)
        # A longer way is a jump across the open sides, or another bullet in the same slot.
        yield replace(bullet, angle=math.atan2(y, x)) if 0.0 < math.hypot(x, y) < TRACER else bullet
