"""Replays of recorded matches for the browser, on a self-contained HTML page.

The page (`replay.html`) makes no network requests. For each match it contains the fighters' trajectories at 40 samples
per second, as base64 of 16-bit integers (about 100 KB for 90 s). Events have their exact tick: shots, hits, glances off
the armour, stalls, deaths. Bullets fly straight, so position and tick of start and end are enough to draw one at any
time.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sparring.configs.core.files import write_atomically
from sparring.envs.dogfight import camera, render
from sparring.envs.dogfight import rules as game
from sparring.envs.dogfight.recording import Recording, short_names
from sparring.envs.dogfight.rules import TRACE_FIELDS
from sparring.eval.command import fill_page, join_files

SAMPLE_TICKS = 3
"""Ticks between trajectory samples: 40 samples per second."""
_FOLDER = Path(__file__).parent

_SLOTS = 2 * game.BULLETS_PER_FIGHTER
_HEADING_STEPS = 32768 / np.pi  # One turn is the full 16-bit range, so headings wrap around.
_COLUMN = {name: index for index, name in enumerate(TRACE_FIELDS)}


def write_replay(path: str | Path, recordings: list[Recording]) -> None:
    """Write the page with all `recordings` to `path` atomically, creating its folder if missing."""
    if not recordings:
        raise ValueError("recordings is empty: a replay needs at least one match")
    names = {recording.title for recording in recordings}
    title = names.pop() if len(names) == 1 else f"{len(recordings)} matches"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(Path(path), page(f"{title} · Sparring replay", [encode(recording) for recording in recordings]))


def page(title: str, games: list[dict[str, Any]]) -> str:
    """Return the filled template. The title and the names in `games` are escaped and cannot inject markup."""
    data = {"rules": arena_constants(), "games": games}
    return fill_page(_FOLDER / "replay.html", title=title, data=data, **arena_parts())


def arena_parts() -> dict[str, str]:
    """Return the style and drawing code shared by all dogfight pages, as input of `fill_page`."""
    arena = join_files(_FOLDER, "camera.js", "aircraft.js", "arena.js")
    return {"style": join_files(_FOLDER, "arena.css"), "arena": arena}


def encode(recording: Recording) -> dict[str, Any]:
    """Return a recording in the format of the page: names, ticks, trajectories (base64), bullets, and events."""
    rows = recording.rows
    return {
        "title": recording.title,
        "names": [recording.left, recording.right],
        "short": short_names(recording.left, recording.right),
        "rules": recording.rules,
        "regime": recording.regime,
        "maxHp": recording.max_hp,
        "outcome": recording.outcome,
        "ticks": len(rows),
        "samples": base64.b64encode(_samples(rows).tobytes()).decode("ascii"),
        "bullets": sorted(_bullets(rows, wraps=recording.rules == "challenge")),
        "events": sorted(_events(rows), key=lambda event: event["tick"]),
    }


def arena_constants() -> dict[str, Any]:
    """Return the constants of the rules that drawing needs, by their names in the pages."""
    return {
        "ticksPerSecond": game.TICKS_PER_SECOND,
        "sampleTicks": SAMPLE_TICKS,
        "halfWidth": game.HALF_WIDTH,
        "height": game.HEIGHT,
        "wallBand": game.WALL_BAND,
        "fighterRadius": game.FIGHTER_RADIUS,
        "bulletRadius": game.BULLET_RADIUS,
        "deadlyAltitude": game.CHALLENGE_DEADLY_ALTITUDE,
        "camera": camera.constants(),
        "aircraft": render.shapes(),
    }


def _samples(rows: np.ndarray) -> np.ndarray:
    """Return little-endian int16 [S, 2, 4]: x and y in 0.1 m, heading (65,536 per turn), speed in 0.1 m/s.

    Samples are rows 0, 3, 6, ... and always the last row.
    """
    track = rows[_sampled(len(rows))]
    per_seat = []
    for seat in range(2):
        x, y, cos, sin, speed = (
            track[:, _COLUMN[f"{name}_{seat}"]].astype(np.float64) for name in ("x", "y", "cos_yaw", "sin_yaw", "speed")
        )
        heading = np.arctan2(sin, cos) * _HEADING_STEPS
        per_seat.append(np.stack([10 * x, 10 * y, heading, 10 * speed], axis=-1))
    rounded = np.rint(np.stack(per_seat, axis=1)).astype(np.int64)
    return rounded.astype("<i2")  # A heading of exactly +pi wraps to -pi.


def _sampled(length: int) -> np.ndarray:
    indices = np.arange(0, length, SAMPLE_TICKS)
    return indices if indices[-1] == length - 1 else np.append(indices, length - 1)


def _bullets(rows: np.ndarray, *, wraps: bool) -> Iterator[list[float]]:
    """Yield each bullet's straight path as [first tick, last tick, x0, y0, x1, y1, seat], positions in m.

    With `wraps` the end is unwrapped, without the jump at the open sides.
    """
    life = rows[:, [_COLUMN[f"bullet_{slot}_life"] for slot in range(_SLOTS)]]
    before = np.vstack([np.zeros(_SLOTS), life[:-1]])
    starts = (life > 0) & (life != before - 1)
    after = np.vstack([life[1:], np.zeros(_SLOTS)])
    ends = (life > 0) & ((after == 0) | (after != life - 1))
    for slot in range(_SLOTS):
        x, y = rows[:, _COLUMN[f"bullet_{slot}_x"]], rows[:, _COLUMN[f"bullet_{slot}_y"]]
        for first, last in zip(np.flatnonzero(starts[:, slot]), np.flatnonzero(ends[:, slot]), strict=True):
            x1 = np.unwrap(x[first : last + 1].astype(float), period=2 * game.HALF_WIDTH)[-1] if wraps else x[last]
            segment = [round(float(value), 1) for value in (x[first], y[first], x1, y[last])]
            yield [int(first) + 1, int(last) + 1, *segment, slot // game.BULLETS_PER_FIGHTER]


def _events(rows: np.ndarray) -> Iterator[dict[str, Any]]:
    """Yield events: `tick`, `kind`, the affected `seat` (for a shot: the shooter), and details."""
    for seat in range(2):
        yield from _shots(rows, seat)
        yield from _losses(rows, seat)
        yield from _stalls(rows, seat)
        yield from _glances(rows, seat)


def _shots(rows: np.ndarray, seat: int) -> Iterator[dict[str, Any]]:
    """Yield shots: the cooldown rises only when the gun fires."""
    cooldown = rows[:, _COLUMN[f"cooldown_{seat}"]]
    for row in np.flatnonzero(np.diff(cooldown, prepend=0.0) > 0):
        yield {"tick": int(row) + 1, "kind": "shot", "seat": seat}


def _losses(rows: np.ndarray, seat: int) -> Iterator[dict[str, Any]]:
    """Yield losses of hp: `hit`, or `death` at 0; `hp` is the remainder."""
    hp = rows[:, _COLUMN[f"hp_{seat}"]]
    for row in np.flatnonzero(np.diff(hp, prepend=hp[0]) < 0):
        remaining = int(hp[row])
        yield {"tick": int(row) + 1, "kind": "hit" if remaining > 0 else "death", "seat": seat, "hp": remaining}


def _stalls(rows: np.ndarray, seat: int) -> Iterator[dict[str, Any]]:
    """Yield uninterrupted stalls; `end` is the first tick after one."""
    stalled = np.pad(rows[:, _COLUMN[f"stall_{seat}"]] > 0, 1).astype(np.int8)
    change = np.diff(stalled)
    for first, end in zip(np.flatnonzero(change > 0), np.flatnonzero(change < 0), strict=True):
        yield {"tick": int(first) + 1, "kind": "stall", "seat": seat, "end": int(end) + 1}


def _glances(rows: np.ndarray, seat: int) -> Iterator[dict[str, Any]]:
    """Yield bullets of the other seat that vanished before their lifetime ended while `seat` lost no hp."""
    first = (1 - seat) * game.BULLETS_PER_FIGHTER
    slots = range(first, first + game.BULLETS_PER_FIGHTER)
    life = rows[:, [_COLUMN[f"bullet_{slot}_life"] for slot in slots]]
    consumed = ((life[:-1] > 1) & (life[1:] == 0)).sum(axis=1)
    lost = -np.diff(rows[:, _COLUMN[f"hp_{seat}"]])
    for row in np.flatnonzero(consumed > lost):
        yield {"tick": int(row) + 2, "kind": "glance", "seat": seat}
