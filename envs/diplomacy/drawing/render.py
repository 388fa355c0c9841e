"""Images of a position of Diplomacy, and a game as an animated GIF, drawn with Pillow; needs neither torch nor Warp.

An army is a rectangle with a cross in it, a fleet a hull with a sail, both in their power's colour. A supply centre is
a disc, and the land around it is tinted in its owner's colour. Orders are drawn if given. The image is drawn at twice
the size and reduced, which smooths edges. A GIF has every movement phase with its orders, and the final position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from io import BytesIO
from itertools import pairwise

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sparring.envs.diplomacy.board import codes
from sparring.envs.diplomacy.board.board import standard_board
from sparring.envs.diplomacy.drawing import arrows, outlines, palette
from sparring.envs.diplomacy.drawing.palette import INK, Color
from sparring.envs.diplomacy.orders.notation import unit_location
from sparring.envs.diplomacy.records.timeline import Phase, order_outcomes, phase_title
from sparring.envs.diplomacy.validation import check_row

HULL = ((-11, 2), (11, 2), (6, 9), (-6, 9))
SAIL = ((-2, 0), (-2, -10), (7, 0))
_SUPERSAMPLE = 2
_BORDERS = {
    outlines.COAST_LINE: (palette.COAST_INK, 1.4),
    outlines.LAND_BORDER: (palette.LAND_INK, 1.0),
    outlines.SEA_BORDER: (palette.SEA_INK, 1.0),
}
_DASHES = {"support": (7.0, 5.0), "retreat": (2.5, 4.0)}
COLORS = 48
PHASE_MS, HOLD_MS = 700, 3000
"""Time per picture and of the last picture, in milliseconds."""


def draw_position(
    units: Sequence[int] | np.ndarray,
    owner: Sequence[int] | np.ndarray,
    *,
    dislodged: Sequence[int] | np.ndarray = (),
    orders: Iterable[arrows.OrderMark] = (),
    size: tuple[int, int] = (outlines.WIDTH, outlines.HEIGHT),
) -> np.ndarray:
    """Return the image of a position, uint8 [H, W, 3]; `size` is (W, H), and the map keeps its proportions.

    `units` and `dislodged` are [75] unit codes, `owner` [34] the powers that own the centres, -1 for none; `orders`
    are those of `arrows.marks`. Raises `InputError` for rows of another length or numbers out of range.
    """
    check_row("units", units, codes.NUM_PROVINCES, 0, codes.NUM_POWERS * 4)
    check_row("owner", owner, codes.NUM_CENTRES, -1, codes.NUM_POWERS - 1)
    if len(dislodged):
        check_row("dislodged", dislodged, codes.NUM_PROVINCES, 0, codes.NUM_POWERS * 4)
    canvas = _MapCanvas(size)
    canvas.board(owner)
    for province, unit in enumerate(dislodged):
        if unit:
            canvas.unit(int(unit), province, arrows.DISLODGED_SHIFT)
    for province, unit in enumerate(units):
        if unit:
            canvas.unit(int(unit), province)
    for mark in orders:
        canvas.mark(mark)
    return np.asarray(canvas.image.resize(size, Image.Resampling.BOX))


@lru_cache(maxsize=16)
def _font(pixels: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(pixels)


class _MapCanvas:
    """Image in supersampled pixels; arguments are in drawing coordinates."""

    def __init__(self, size: tuple[int, int]) -> None:
        if min(size) < 64:
            raise ValueError(f"size={size}: a picture needs at least 64 x 64 pixels")
        width, height = size[0] * _SUPERSAMPLE, size[1] * _SUPERSAMPLE
        self.scale = min(width / outlines.WIDTH, height / outlines.HEIGHT)
        self.shift = np.array([width - outlines.WIDTH * self.scale, height - outlines.HEIGHT * self.scale]) / 2
        self.image = Image.new("RGB", (width, height), palette.SEA)
        self.pen = ImageDraw.Draw(self.image)

    def at(self, points: np.ndarray) -> list[tuple[float, float]]:
        return [(float(x), float(y)) for x, y in np.atleast_2d(points) * self.scale + self.shift]

    def fill(self, outline: np.ndarray, color: Color, *, ink: Color | None = None) -> None:
        self.pen.polygon(self.at(outline), fill=color)
        if ink is not None:
            self.line(np.concatenate([outline, outline[:1]]), ink, 1.0)

    def line(self, points: np.ndarray, color: Color, width: float) -> None:
        self.pen.line(self.at(points), fill=color, width=max(round(width * self.scale), 1), joint="curve")

    def disc(self, at: np.ndarray, radius: float, color: Color | None, *, ink: Color | None = None) -> None:
        width = max(round(1.2 * self.scale), 1)
        self.pen.circle(self.at(at)[0], radius * self.scale, fill=color, outline=ink, width=width)

    def board(self, owner: Sequence[int] | np.ndarray) -> None:
        """Draw land in its owners' colours, water, borders, supply centres and names."""
        drawing, board = outlines.standard_drawing(), standard_board()
        colors = {outlines.NO_PROVINCE: palette.NOWHERE}
        for number, code in enumerate(board.provinces):
            centre = int(board.centre_of[number])
            colors[code] = palette.land_color(int(owner[centre]) if centre >= 0 else -1)
            self.fill(drawing.outlines[code], palette.SEA if outlines.is_sea(code) else colors[code])
        for outline in drawing.nowhere:
            self.fill(outline, palette.NOWHERE)
        for outline in drawing.water:
            self.fill(outline, palette.SEA)
        for border in drawing.borders:
            self.line(border.line, *_BORDERS[border.kind])
        for code, outline in drawing.islands:
            self.fill(outline, colors[code], ink=palette.COAST_INK)
        for number, point in enumerate(drawing.centres):
            power = int(owner[number])
            self.disc(point, 4.5, palette.POWER_COLORS[power] if power >= 0 else (255, 255, 255), ink=palette.INK)
        for code, point in zip(board.provinces, drawing.labels, strict=True):
            self.text(point, code)

    def text(self, at: np.ndarray, words: str) -> None:
        font = _font(max(round(11 * self.scale), 8))
        self.pen.text(self.at(at)[0], words, fill=palette.COAST_INK, font=font, anchor="mm")

    def unit(self, unit: int, province: int, shift: np.ndarray | float = 0.0) -> None:
        """Draw an army or a fleet, outlined in red if it has to retreat."""
        point = outlines.standard_drawing().units[unit_location(unit, province)] + shift
        ink = palette.INK if np.isscalar(shift) else palette.FAILURE
        self.piece(point, (unit - 1) % codes.NUM_POWERS, fleet=unit > codes.NUM_POWERS, ink=ink)

    def piece(self, point: np.ndarray, power: int, *, fleet: bool, ink: Color = palette.INK) -> None:
        """Draw a power's army or fleet at any place."""
        color = palette.POWER_COLORS[power]
        if fleet:
            for shape in (HULL, SAIL):
                self.fill(point + np.array(shape), color, ink=ink)
            return
        half = np.array([[-10, -7.5], [10, -7.5], [10, 7.5], [-10, 7.5]])
        self.fill(point + half, color, ink=ink)
        for corner in (0, 1):
            self.line(point + half[[corner, corner + 2]], ink, 1.0)

    def mark(self, mark: arrows.OrderMark) -> None:
        """Draw an order, with a dark edge for contrast with its power's own land."""
        color = palette.POWER_COLORS[mark.outcome.power]
        for ink, width in ((palette.INK, 4.6), (color, 2.6)):
            for piece in self.pieces(mark):
                self.line(piece, ink, width)
            if mark.head == arrows.ARROW and len(mark.line):
                self.head(mark.line, ink, 1.0 if ink == palette.INK else 0.0)
            elif mark.head == arrows.DOT and len(mark.line):
                self.disc(mark.line[-1], 3.6 if ink == palette.INK else 2.6, ink)
        if mark.outcome.kind == "build":
            self.piece(mark.at, mark.outcome.power, fleet=mark.outcome.text.startswith("F"))
        if mark.head == arrows.RING:
            self.disc(mark.at, arrows.UNIT_RADIUS + 3, None, ink=palette.INK)
        if mark.outcome.dislodged:
            self.disc(mark.at, arrows.UNIT_RADIUS + 4, None, ink=palette.FAILURE)
        if mark.cross is not None:
            for slope in (1, -1):
                self.line(mark.cross + np.array([[-5, -5 * slope], [5, 5 * slope]]), palette.FAILURE, 3.2)

    def pieces(self, mark: arrows.OrderMark) -> list[np.ndarray]:
        if not len(mark.line):
            return []
        return arrows.dashes(mark.line, *_DASHES[mark.outcome.kind]) if mark.outcome.kind in _DASHES else [mark.line]

    def head(self, line: np.ndarray, color: Color, edge: float) -> None:
        """Draw a triangle with its tip at the line's end."""
        ahead = line[-1] - line[max(len(line) - 3, 0)]
        ahead = ahead / max(float(np.hypot(*ahead)), 1e-9)
        across = ahead[::-1] * (1, -1)
        back = line[-1] - (9 + edge) * ahead
        tip = line[-1] + (2 + 1.5 * edge) * ahead
        self.pen.polygon(self.at(np.stack([tip, back + (5 + edge) * across, back - (5 + edge) * across])), fill=color)


def gif_bytes(phases: Sequence[Phase], *, size: tuple[int, int] = (640, 480)) -> bytes:
    """Return the game of `phases` (`timeline.phases_of`) as a GIF with one palette, from the first and last picture."""
    moves = [(phase, after) for phase, after in pairwise(phases) if phase["name"].endswith("M")]
    images = [_picture(phase, after, size) for phase, after in moves] + [_picture(phases[-1], None, size)]
    sheet = Image.new("RGB", (size[0], size[1] * 2))
    sheet.paste(images[0], (0, 0))
    sheet.paste(images[-1], (0, size[1]))
    palette = sheet.quantize(COLORS, method=Image.Quantize.MEDIANCUT)
    first, *rest = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    durations, written = [PHASE_MS] * len(rest) + [HOLD_MS], BytesIO()
    first.save(written, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0, optimize=True)
    return written.getvalue()


def _picture(phase: Phase, after: Phase | None, size: tuple[int, int]) -> Image.Image:
    """Draw a phase with its title, and with its orders if the phase `after` it is given."""
    orders = arrows.marks(phase, order_outcomes(phase, after)) if after else []
    picture = Image.fromarray(
        draw_position(phase["units"], phase["owner"], dislodged=phase["dislodged"], orders=orders, size=size)
    )
    font = ImageFont.load_default(max(size[1] // 28, 11))
    ImageDraw.Draw(picture).text((8, 6), phase_title(phase["name"]), fill=INK, font=font)
    return picture
