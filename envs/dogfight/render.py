"""Pictures of a match, drawn with Pillow: arena, fighters, bullets, hp, speed, clock.

A `Frame` holds the content, in the units of the rules; `frame_from_trace` makes one from a row of the batch's trace.
Pictures are drawn at twice the size and shrunk, for smooth edges. Colours are from the Okabe-Ito palette, which is safe
for colour-blind readers. Needs neither torch nor Warp.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sparring.envs.dogfight import rules

Color = tuple[int, int, int]

SEAT_COLORS: tuple[Color, Color] = ((240, 165, 40), (86, 180, 233))
BACKGROUND: Color = (11, 15, 23)
SKY: Color = (17, 24, 37)
BAND: Color = (25, 36, 54)
GRID: Color = (24, 33, 49)
GROUND: Color = (58, 66, 56)
DEADLY: Color = (204, 84, 66)
INK: Color = (226, 232, 240)
DIM: Color = (110, 122, 141)
STALL: Color = (240, 110, 170)

FIGHTER_COLUMNS = 8
"""Columns of a trace row per fighter: x, y, cos_yaw, sin_yaw, speed, hp, cooldown, stall."""
BULLET_COLUMNS = 3
"""Columns of a trace row per bullet: x, y, life."""
FIRST_BULLET = 2 * FIGHTER_COLUMNS
TICK = FIRST_BULLET + 2 * rules.BULLETS_PER_FIGHTER * BULLET_COLUMNS

_SUPERSAMPLE = 2
_STRIP = 0.1  # The share of the height that the strip with hp and clock takes.
_FIGHTER_SCALE = 2.0  # Fighters are drawn larger than they are, else a heading cannot be seen.
_SILHOUETTE = ((1.3, 0.0), (-0.9, 0.85), (-0.45, 0.0), (-0.9, -0.85))  # Nose along +x, in radii.


@dataclass(frozen=True)
class FighterView:
    """One fighter: position in m, yaw in rad counter-clockwise from +x, speed in m/s."""

    x: float
    y: float
    yaw: float
    speed: float
    hp: int
    stalled: bool


@dataclass(frozen=True)
class BulletView:
    """A bullet in flight: position in m and the seat that fired it."""

    x: float
    y: float
    seat: int


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
    banner: str = ""


def frame_from_trace(
    row: np.ndarray,
    *,
    max_hp: int | None = None,
    names: tuple[str, str] = Frame.names,
    deadly_ground: bool = False,
    trails: tuple[np.ndarray, ...] = (),
    struck: tuple[bool, bool] = (False, False),
    banner: str = "",
) -> Frame:
    """Return the frame of one row of `DogfightBatch.trace`, float32 [29]; raises `ValueError` for another length.

    The trace does not hold `max_hp`; None takes the default, or a fighter's hp if larger.
    """
    values = [float(value) for value in row]
    if len(values) != TICK + 1:
        raise ValueError(f"a trace row has {TICK + 1} columns, this one has {len(values)}")
    fighters = (_fighter(values[:FIGHTER_COLUMNS]), _fighter(values[FIGHTER_COLUMNS:FIRST_BULLET]))
    most = max(Frame.max_hp, *(fighter.hp for fighter in fighters)) if max_hp is None else max_hp
    bullets = tuple(_bullets(values[FIRST_BULLET:TICK]))
    return Frame(fighters, bullets, int(values[TICK]), most, names, deadly_ground, trails, struck, banner)


def draw(frame: Frame, *, size: tuple[int, int] = (600, 400)) -> np.ndarray:
    """Draw a frame, uint8 [H, W, 3]; `size` is (W, H) in pixels. Raises `ValueError` below 64 pixels."""
    if min(size) < 64:
        raise ValueError(f"size={size}: a picture needs at least 64 x 64 pixels")
    canvas = _FrameCanvas(size)
    canvas.arena(deadly_ground=frame.deadly_ground)
    for color, trail in zip(SEAT_COLORS, frame.trails, strict=False):
        canvas.trail(trail, color)
    for bullet in frame.bullets:
        canvas.disc(bullet.x, bullet.y, rules.BULLET_RADIUS, SEAT_COLORS[bullet.seat])
    for seat in range(2):
        canvas.fighter(frame.fighters[seat], SEAT_COLORS[seat], struck=frame.struck[seat])
    canvas.strip(frame)
    if frame.banner:
        canvas.banner(frame.banner)
    return np.asarray(canvas.image.resize(size, Image.Resampling.BOX))


def to_pixels(x: float, y: float, size: tuple[int, int] = (600, 400)) -> tuple[float, float]:
    """Convert a point of the arena, m, to pixels from the upper left of a picture of `size` (W, H)."""
    width, height = size
    strip = height * _STRIP
    scale = min(width / (2 * rules.HALF_WIDTH), (height - strip) / rules.HEIGHT)
    left = (width - 2 * rules.HALF_WIDTH * scale) / 2
    top = strip + (height - strip - rules.HEIGHT * scale) / 2
    return left + (x + rules.HALF_WIDTH) * scale, top + (rules.HEIGHT - y) * scale


def _fighter(values: Sequence[float]) -> FighterView:
    x, y, cos_yaw, sin_yaw, speed, hp, _, stall = values
    return FighterView(x, y, math.atan2(sin_yaw, cos_yaw), speed, int(hp), stall > 0)


def _bullets(values: Sequence[float]) -> Iterable[BulletView]:
    for slot in range(2 * rules.BULLETS_PER_FIGHTER):
        x, y, life = values[slot * BULLET_COLUMNS : (slot + 1) * BULLET_COLUMNS]
        if life > 0:
            yield BulletView(x, y, slot // rules.BULLETS_PER_FIGHTER)


@lru_cache(maxsize=16)
def _font(pixels: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(pixels)


class _FrameCanvas:
    """Drawing surface in supersampled pixels; positions are in m."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = (size[0] * _SUPERSAMPLE, size[1] * _SUPERSAMPLE)
        self.image = Image.new("RGB", self.size, BACKGROUND)
        self.pen = ImageDraw.Draw(self.image)
        self.unit = self.at(1.0, 0.0)[0] - self.at(0.0, 0.0)[0]  # Pixels per metre.

    def at(self, x: float, y: float) -> tuple[float, float]:
        return to_pixels(x, y, self.size)

    def box(self, left: float, bottom: float, right: float, top: float, color: Color) -> None:
        self.pen.rectangle([self.at(left, top), self.at(right, bottom)], fill=color)

    def disc(self, x: float, y: float, radius: float, color: Color) -> None:
        self.pen.circle(self.at(x, y), max(radius * self.unit, 1.5 * _SUPERSAMPLE), fill=color)

    def arena(self, *, deadly_ground: bool) -> None:
        """Draw sky, the bands in which the walls push, a grid every 100 m, and the ground."""
        half, height, band = rules.HALF_WIDTH, rules.HEIGHT, rules.WALL_BAND
        self.box(-half, 0, half, height, SKY if deadly_ground else BAND)
        if not deadly_ground:
            self.box(-half + band, band, half - band, height - band, SKY)
        for metres in range(100, int(height), 100):
            self.pen.line([self.at(-half, metres), self.at(half, metres)], fill=GRID, width=_SUPERSAMPLE)
        for metres in range(int(-half) + 100, int(half), 100):
            self.pen.line([self.at(metres, 0), self.at(metres, height)], fill=GRID, width=_SUPERSAMPLE)
        self.box(-half, 0, half, rules.CHALLENGE_DEADLY_ALTITUDE, DEADLY if deadly_ground else GROUND)

    def trail(self, points: np.ndarray, color: Color) -> None:
        """Draw positions [K, 2] as a line that fades toward the oldest; jumps across the open sides are left out."""
        for index, (start, end) in enumerate(pairwise(points)):
            if abs(end[0] - start[0]) < rules.HALF_WIDTH:
                faded = _blend(SKY, color, 0.55 * (index + 1) / len(points))
                self.pen.line([self.at(*start), self.at(*end)], fill=faded, width=2 * _SUPERSAMPLE)

    def fighter(self, view: FighterView, color: Color, *, struck: bool) -> None:
        """Draw an arrowhead along the heading; grey when dead, hollow in a stall, ringed when hit."""
        radius = max(rules.FIGHTER_RADIUS * _FIGHTER_SCALE * self.unit, 5.0 * _SUPERSAMPLE)
        x, y = self.at(view.x, view.y)
        cos, sin = math.cos(view.yaw), math.sin(view.yaw)
        outline = [(x + radius * (a * cos - b * sin), y - radius * (a * sin + b * cos)) for a, b in _SILHOUETTE]
        if struck:
            self.pen.circle((x, y), 2.2 * radius, outline=INK, width=2 * _SUPERSAMPLE)
        body = DIM if view.hp <= 0 else BACKGROUND if view.stalled else color
        self.pen.polygon(outline, fill=body, outline=color, width=2 * _SUPERSAMPLE)
        if view.stalled and view.hp > 0:
            self.text((x, y - 2.4 * radius), "STALL", STALL, anchor="mm", height=0.03)

    def strip(self, frame: Frame) -> None:
        """Draw the strip above the arena: name, hp and speed of each fighter, and the clock."""
        width, height = self.size
        row = height * _STRIP
        for seat, (fighter, color) in enumerate(zip(frame.fighters, SEAT_COLORS, strict=True)):
            edge, inward, side = ((0.01 * width, 1, "l"), (0.99 * width, -1, "r"))[seat]
            label = f"{_clip(frame.names[seat], 22)}  {fighter.speed:.0f} m/s"
            self.text((edge, 0.34 * row), label, color, anchor=f"{side}m", height=0.035)
            self._hp(edge, inward, fighter.hp, frame.max_hp, color)
        seconds = frame.tick * rules.DT
        clock = f"{int(seconds // 60)}:{seconds % 60:04.1f}"
        self.text((width / 2, row / 2), clock, INK, anchor="mm", height=0.055)

    def _hp(self, edge: float, inward: int, hp: int, max_hp: int, color: Color) -> None:
        width, row = self.size[0], self.size[1] * _STRIP
        pip = 0.025 * width
        for index in range(max_hp):
            near = edge + inward * index * 1.25 * pip
            left, right = sorted((near, near + inward * pip))
            self.pen.rectangle([left, 0.66 * row, right, 0.86 * row], fill=color if index < hp else BAND)

    def banner(self, words: str) -> None:
        """Draw a line of text across the middle of the arena."""
        x, y = self.at(0.0, 0.62 * rules.HEIGHT)
        half = 0.05 * self.size[1]
        self.pen.rectangle([0, y - half, self.size[0], y + half], fill=BACKGROUND)
        self.text((x, y), _clip(words, 48), INK, anchor="mm", height=0.055)

    def text(self, at: tuple[float, float], words: str, color: Color, *, anchor: str, height: float) -> None:
        """Write `words`; `height` is a share of the picture's height."""
        font = _font(max(round(height * self.size[1]), 8 * _SUPERSAMPLE))
        self.pen.text(at, words, fill=color, font=font, anchor=anchor)


def _blend(below: Color, above: Color, share: float) -> Color:
    r, g, b = (round(low + share * (high - low)) for low, high in zip(below, above, strict=True))
    return r, g, b


def _clip(words: str, length: int) -> str:
    line = " ".join(words.split())
    return line if len(line) <= length else line[: length - 1] + "…"
