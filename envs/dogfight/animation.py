"""Animations of a match: a GIF of a recorded match, and the window of `render_mode="human"`.

All frames of a GIF share one palette computed from the match, and only the differences between frames are stored. The
window shows several pictures of every decision. A camera follows the fight in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tqdm import tqdm

from sparring.configs.core.files import write_atomically
from sparring.envs.dogfight import rules
from sparring.envs.dogfight.camera import FightCamera
from sparring.envs.dogfight.frame import TICK, TRAIL_SECONDS, Frame, frame_at
from sparring.envs.dogfight.recording import Recording, short_names
from sparring.envs.dogfight.render import SEAT_COLORS, draw
from sparring.envs.window import RenderWindow

HOLD_MS = 2500
"""Duration of the final frame in milliseconds, before the match repeats."""

_COLORS = 32
PICTURE_TICKS = 2
"""Ticks between pictures, 60 a second; one decision is at least one picture."""
SIZE = (720, 480)
_KEPT = round(TRAIL_SECONDS * rules.TICKS_PER_SECOND) + 1


def write_gif(path: str | Path, recording: Recording, **options: Any) -> None:
    """Write the match to `path` in one step, creating its folder if missing; `options` are those of `gif_bytes`."""
    data = gif_bytes(recording, **options)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomically(Path(path), data)


def gif_bytes(
    recording: Recording,
    *,
    fps: int = 12,
    size: tuple[int, int] = (480, 320),
    seconds: float | None = None,
    progress: bool = False,
) -> bytes:
    """Return the match as an animated GIF at real-time speed.

    `fps` is rounded to the GIF resolution, whole hundredths of a second per frame: 20 is exact, 12 becomes 12.5.
    `seconds` keeps only the end of the match, None the whole match; 90 s take half a minute to draw and 2.5 MB.
    `progress` shows a bar. Raises `ValueError` for an `fps` outside 1 to 50 and for `seconds` that are not positive.
    """
    if not 1 <= fps <= 50:
        raise ValueError(f"fps={fps}: a GIF plays 1 to 50 pictures a second")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds={seconds}: must be above 0, or None for the whole match")
    delay = 10 * round(100 / fps)
    rows = _rows(len(recording.rows), delay, seconds)
    durations = [delay] * (len(rows) - 1) + [HOLD_MS]
    # Drawn lazily: a list of all frames would take hundreds of MB.
    pictures = _pictures(recording, tqdm(rows, desc="GIF", unit="picture", disable=not progress), size)
    first, written = next(pictures), BytesIO()
    first.save(written, format="GIF", save_all=True, append_images=pictures, duration=durations, loop=0, optimize=True)
    return written.getvalue()


def result(recording: Recording, names: tuple[str, str]) -> str:
    """Describe the outcome of a match between players of these `names`."""
    return "draw" if recording.outcome == 0 else f"{names[recording.outcome - 1]} wins"


def _rows(length: int, delay: int, seconds: float | None) -> list[int]:
    """Return the rows of the trace to draw: one every `delay` ms of the last `seconds`, and the last row."""
    last = length - 1
    first = 0.0 if seconds is None else max(0.0, last - seconds * rules.TICKS_PER_SECOND)
    return [*np.arange(first, last, delay * rules.TICKS_PER_SECOND / 1000).astype(int).tolist(), last]


def frames(recording: Recording, rows: Iterable[int]) -> Iterator[Frame]:
    """Yield the frames of `rows` of a recording, seen by a camera that follows the fight; the last has the result."""
    camera, before = FightCamera(wraps=recording.rules == "challenge"), None
    names = short_names(recording.left, recording.right)
    for row in rows:
        frame = frame_at(
            recording.rows, row, max_hp=recording.max_hp, names=names, deadly_ground=recording.rules == "challenge"
        )
        left, right = ((fighter.x, fighter.y) for fighter in frame.fighters)
        passed = 0.0 if before is None else (row - before) / rules.TICKS_PER_SECOND
        view, before = camera.follow((left, right), passed), row
        ended = row == len(recording.rows) - 1
        yield replace(frame, view=view, banner=result(recording, names) if ended else "")


def _pictures(recording: Recording, rows: Iterable[int], size: tuple[int, int]) -> Iterator[Image.Image]:
    palette = _palette(recording, size)
    for frame in frames(recording, rows):
        yield Image.fromarray(draw(frame, size=size)).quantize(palette=palette, dither=Image.Dither.NONE)


def _palette(recording: Recording, size: tuple[int, int]) -> Image.Image:
    """Return the palette of a few frames; an added area of each fighter's colour keeps it in the palette."""
    moments = np.linspace(0, len(recording.rows) - 1, 6).astype(int).tolist()
    pictures = [Image.fromarray(draw(frame, size=size)) for frame in frames(recording, moments)]
    sheet = Image.new("RGB", (size[0], size[1] * len(pictures) + 40 * len(SEAT_COLORS)))
    for index, picture in enumerate(pictures):
        sheet.paste(picture, (0, index * size[1]))
    for index, color in enumerate(SEAT_COLORS):
        top = len(pictures) * size[1] + 40 * index
        sheet.paste(color, (0, top, size[0], top + 40))
    return sheet.quantize(_COLORS, method=Image.Quantize.MEDIANCUT)


class MatchWindow:
    """Window that shows every step in real time; `wraps` for open sides and deadly ground."""

    def __init__(self, *, action_repeat: int, wraps: bool) -> None:
        self._window = RenderWindow("Sparring: dogfight", human_fps(action_repeat))
        self._wraps = wraps
        self._rows = np.zeros((0, TICK + 1), dtype=np.float32)
        self._camera = FightCamera(wraps=wraps)

    def show(self, rows: np.ndarray, *, max_hp: int, names: tuple[str, str]) -> None:
        """Show the new rows [T, 29] of the trace; a row whose tick does not follow begins another match."""
        if self._window.closed:
            return
        before = self._rows[-1, TICK] if len(self._rows) else -1.0
        if rows[0, TICK] != before + 1:
            self._rows, self._camera = self._rows[:0], FightCamera(wraps=self._wraps)
        old = len(self._rows)
        self._rows = np.concatenate([self._rows, rows])
        for row in range(old + (len(rows) - 1) % PICTURE_TICKS, len(self._rows), PICTURE_TICKS):
            frame = frame_at(self._rows, row, max_hp=max_hp, names=names, deadly_ground=self._wraps)
            left, right = ((fighter.x, fighter.y) for fighter in frame.fighters)
            view = self._camera.follow((left, right), PICTURE_TICKS / rules.TICKS_PER_SECOND)
            self._window.show(draw(replace(frame, view=view), size=SIZE))
        self._rows = self._rows[-_KEPT:]

    def close(self) -> None:
        """Close the window."""
        self._window.close()


def human_fps(action_repeat: int) -> int:
    """Return the pictures per second at which the window shows a match in real time."""
    pictures = -(-action_repeat // PICTURE_TICKS)
    return max(1, round(rules.TICKS_PER_SECOND * pictures / action_repeat))
