"""A recorded match as a text file for the flight viewer Tacview (ACMI 2.2).

A line of `#seconds` begins a frame. A line of an object has its number (hexadecimal) and what changed. `T` is longitude
and latitude relative to a reference, altitude (m), roll, pitch and yaw (degrees). The flat world is laid onto the
equator. Missiles and flares are objects with their aircraft as parent. A launch is a message with the numbers of
aircraft and missile. Lost aircraft and missiles that hit are destroyed; other missiles end by a timeout.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sparring.configs.core.files import write_atomically
from sparring.envs.air_combat import rules
from sparring.envs.air_combat.recording import AirRecording, Release

HEADER = (
    "FileType=text/acmi/tacview",
    "FileVersion=2.2",
    "0,ReferenceTime=2000-01-01T12:00:00Z",
    "0,ReferenceLongitude=0",
    "0,ReferenceLatitude=0",
    "0,Title=Air combat",
)
METRES_PER_DEGREE = 111_319.49
"""Of longitude on the equator, and taken for latitude there."""
COLORS = ("Blue", "Red")
FIRST_RELEASE = 0x100
"""Number of the first missile or flare; aircraft are 1, 2, ..."""
TYPES = {"missile": "Type=Weapon+Missile,Name=AIM-9", "flare": "Type=Misc+Decoy+Flare,Name=Flare"}


def acmi_text(recording: AirRecording) -> str:
    """Return a match, ended or not, as the content of a Tacview file."""
    frames: dict[int, list[str]] = {int(tick): [] for tick in recording.ticks}
    for tick, line in (*_aircraft(recording), *_releases(recording)):
        frames.setdefault(tick, []).append(line)
    body = [line for tick in sorted(frames) for line in (f"#{tick * rules.DT:.3f}", *frames[tick])]
    return "\n".join((*HEADER, *body)) + "\n"


def write_acmi(path: Path, recording: AirRecording) -> None:
    """Write a match as a Tacview file, atomically."""
    write_atomically(path, acmi_text(recording))


def _aircraft(recording: AirRecording) -> Iterator[tuple[int, str]]:
    """Yield tick and line of every aircraft's samples until its loss."""
    lost: set[int] = set()
    for row, (tick, planes) in enumerate(zip(recording.ticks.tolist(), recording.planes, strict=True)):
        for seat, plane in enumerate(planes):
            if seat in lost:
                continue
            about = f",{_about(recording, seat)}" if row == 0 else ""
            yield tick, f"{seat + 1:x},{transform(plane)}{about}"
            if plane["hp"] <= 0.0:
                lost.add(seat)
                yield from _ended(tick, "Destroyed", seat + 1)


def _about(recording: AirRecording, seat: int) -> str:
    pilot, color = _escaped(recording.names[seat]), _color(recording, seat)
    return f"Type=Air+FixedWing,Name=F-16C,Pilot={pilot},Color={color}"


def _color(recording: AirRecording, seat: int) -> str:
    """Return the color of a side; the first half of the aircraft is one."""
    return COLORS[2 * seat // len(recording.names)]


def _releases(recording: AirRecording) -> Iterator[tuple[int, str]]:
    """Yield tick and line of missiles and flares, with their launch and their end."""
    end = int(recording.ticks[-1])
    for index, release in enumerate(recording.releases):
        number, before = FIRST_RELEASE + index, None
        for row, tick in enumerate(release.ticks.tolist()):
            line = f"{number:x},{_heading(release.path[row])}"
            if row == 0:
                line += f",{TYPES[release.kind]},Parent={release.seat + 1:x},Color={_color(recording, release.seat)}"
            target = _target(recording, release, row)
            yield tick, line + (f",LockedTarget={target:x}" if target != before and target is not None else "")
            before = target
            if row == 0 and release.kind == "missile":
                yield tick, f"0,Event=Message|{release.seat + 1:x}|{number:x}|launches a missile"
        last = int(release.ticks[-1])
        if release.hit >= 0:
            yield from _ended(last, "Destroyed", number)
        elif last < end:
            event = "Timeout" if release.kind == "missile" else ""
            yield from _ended(_next(recording, last), event, number)


def _ended(tick: int, event: str, number: int) -> Iterator[tuple[int, str]]:
    if event:
        yield tick, f"0,Event={event}|{number:x}|"
    yield tick, f"-{number:x}"


def _next(recording: AirRecording, tick: int) -> int:
    """Return the tick of the sample after `tick`, where objects last seen at `tick` disappear."""
    return int(recording.ticks[np.searchsorted(recording.ticks, tick, side="right")])


def _target(recording: AirRecording, release: Release, row: int) -> int | None:
    """Return the number of a missile's target: an aircraft, a flare in the air, 0 for nothing, None for flares."""
    target, tick = int(release.targets[row]), int(release.ticks[row])
    if release.kind != "missile":
        return None
    if target < len(recording.names):
        return target + 1
    for index, other in enumerate(recording.releases):
        slot = other.slot == target - len(recording.names)
        if other.kind == "flare" and slot and other.ticks[0] <= tick <= other.ticks[-1]:
            return FIRST_RELEASE + index
    return 0


def transform(plane: Any) -> str:
    """Return a plane's place and angles as the property T, degrees and m."""
    nose, up = plane["nose"].astype(float), plane["up"].astype(float)
    right = np.cross(nose, up)
    yaw = np.degrees(np.arctan2(nose[1], nose[0])) % 360.0
    pitch = np.degrees(np.arcsin(np.clip(-nose[2], -1.0, 1.0)))
    roll = np.degrees(np.arctan2(right[2], -up[2]))
    return _place(plane["pos"], roll, pitch, yaw)


def _heading(row: np.ndarray) -> str:
    """Return the property T of an object that flies along its velocity."""
    north, east, down = (float(part) for part in row[3:])
    return _place(
        row[:3], 0.0, np.degrees(np.arctan2(-down, np.hypot(north, east))), np.degrees(np.arctan2(east, north)) % 360.0
    )


def _place(pos: Any, *angles: float) -> str:
    north, east, down = (float(part) for part in pos)
    coordinates = f"{east / METRES_PER_DEGREE:.7f}|{north / METRES_PER_DEGREE:.7f}|{-down:.2f}"
    return f"T={coordinates}|" + "|".join(f"{round(float(angle), 2) + 0.0:.2f}" for angle in angles)  # no -0.00


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(",", "\\,").replace("\n", " ")
