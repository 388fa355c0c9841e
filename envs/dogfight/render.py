"""Pictures of a match, drawn with Pillow: arena, aircraft, bullets, hp, speed, clock.

Pictures are drawn at twice the size and shrunk, for smooth edges. Colours are from the Okabe-Ito palette, which is safe
for colour-blind readers. Needs neither torch nor Warp.

The silhouette of an aircraft is in body coordinates, with the nose along +x and the left side along +y; a fighter's
drawn radius is 1. The view is from the side, so a roll shows either the fin (`lift` 1 or -1) or both wings (`lift` 0).
A pilot pulls toward the canopy: `lift` follows the turn, and level flight leans upright. `arena.js` draws the same
shapes with the same `lift`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sparring.envs.dogfight import rules
from sparring.envs.dogfight.camera import ASPECT, WHOLE, CameraView, gap
from sparring.envs.dogfight.frame import TRACER, TURN_TICKS, BulletView, FighterView, Frame

Color = tuple[int, int, int]

SEAT_COLORS: tuple[Color, Color] = ((240, 165, 40), (86, 180, 233))
BACKGROUND: Color = (11, 15, 23)
SKY: Color = (17, 24, 37)
BAND: Color = (25, 36, 54)
GRID: Color = (52, 68, 96)
GROUND: Color = (58, 66, 56)
DEADLY: Color = (204, 84, 66)
INK: Color = (226, 232, 240)
DIM: Color = (110, 122, 141)
STALL: Color = (240, 110, 170)
WHITE: Color = (255, 255, 255)

_SUPERSAMPLE = 2
_STRIP = 0.1  # The share of the height that the strip with hp and clock takes.
_FIGHTER_SCALE = 2.0  # Fighters are drawn larger than they are, else a heading cannot be seen.
_LARGEST = 22.0  # Largest drawn radius of a fighter in pixels, for views of a part of the arena.

Outline = tuple[tuple[float, float], ...]

BODY: Outline = (
    (1.6, 0.0), (1.25, 0.1), (0.6, 0.17), (-0.4, 0.15), (-1.0, 0.08),
    (-1.0, -0.08), (-0.4, -0.15), (0.6, -0.17), (1.25, -0.1),
)  # fmt: skip
WING: Outline = ((0.55, 0.1), (-0.4, 1.0), (-0.7, 1.0), (-0.45, 0.1))
TAIL: Outline = ((-0.6, 0.08), (-0.95, 0.5), (-1.15, 0.5), (-1.0, 0.05))
FIN: Outline = ((-0.3, 0.1), (-0.95, 0.68), (-1.2, 0.68), (-1.0, 0.05))
CANOPY: Outline = ((0.85, 0.08), (0.6, 0.32), (0.25, 0.32), (-0.1, 0.1))

UPRIGHT = 0.6
"""`lift` of level flight without a turn; the wings stay visible at 0.8 of their span."""
FULL_TURN = 2.5
"""Turn rate in rad/s for a full roll of `lift`."""
LEAST_SPAN = 0.3
"""Share of the wings' span that is always drawn."""


def draw(frame: Frame, *, size: tuple[int, int] = (600, 400)) -> np.ndarray:
    """Draw a frame, uint8 [H, W, 3]; `size` is (W, H) in pixels. Raises `ValueError` below 64 pixels."""
    if min(size) < 64:
        raise ValueError(f"size={size}: a picture needs at least 64 x 64 pixels")
    canvas = _FrameCanvas(size, frame.view)
    canvas.arena(deadly_ground=frame.deadly_ground)
    for color, trail in zip(SEAT_COLORS, frame.trails, strict=False):
        canvas.trail(trail, color)
    for bullet in frame.bullets:
        canvas.bullet(bullet)
    for seat in range(2):
        canvas.fighter(frame.fighters[seat], SEAT_COLORS[seat], struck=frame.struck[seat], fired=frame.fired[seat])
    canvas.margins()
    canvas.strip(frame)
    if frame.banner:
        canvas.banner(frame.banner)
    return np.asarray(canvas.image.reduce(_SUPERSAMPLE))


def to_pixels(
    x: float, y: float, size: tuple[int, int] = (600, 400), view: CameraView = WHOLE, *, wraps: bool = False
) -> tuple[float, float]:
    """Convert a point of the arena, m, to pixels from the upper left of a picture of `size` (W, H).

    With `wraps` (open sides) it is the point's copy nearest to the centre of the view.
    """
    scale = _scale(size, view)
    left, top, right, bottom = _window(size)
    across = gap(view.x, x, 2.0 * rules.HALF_WIDTH if wraps else 0.0)
    return (left + right) / 2 + across * scale, (top + bottom) / 2 - (y - view.y) * scale


def _window(size: tuple[int, int]) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of the part of a picture, in pixels, that shows the view."""
    width, height = size
    strip = height * _STRIP
    half = min(width, (height - strip) * ASPECT) / 2
    middle = strip + (height - strip) / 2
    return width / 2 - half, middle - half / ASPECT, width / 2 + half, middle + half / ASPECT


def _scale(size: tuple[int, int], view: CameraView) -> float:
    """Return pixels per metre."""
    left, _, right, _ = _window(size)
    return (right - left) / (ASPECT * view.height)


@lru_cache(maxsize=16)
def _font(pixels: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(pixels)


class _FrameCanvas:
    """Drawing surface in supersampled pixels; positions are in m."""

    def __init__(self, size: tuple[int, int], view: CameraView) -> None:
        self.size, self.view = (size[0] * _SUPERSAMPLE, size[1] * _SUPERSAMPLE), view
        self.image = Image.new("RGB", self.size, BACKGROUND)
        self.pen = ImageDraw.Draw(self.image)
        self.unit = _scale(self.size, view)  # Pixels per metre.
        self.wraps = False

    def at(self, x: float, y: float) -> tuple[float, float]:
        return to_pixels(x, y, self.size, self.view, wraps=self.wraps)

    def level(self, bottom: float, top: float, color: Color) -> None:
        """Fill between two altitudes, over the whole width."""
        self.pen.rectangle([0, self.at(0, top)[1], self.size[0], self.at(0, bottom)[1]], fill=color)

    def arena(self, *, deadly_ground: bool) -> None:
        """Draw sky, the bands in which the walls push, a mark every 100 m, and the ground."""
        half, height, band = rules.HALF_WIDTH, rules.HEIGHT, rules.WALL_BAND
        self.wraps = deadly_ground
        self.level(0, height, SKY if deadly_ground else BAND)
        if not deadly_ground:
            self.pen.rectangle([self.at(-half + band, height - band), self.at(half - band, band)], fill=SKY)
        for y in range(100, int(height), 100):
            for x in range(int(-half) + (0 if deadly_ground else 100), int(half), 100):
                self.cross(*self.at(x, y))
        self.level(0, rules.CHALLENGE_DEADLY_ALTITUDE, DEADLY if deadly_ground else GROUND)

    def cross(self, x: float, y: float) -> None:
        """Draw a mark of the grid. Marks take far fewer bytes of a moving picture than lines do."""
        arm = 3 * _SUPERSAMPLE
        self.pen.line([x - arm, y, x + arm, y], fill=GRID, width=_SUPERSAMPLE)
        self.pen.line([x, y - arm, x, y + arm], fill=GRID, width=_SUPERSAMPLE)

    def margins(self) -> None:
        """Cover what was drawn outside the window of the view."""
        left, top, right, bottom = _window(self.size)
        width, height = self.size
        for box in ((0, 0, width, top), (0, bottom, width, height), (0, 0, left, height), (right, 0, width, height)):
            if box[2] - box[0] >= 1 and box[3] - box[1] >= 1:
                self.pen.rectangle([box[0], box[1], box[2] - 1, box[3] - 1], fill=BACKGROUND)

    def trail(self, points: np.ndarray, color: Color) -> None:
        """Draw positions [K, 2] as a line that fades toward the oldest; jumps across the open sides are left out."""
        for index, (start, end) in enumerate(pairwise(points)):
            start_pixel, end_pixel = self.at(*start), self.at(*end)
            if abs(end_pixel[0] - start_pixel[0]) < rules.HALF_WIDTH * self.unit:
                faded = _blend(SKY, color, 0.55 * (index + 1) / len(points))
                self.pen.line([start_pixel, end_pixel], fill=faded, width=2 * _SUPERSAMPLE)

    def bullet(self, bullet: BulletView) -> None:
        """Draw a bullet with a white core and a tail in the colour of its seat."""
        x, y = self.at(bullet.x, bullet.y)
        color, radius = SEAT_COLORS[bullet.seat], max(rules.BULLET_RADIUS * self.unit, 1.5 * _SUPERSAMPLE)
        radius = min(radius, 3.0 * _SUPERSAMPLE)
        if bullet.angle is not None:
            tail = TRACER * self.unit + 2 * _SUPERSAMPLE
            end = (x - tail * math.cos(bullet.angle), y + tail * math.sin(bullet.angle))
            self.pen.line([(x, y), end], fill=color, width=round(radius))
        self.pen.circle((x, y), radius, fill=color)
        self.pen.circle((x, y), 0.5 * radius, fill=WHITE)

    def fighter(self, view: FighterView, color: Color, *, struck: bool, fired: bool) -> None:
        """Draw an aircraft along its heading; grey when dead, hollow in a stall, ringed when hit."""
        radius = min(
            max(rules.FIGHTER_RADIUS * _FIGHTER_SCALE * self.unit, 5.0 * _SUPERSAMPLE), _LARGEST * _SUPERSAMPLE
        )
        x, y = self.at(view.x, view.y)
        body = DIM if view.hp <= 0 else BACKGROUND if view.stalled else color
        if struck:
            self.pen.circle((x, y), 2.2 * radius, outline=WHITE, width=2 * _SUPERSAMPLE)
        for outline, across, shade in _parts(lift(view.yaw, view.turn), body):
            edge = [_turned(x, y, radius * a, radius * b * across, view.yaw) for a, b in outline]
            self.pen.polygon(edge, fill=shade, outline=color)
        if fired:
            self.pen.circle(_turned(x, y, 1.75 * radius, 0.0, view.yaw), 0.22 * radius, fill=WHITE)
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
        """Draw a line of text across the picture, above its middle."""
        _, top, _, bottom = _window(self.size)
        x, y = self.size[0] / 2, top + 0.38 * (bottom - top)
        half = 0.05 * self.size[1]
        self.pen.rectangle([0, y - half, self.size[0], y + half], fill=BACKGROUND)
        self.text((x, y), _clip(words, 48), INK, anchor="mm", height=0.055)

    def text(self, at: tuple[float, float], words: str, color: Color, *, anchor: str, height: float) -> None:
        """Write `words`; `height` is a share of the picture's height."""
        font = _font(max(round(height * self.size[1]), 8 * _SUPERSAMPLE))
        self.pen.text(at, words, fill=color, font=font, anchor=anchor)


def _parts(roll: float, body: Color) -> Iterable[tuple[Outline, float, Color]]:
    """Yield the shapes of an aircraft from back to front, with a factor on their y and their colour."""
    wings, dark = span(roll), _blend(BACKGROUND, body, 0.7)
    for side in (wings, -wings):
        yield TAIL, side, dark
        yield WING, side, dark
    yield FIN, roll, dark
    yield CANOPY, roll, INK
    yield BODY, 1.0, body


def lift(yaw: float, turn: float) -> float:
    """Return the side in [-1, 1] that the canopy faces, 1 left of the heading; `yaw` in rad, `turn` in rad/s."""
    return min(max(UPRIGHT * math.cos(yaw) + turn / FULL_TURN, -1.0), 1.0)


def span(lift: float) -> float:
    """Return the share of the wings' span that is seen at a roll."""
    return max(LEAST_SPAN, math.sqrt(1.0 - lift * lift))


def shapes() -> dict[str, Any]:
    """Return the outlines and constants by their names in `arena.js`."""
    return {
        "body": BODY,
        "wing": WING,
        "tail": TAIL,
        "fin": FIN,
        "canopy": CANOPY,
        "upright": UPRIGHT,
        "fullTurn": FULL_TURN,
        "leastSpan": LEAST_SPAN,
        "turnTicks": TURN_TICKS,
    }


def _turned(x: float, y: float, ahead: float, left: float, yaw: float) -> tuple[float, float]:
    """Return the pixel `ahead` and `left` of one, both in pixels, for a heading of `yaw`."""
    cos, sin = math.cos(yaw), math.sin(yaw)
    return x + ahead * cos - left * sin, y - ahead * sin - left * cos


def _blend(below: Color, above: Color, share: float) -> Color:
    r, g, b = (round(low + share * (high - low)) for low, high in zip(below, above, strict=True))
    return r, g, b


def _clip(words: str, length: int) -> str:
    line = " ".join(words.split())
    return line if len(line) <= length else line[: length - 1] + "…"
