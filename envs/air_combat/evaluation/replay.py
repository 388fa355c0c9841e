"""Replays of air combat in three dimensions, on a self-contained HTML page (`replay.html`) without network requests.

For each match it has the aircraft's positions and attitudes at every step (15 a second, about 90 KB per minute). It
also has bursts of the guns, missiles, flares and events. Between samples the page interpolates by a cubic with the
velocities of both. Vectors of the page are east, up and south. It draws with three.js (`three/three.min.js`, with its
licence), in WebGL.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparring.configs.core.files import write_atomically
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.airframe.missile import WARNING_RANGE
from sparring.envs.air_combat.recording import AirRecording, Release
from sparring.eval.command import fill_page, join_files

PASS_DISTANCE = 400.0
"""A closest approach within this distance in m is an event."""
FIRE_GAP = 30
"""Ticks without a new burst that end a firing event."""
GROUND_WITHIN = 5.0
"""An aircraft lost within this height in m hit the ground: with teams the last sample is not exact."""
HIT_GAP = 15
"""Ticks without damage that end a hit event."""
FLARE_GAP = 90
"""Ticks without a new flare that end a flare event."""
_FOLDER = Path(__file__).parent
_UNIT = 32767.0
_SCALARS = (("load", 100.0), ("roll_rate", 1e3), ("alpha", 1e4), ("power", 100.0), ("hp", _UNIT), ("rounds", 1.0))
_VECTORS = (("pos", 2), ("vel", 2), ("nose", 5), ("up", 5))
Event = dict[str, Any]


def write_air_replay(path: str | Path, recordings: Sequence[AirRecording], *, title: str = "", step: int = 1) -> None:
    """Write the page with all `recordings` to `path` atomically, creating its folder if missing.

    `step` leaves out samples, see `encode`.
    """
    if not recordings:
        raise ValueError("recordings is empty: a replay needs at least one match")
    titles = {recording.title for recording in recordings}
    title = title or (titles.pop() if len(titles) == 1 else f"{len(recordings)} matches")
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(Path(path), air_page(f"{title} · Sparring replay", [encode(match, step) for match in recordings]))


def air_page(title: str, games: list[dict[str, Any]]) -> str:
    """Return the filled template. All texts in `games` are escaped and cannot inject markup."""
    data = {"rules": scene_constants(), "games": games}
    script = join_files(_FOLDER, "flight.js", "replay.js")
    return fill_page(_FOLDER / "replay.html", title=title, data=data, script=script, **scene_parts())


def scene_parts() -> dict[str, str]:
    """Return the style, three.js and drawing code that replay and flying page share, as input of `fill_page`."""
    scene = join_files(_FOLDER, "aircraft.js", "scene.js", "board.js")
    return {
        "style": join_files(_FOLDER, "sky.css"),
        "three": join_files(_FOLDER / "three", "three.min.js"),
        "scene": scene,
    }


def scene_constants() -> dict[str, Any]:
    """Return the constants of the rules that drawing needs, by their names in the pages."""
    return {
        "ticksPerSecond": rules.TICKS_PER_SECOND,
        "roundDrag": rules.ROUND_DRAG,
        "roundTicks": rules.ROUND_TICKS,
        "roundSpeed": rules.ROUND_SPEED,
        "coneCos": rules.CONE_COS,
        "coneFar": rules.CONE_FAR,
        "floor": rules.FLOOR,
        "ceiling": rules.CEILING,
        "warningRange": WARNING_RANGE,
    }


def encode(recording: AirRecording, step: int = 1) -> dict[str, Any]:
    """Return a recording in the format of the page: names, ticks, samples (base64), bursts, and events.

    Of the samples, each `step`-th and the last two are kept; events are found in all.
    """
    last = len(recording.ticks) - 1
    indices = sorted({*range(0, last, step), max(last - 1, 0), last})
    planes = recording.planes[indices]
    return {
        "title": recording.title,
        "notes": recording.notes,
        "names": list(recording.names),
        "model": recording.model,
        "gun": recording.gun,
        "outcome": recording.outcome,
        "ticks": recording.ticks[indices].tolist(),
        "places": _text(_east_up_south(planes["pos"]).astype("<f4")),
        "states": _text(_states(planes)),
        "bursts": [
            [burst.seat, burst.first, burst.last, int(burst.early), *_rounded(burst.pos), *_rounded(burst.vel)]
            for burst in recording.bursts
        ],
        "carried": list(recording.carried),
        "releases": [_release(release, step) for release in recording.releases],
        "events": sorted(_events(recording), key=lambda event: event["tick"]),
    }


def _release(release: Release, step: int) -> dict[str, Any]:
    """Return a missile or a flare: its samples' ticks and places (base64), and the aircraft it hit or -1."""
    last = len(release.ticks) - 1
    indices = sorted({*range(0, last, step), last})
    return {
        "kind": release.kind,
        "seat": release.seat,
        "hit": release.hit,
        "ticks": release.ticks[indices].tolist(),
        "places": _text(_east_up_south(release.path[indices, :3]).astype("<f4")),
    }


def _states(planes: np.ndarray) -> np.ndarray:
    """Return little-endian int16 [T, P, 15].

    Velocity (0.05 m/s), nose and roof (unit), load (0.01 g), roll rate (0.001 rad/s), alpha (0.0001 rad), power (0.01),
    hp (unit), rounds.
    """
    vectors = [
        (_east_up_south(planes["vel"]), 20.0),
        (_east_up_south(planes["nose"]), _UNIT),
        (_east_up_south(planes["up"]), _UNIT),
    ]
    columns = [vector * scale for vector, scale in vectors]
    columns += [planes[name][..., None].astype(np.float64) * scale for name, scale in _SCALARS]
    return np.clip(np.rint(np.concatenate(columns, axis=-1)), -_UNIT, _UNIT).astype("<i2")


def _east_up_south(vectors: np.ndarray) -> np.ndarray:
    """Return vectors in north, east and down along the axes of the page."""
    north, east, down = np.moveaxis(vectors.astype(np.float64), -1, 0)
    return np.stack([east, -down, -north], axis=-1)


def plane_row(plane: Any) -> list[float]:
    """Return one aircraft for a page: place, velocity, nose, roof, and the scalars in the order of `_SCALARS`."""
    vectors = [part for name, digits in _VECTORS for part in _rounded(plane[name], digits)]
    return vectors + [round(float(plane[name]), 4) for name, _ in _SCALARS]


def burst_row(burst: Any) -> list[float]:
    """Return place and velocity of a burst for a page."""
    return [*_rounded(burst["pos"], 1), *_rounded(burst["vel"], 1)]


def _rounded(vector: Any, digits: int = 1) -> list[float]:
    return [round(float(part), digits) + 0.0 for part in _east_up_south(np.asarray(vector))]


def _text(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode("ascii")


def _events(recording: AirRecording) -> Iterator[Event]:
    """Yield events: `tick`, `end` where one lasts, `kind`, `seat` (who fires, is hit, is lost), and details."""
    for seat in range(len(recording.names)):
        yield from _fired(recording, seat)
        yield from _released(recording, seat)
        yield from _hits(recording, seat)
    if len(recording.names) == 2:
        yield from _passes(recording)


def _fired(recording: AirRecording, seat: int) -> Iterator[Event]:
    """Yield firing events of the gun; the cone never fires."""
    spent = -np.diff(recording.planes["rounds"][:, seat], prepend=recording.planes["rounds"][0, seat])
    for rows in _groups(recording.ticks, spent > 0, FIRE_GAP):
        first, last = int(recording.ticks[rows[0] - 1]), int(recording.ticks[rows[-1]])
        yield {"kind": "fire", "seat": seat, "tick": first, "end": last, "rounds": int(spent[rows].sum())}


def _released(recording: AirRecording, seat: int) -> Iterator[Event]:
    """Yield launches, groups of flares, and turns of the seat's missiles to a flare."""
    releases = [release for release in recording.releases if release.seat == seat]
    missiles, flares = ([release for release in releases if release.kind == kind] for kind in ("missile", "flare"))
    for count, missile in enumerate(missiles, start=1):
        yield {
            "kind": "launch",
            "seat": seat,
            "tick": int(missile.ticks[0]),
            "left": max(recording.carried[0] - count, 0),
        }
        for row in missile.decoys(len(recording.names)):
            yield {"kind": "decoy", "seat": seat, "tick": int(missile.ticks[row])}
    dropped = np.array([int(release.ticks[0]) for release in flares], dtype=int)
    for rows in _groups(dropped, np.ones(len(dropped), dtype=bool), FLARE_GAP):
        first, last = int(dropped[rows[0]]), int(dropped[rows[-1]])
        yield {"kind": "flares", "seat": seat, "tick": first, "end": last, "count": len(rows)}


def _hits(recording: AirRecording, seat: int) -> Iterator[Event]:
    """Yield hits, by a missile or otherwise, and the loss of the aircraft with its cause.

    Causes are gun, missile, ground and ceiling.
    """
    hp = recording.planes["hp"][:, seat].astype(np.float64)
    lost = -np.diff(hp, prepend=hp[0])
    height = -float(recording.planes["pos"][-1, seat, 2])
    down = int(np.argmax(hp <= 0.0)) if (hp <= 0.0).any() else None
    cause = "ground" if height < rules.FLOOR + GROUND_WITHIN else "ceiling" if height > rules.CEILING - 60.0 else "gun"
    struck = {
        int(np.searchsorted(recording.ticks, release.ticks[-1])): int(release.ticks[-1])
        for release in recording.releases
        if release.hit == seat
    }
    if cause == "gun" and down in struck:
        cause = "missile"
    by_gun = lost > 1e-6
    for row, tick in struck.items():
        by_gun[row] = False
        remaining, part = round(float(hp[row]), 3), round(float(lost[row]), 3)
        yield {"kind": "hit", "seat": seat, "tick": tick, "by": "missile", "lost": part, "hp": remaining}
    for rows in _groups(recording.ticks, by_gun, HIT_GAP):
        if cause in ("ground", "ceiling") and down in rows:
            rows = rows[rows != down]
        if rows.size:
            first, last = int(recording.ticks[rows[0] - 1]), int(recording.ticks[rows[-1]])
            remaining, part = round(float(hp[rows[-1]]), 3), round(float(lost[rows].sum()), 3)
            yield {"kind": "hit", "seat": seat, "tick": first, "end": last, "lost": part, "hp": remaining}
    if down is not None:
        yield {"kind": "down", "seat": seat, "tick": int(recording.ticks[down]), "cause": cause}


def _passes(recording: AirRecording) -> Iterator[Event]:
    """Yield closest approaches for both aircraft: a merge or an overshoot."""
    position = recording.planes["pos"].astype(np.float64)
    distance = np.linalg.norm(position[:, 1] - position[:, 0], axis=-1)
    near = (distance[1:-1] < distance[:-2]) & (distance[1:-1] <= distance[2:]) & (distance[1:-1] < PASS_DISTANCE)
    for row in np.flatnonzero(near) + 1:
        yield {"kind": "pass", "seat": -1, "tick": int(recording.ticks[row]), "distance": round(float(distance[row]))}


def _groups(ticks: np.ndarray, marked: np.ndarray, gap: int) -> Iterator[np.ndarray]:
    """Yield the rows of each group of `marked` rows that are at most `gap` ticks apart."""
    rows = np.flatnonzero(marked)
    if rows.size:
        yield from np.split(rows, np.flatnonzero(np.diff(ticks[rows]) > gap) + 1)
