"""A recorded match as an animated GIF, drawn with `envs.dogfight.render`, for viewers without HTML.

All frames share one palette computed from the match, and only the differences between frames are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image
from tqdm import tqdm

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.render import SEAT_COLORS, draw, frame_from_trace
from sparring.eval.dogfight.replay import Recording

TRAIL_SECONDS = 1.2
FLASH_SECONDS = 0.25
HOLD_MS = 2500
"""Duration of the final frame in milliseconds, before the match repeats."""

_COLORS = 64
_PLACES = ((0, 1), (8, 9))  # Columns of x and y for each seat.
_HP = (5, 13)


def write_gif(
    path: str | Path,
    recording: Recording,
    *,
    fps: int = 20,
    size: tuple[int, int] = (600, 400),
    seconds: float | None = None,
    progress: bool = False,
) -> None:
    """Write the match to `path` at real-time speed, creating its folder if missing.

    `fps` is rounded to the GIF resolution, whole hundredths of a second per frame: 20 is exact and 30 becomes 33.
    `seconds` keeps only the end of the match, None all of it; 90 s take about half a minute to write. `progress` shows
    a bar. Raises `ValueError` for an `fps` outside 1 to 50 and for `seconds` that are not positive.
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
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    first = next(pictures)
    first.save(path, save_all=True, append_images=pictures, duration=durations, loop=0, optimize=True)


def result(recording: Recording) -> str:
    """Return the outcome of the match in words."""
    if recording.outcome == 0:
        return "draw"
    return f"{(recording.left, recording.right)[recording.outcome - 1]} wins"


def _rows(length: int, delay: int, seconds: float | None) -> list[int]:
    """Return the rows of the trace to draw: one every `delay` ms of the last `seconds`, and the last row."""
    last = length - 1
    first = 0.0 if seconds is None else max(0.0, last - seconds * rules.TICKS_PER_SECOND)
    return [*np.arange(first, last, delay * rules.TICKS_PER_SECOND / 1000).astype(int).tolist(), last]


def _pictures(recording: Recording, rows: Iterable[int], size: tuple[int, int]) -> Iterator[Image.Image]:
    palette, last = _palette(recording, size), len(recording.rows) - 1
    for row in rows:
        picture = _picture(recording, row, size, banner=result(recording) if row == last else "")
        yield picture.quantize(palette=palette, dither=Image.Dither.NONE)


def _picture(recording: Recording, row: int, size: tuple[int, int], banner: str = "") -> Image.Image:
    since = max(0, row - round(TRAIL_SECONDS * rules.TICKS_PER_SECOND))
    recent = recording.rows[since : row + 1 : 3]
    flash = recording.rows[max(0, row - round(FLASH_SECONDS * rules.TICKS_PER_SECOND)), _HP] > recording.rows[row, _HP]
    frame = frame_from_trace(
        recording.rows[row],
        max_hp=recording.max_hp,
        names=(recording.left, recording.right),
        deadly_ground=recording.rules == "challenge",
        trails=tuple(recent[:, places] for places in _PLACES),
        struck=(bool(flash[0]), bool(flash[1])),
        banner=banner,
    )
    return Image.fromarray(draw(frame, size=size))


def _palette(recording: Recording, size: tuple[int, int]) -> Image.Image:
    """Return the palette of a few frames, with an area of each fighter's colour added so that none is dropped."""
    moments = np.linspace(0, len(recording.rows) - 1, 6).astype(int)
    pictures = [_picture(recording, int(row), size, banner=result(recording)) for row in moments[-1:]]
    pictures += [_picture(recording, int(row), size) for row in moments[:-1]]
    sheet = Image.new("RGB", (size[0], size[1] * len(pictures) + 40 * len(SEAT_COLORS)))
    for index, picture in enumerate(pictures):
        sheet.paste(picture, (0, index * size[1]))
    for index, color in enumerate(SEAT_COLORS):
        sheet.paste(
            color, (0, len(pictures) * size[1] + 40 * index, size[0], len(pictures) * size[1] + 40 * (index + 1))
        )
    return sheet.quantize(_COLORS, method=Image.Quantize.MEDIANCUT)
